//! Masks of guests and of servers, and the signals that the library keeps for itself.

use super::super::freed;
use super::super::guest::{self, Guest};
use super::super::memory::{self, FAULT};
use std::ffi::c_int;
use std::ptr::from_ref;
use umcg_core::{FAULTS, call};

const EINVAL: isize = -(libc::EINVAL as isize);

/// The signal that wakes homes, and the one of the tick.
pub(super) const GO: c_int = libc::SIGSTKFLT;
pub(super) const TICK: c_int = libc::SIGURG;
pub(super) const SIGSETXID: c_int = 33;

pub(super) const fn only(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The kernel takes them out of each mask.
const UNBLOCKABLE: u64 = only(libc::SIGKILL) | only(libc::SIGSTOP);

/// All that a kernel thread blocks that is closed.
pub(super) const CLOSED: u64 = !only(SIGSETXID);

/// The guest's mask before a call that blocks all signals and does not ask for the mask: the C
/// library makes it where a thread ends.
pub(in crate::intercept) fn mask_at_end([how, new, old, bytes, ..]: [usize; 6]) -> Option<u64> {
    let is_it = how as c_int == libc::SIG_BLOCK
        && old == 0
        && bytes == size_of::<u64>()
        && memory::read::<u64>(new).is_some_and(|set| set | only(SIGSETXID) == u64::MAX);
    is_it.then(mask)
}

/// The calling guest's mask.
pub(in crate::intercept) fn mask() -> u64 {
    let noted = || Guest::current().and_then(Guest::closed_mask);
    noted().unwrap_or_else(|| {
        let kernels = change(libc::SIG_BLOCK, 0) & !only(GO);
        // A signal may have closed the guest before the kernel was asked.
        noted().unwrap_or(kernels)
    })
}

/// The process ends with its last thread: its functions for that run with the mask that the thread
/// had before it began to end.
pub(in crate::intercept) fn open_for_exit(mask: u64) {
    let go = guest::adopted().map_or(0, |_| only(GO));
    change(libc::SIG_SETMASK, mask | go);
}

/// rt_sigprocmask(2) of a guest. None if the kernel is to do it. `frees` is set if signals may have
/// waited for this: they are to be delivered before the call returns.
pub(in crate::intercept) fn set_mask(arguments: [usize; 6], frees: &mut bool) -> Option<isize> {
    let adopted = guest::adopted()?;
    let [how, new, old, bytes, ..] = arguments;
    if bytes != size_of::<u64>() {
        return Some(EINVAL);
    }
    let new = match new {
        0 => None,
        _ => match memory::read::<u64>(new) {
            Some(new) => Some(new & !UNBLOCKABLE),
            None => return Some(FAULT),
        },
    };
    let before = mask();
    if let Some(new) = new {
        let next = match how as c_int {
            libc::SIG_BLOCK => before | new,
            libc::SIG_UNBLOCK => before & !new,
            libc::SIG_SETMASK => new,
            _ => return Some(EINVAL),
        };
        if adopted.is_away() && freed::may_free(adopted, before & !next, next) {
            // No signal has waited for this.
        } else if adopted.is_closed() {
            adopted.set_mask(next);
            *frees = before & !next != 0;
        } else {
            change(libc::SIG_SETMASK, next | only(GO));
            if let Some(guest) = Guest::current() {
                guest.note_mask(next);
            }
            // A signal that came just before has closed, with the mask before as the guest's.
            if adopted.is_closed() {
                adopted.set_mask(next);
            }
        }
    }
    Some(if old == 0 || memory::write(old, before) {
        0
    } else {
        FAULT
    })
}

/// The guest, which is plain, is about to make this call of rt_sigprocmask(2).
pub(in crate::intercept) fn note_next_mask(guest: &Guest, [how, new, _, bytes, ..]: [usize; 6]) {
    if new == 0 || bytes != size_of::<u64>() {
        return;
    }
    match (how as c_int, memory::read::<u64>(new)) {
        (libc::SIG_SETMASK, Some(mask)) => guest.note_mask(mask),
        (libc::SIG_BLOCK, Some(mask)) if mask & FAULTS != 0 => guest.note_mask(mask),
        (libc::SIG_UNBLOCK, Some(mask)) if mask & FAULTS == FAULTS => guest.note_mask(0),
        _ => {}
    }
}

/// The mask of servers: they get the tick, what the C library sends to all threads, and the faults
/// of the guests that they run.
const SERVERS: u64 = !(only(TICK)
    | only(SIGSETXID)
    | only(libc::SIGSEGV)
    | only(libc::SIGBUS)
    | only(libc::SIGFPE)
    | only(libc::SIGILL)
    | only(libc::SIGTRAP)
    | only(libc::SIGSYS)
    | only(libc::SIGABRT));

/// Calls `f`, which starts servers, with their mask.
pub(in crate::intercept) fn as_servers<R>(f: impl FnOnce() -> R) -> R {
    let before = change(libc::SIG_SETMASK, SERVERS);
    let result = f();
    change(libc::SIG_SETMASK, before);
    result
}

/// Whether this is the mask of servers.
pub(super) fn is_servers(mask: u64) -> bool {
    /// The C library unblocks it in each thread that it makes.
    const SIGCANCEL: u64 = only(32);
    (mask ^ SERVERS) & !(UNBLOCKABLE | SIGCANCEL) == 0
}

/// Lets the calling thread, the courier, get requests of other processes.
pub(in crate::intercept) fn let_requests_through() {
    change(libc::SIG_UNBLOCK, only(TICK));
}

/// Changes the kernel's mask, and returns the one before.
pub(in crate::intercept) fn change(how: c_int, mask: u64) -> u64 {
    let mut before = 0u64;
    let arguments = [
        how as usize,
        from_ref(&mask).expose_provenance(),
        (&raw mut before).expose_provenance(),
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: two sets of signals.
    unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
    before
}

/// In the child of a fork, which has no home to be woken. `kept` is the guest's mask, if the kernel
/// does not have it.
pub(in crate::intercept) fn forget_go(kept: Option<u64>) {
    match kept {
        Some(mask) => change(libc::SIG_SETMASK, mask),
        None => change(libc::SIG_UNBLOCK, only(GO)),
    };
}
