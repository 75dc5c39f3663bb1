//! How a pthread becomes an [adopted](super::adopted) worker, and how it ends.

use super::adopted::home;
use super::adoption::{GO, process};
use super::group::Group;
use super::idle::state;
use super::thread::{self, Reservation};
use super::worker::{Carrier, Worker};
use super::{Owner, set_role};
use crate::base::call::call;
use crate::identity;
use crate::os::signal;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed, Ordering::Release};

/// Makes the calling pthread an adopted worker, at home and open. Its flow goes on as before.
pub(crate) fn adopt(
    reserved: Reservation,
    group: &'static Group,
    id: u64,
) -> Result<&'static Worker, Errno> {
    if thread::carrier() != Carrier::Moving || !can_wait_for_signals() {
        return Err(Errno::NOSYS);
    }
    // The C library is not asked where the stack is: the caller may hold a lock of it.
    let worker = thread::prepare(reserved, group, id, 0..0)?;
    let adoption = &home(worker).adoption;
    adoption.forget_last();
    adoption.rests.store(false, Relaxed);
    adoption.is_marked.store(false, Relaxed);
    adoption.is_changed.store(false, Relaxed);
    adoption.retires.store(false, Relaxed);
    adoption.storage.store(worker.tp.load(Relaxed), Relaxed);
    // ORDERING(adopted.1): Release, pairs with adopted.2: the descriptor is a home's from here on.
    adoption.is_adopted.store(true, Release);
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

/// Whether a home thread can wait and be woken as it is: a filter of system calls may forbid that.
fn can_wait_for_signals() -> bool {
    /// 0 not asked yet, 1 yes, 2 no.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    if ANSWER.load(Relaxed) == 0 {
        ANSWER.store(if is_wait_allowed() { 1 } else { 2 }, Relaxed);
    }
    ANSWER.load(Relaxed) == 1
}

fn is_wait_allowed() -> bool {
    const EAGAIN: isize = -(libc::EAGAIN as isize);
    let result = signal::take_pending(signal::only(GO), None);
    // SAFETY: no signal.
    let may_wake = unsafe {
        call(
            libc::SYS_tgkill,
            [process(), identity::tid() as usize, 0, 0, 0, 0],
        )
    };
    (result == EAGAIN || result == GO as isize) && may_wake == 0
}
