//! Requests from other processes, which come by the signal of the tick with a value
//! (rt_tgsigqueueinfo): no handler of the program's sees them.

use super::preempt;
use rustix::io::Errno;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Called with the value of a request, in a signal handler of any thread.
pub(crate) type RequestHandler = fn(usize);

static HANDLER: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Sets the function that requests are told to.
pub(crate) fn set(handler: RequestHandler) -> Result<(), Errno> {
    HANDLER.store(handler as *mut (), Relaxed);
    preempt::install_handler()
}

/// Called by the handler of the tick: tells the function if the signal is a request.
#[inline]
pub(super) fn look(signal: &libc::siginfo_t) -> &libc::siginfo_t {
    if signal.si_code == libc::SI_QUEUE {
        tell(signal);
    }
    signal
}

#[cold]
fn tell(signal: &libc::siginfo_t) {
    let handler = HANDLER.load(Relaxed);
    if handler.is_null() {
        return;
    }
    // SAFETY: `set` has stored a `RequestHandler`.
    let handler = unsafe { std::mem::transmute::<*mut (), RequestHandler>(handler) };
    // SAFETY: a queued signal has a value.
    handler(unsafe { signal.si_value() }.sival_ptr.addr());
}
