//! Taking signals that wait to be delivered, by system calls that touch no thread-local storage.

use crate::base::call::call;
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null, null_mut};

/// Takes a signal of this set that is pending for the calling thread, with its information if there
/// is room for that. Returns its number, or the negative number of an error: EAGAIN if there is no
/// such signal.
pub fn take_pending(signals: u64, information: Option<&mut MaybeUninit<libc::siginfo_t>>) -> isize {
    const AT_ONCE: [u64; 2] = [0; 2];
    wait(signals, information, &AT_ONCE)
}

/// The same, but waits for one.
pub(crate) fn wait_for(signals: u64, information: &mut MaybeUninit<libc::siginfo_t>) -> isize {
    wait(signals, Some(information), null())
}

fn wait(
    signals: u64,
    information: Option<&mut MaybeUninit<libc::siginfo_t>>,
    time: *const [u64; 2],
) -> isize {
    let information = information.map_or(null_mut(), MaybeUninit::as_mut_ptr);
    let arguments = [
        from_ref(&signals).expose_provenance(),
        information.expose_provenance(),
        time.expose_provenance(),
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: a set of 64 bits; room for the information, or none; a time, or none.
    unsafe { call(libc::SYS_rt_sigtimedwait, arguments) }
}
