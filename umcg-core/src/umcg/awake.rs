//! The home thread's part in [`homes`](super::homes): its loop takes the storage of a new worker, and
//! ends the thread when that is to be. It runs on the home's own stack, and touches no storage.

use super::adopted;
use super::worker::{Home, Worker};
use crate::base::call::call;
use std::ptr::from_ref;
use std::sync::atomic::Ordering::*;

/// Called by the loop at home whenever it wakes: takes the storage of its worker, and ends the
/// thread if it is to be retired.
pub(super) fn awake(worker: &'static Worker, home: &'static Home) {
    // ORDERING(retires.2): Acquire, pairs with retires.1.
    if home.adoption.retires.load(Acquire) {
        end(home);
    }
    take_storage(worker, home);
}

/// Gives the kernel thread, which runs the loop at home, the storage of its worker.
pub(super) fn take_storage(worker: &'static Worker, home: &'static Home) {
    let storage = worker.tp.load(Relaxed);
    if home.adoption.storage.load(Relaxed) != storage {
        // SAFETY: the loop touches no storage.
        unsafe { umcg_context::set_thread_pointer(storage) };
        // ORDERING(storage.2): Release, pairs with storage.1.
        home.adoption.storage.store(storage, Release);
    }
}

/// Ends the kernel thread. On the home's stack, which is not freed before `alive` is 0.
fn end(home: &'static Home) -> ! {
    const HEAD: usize = 24;
    adopted::give_back_signals(home);
    let alive = from_ref(&home.adoption.alive).expose_provenance();
    let name = c"umcg-home".as_ptr().expose_provenance();
    let calls = [
        (libc::SYS_prctl, [libc::PR_SET_NAME as usize, name]),
        // The addresses that the kernel looks at are those of a thread that has ended.
        (libc::SYS_set_robust_list, [0, HEAD]),
        (libc::SYS_set_tid_address, [alive, 0]),
    ];
    for (number, [first, second]) in calls {
        // SAFETY: a name, no list, and a word that lives for ever.
        unsafe { call(number, [first, second, 0, 0, 0, 0]) };
    }
    loop {
        // SAFETY: nothing on this stack is used after.
        unsafe { call(libc::SYS_exit, [0; 6]) };
    }
}
