//! Fork: the child has one plain thread, no servers and no workers.
//!
//! Around a fork all of our locks are held, so that the child finds none of them taken by a thread
//! that it does not have. They are taken in the order in which they nest.

use crate::umcg::{Owner, WORKERS, group, helper, light, preempt, server, set_role, thread};
use crate::uth::vp;
use crate::{Granted, everywhere, granted, identity, storage};
use rustix::io::Errno;
use umcg_context::stack;

/// Registers the handlers, once a process.
pub(crate) fn install() -> Result<(), Errno> {
    static INSTALLED: Granted<()> = Granted::new();
    // SAFETY: the handlers are functions of ours that may run in any thread.
    let install =
        || granted(unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) });
    INSTALLED
        .get_or_ask(install)
        .copied()
        .map_err(Errno::from_raw_os_error)
}

unsafe extern "C" fn prepare() {
    identity::before_fork();
    preempt::before_fork();
    group::before_fork();
    helper::POOL.before_fork();
    light::before_fork();
    thread::SPARE.take();
    server::SPARE.take();
    vp::SPARE.take();
    storage::before_fork();
    stack::before_fork();
}

unsafe extern "C" fn parent() {
    // SAFETY: `prepare` ran in this thread.
    unsafe { release(false) };
}

unsafe extern "C" fn child() {
    // SAFETY: `prepare` ran in the thread that this one is a copy of.
    unsafe { release(true) };
    identity::forked_in_child();
    everywhere::forked_in_child();
    thread::forked_in_child();
    WORKERS.clear();
    vp::forked_in_child();
    set_role(Owner::Nobody);
}

/// # Safety
/// `prepare` ran in this thread, once.
unsafe fn release(in_child: bool) {
    // SAFETY: passed on.
    unsafe { stack::forked() };
    // SAFETY: passed on.
    unsafe { storage::forked() };
    // SAFETY: passed on.
    drop(unsafe { vp::SPARE.adopt() });
    // SAFETY: passed on.
    drop(unsafe { server::SPARE.adopt() });
    // SAFETY: passed on.
    drop(unsafe { thread::SPARE.adopt() });
    // SAFETY: passed on.
    unsafe { light::forked() };
    // SAFETY: passed on.
    unsafe { helper::POOL.forked(in_child) };
    // SAFETY: passed on.
    unsafe { group::forked(in_child) };
    // SAFETY: passed on.
    unsafe { preempt::forked(in_child) };
}
