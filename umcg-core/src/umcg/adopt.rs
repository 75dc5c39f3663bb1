//! How a pthread becomes an [adopted](super::adopted) worker, and how it ends.

use super::adopted::home;
use super::adoption::GO;
use super::group::Group;
use super::idle::state;
use super::thread::{self, Reservation};
use super::worker::{Carrier, Worker};
use super::{Owner, set_role};
use crate::os::signal;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// Makes the calling pthread an adopted worker, at home and open. Its flow goes on as before.
pub(crate) fn adopt(
    reserved: Reservation,
    group: &'static Group,
    id: u64,
) -> Result<&'static Worker, Errno> {
    if thread::carrier() != Carrier::Moving {
        return Err(Errno::NOSYS);
    }
    // The C library is not asked where the stack is: the caller may hold a lock of it.
    let worker = thread::prepare(reserved, group, id, 0..0)?;
    let adoption = &home(worker).adoption;
    adoption.is_called.store(false, Relaxed);
    adoption.is_closed.store(false, Relaxed);
    adoption.is_adopted.store(true, Relaxed);
    signal::block(signal::only(GO));
    worker.node.set_state(state::BLOCKED);
    set_role(Owner::Worker(worker));
    Ok(worker)
}

/// Makes the calling worker, which is at home, a plain thread again.
pub(crate) fn end(worker: &'static Worker) {
    set_role(Owner::Nobody);
    home(worker).adoption.is_adopted.store(false, Relaxed);
    worker.node.set_state(state::GONE);
    thread::retire(worker);
}
