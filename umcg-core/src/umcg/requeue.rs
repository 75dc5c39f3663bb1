//! Sending a signal again that was taken or has come, to the calling kernel thread or its process.
//! The caller blocks the signal.
//!
//! Real-time signals of one number are a queue, and a signal that is sent again goes to its end. So
//! the others of the number are taken, too, and all are sent again in their order.

use super::addressee::is_one_thread;
use super::adoption::process;
use crate::base::call::call;
use crate::base::sync::Lock;
use crate::os::signal::{only, take_pending};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The first real-time signal, for the kernel.
const FIRST_QUEUED: c_int = 32;
/// The most signals that are put in order. Further ones keep their order among themselves.
const MOST: usize = 1024;

/// A taken signal's information.
struct Taken(MaybeUninit<libc::siginfo_t>);

// SAFETY: bytes that the kernel has written and reads. Its pointers are not followed.
unsafe impl Send for Taken {}

/// Signals that were taken, while they are sent again. A bare lock: its holder is a home thread, or
/// a handler with all signals blocked.
static QUEUE: Lock<[Taken; MOST]> = Lock::new([const { Taken(MaybeUninit::uninit()) }; MOST]);

/// Sends it to the calling kernel thread. Touches no thread-local storage.
pub(crate) fn to_thread(number: c_int, information: *const libc::siginfo_t) {
    // SAFETY: no arguments.
    let thread = unsafe { call(libc::SYS_gettid, [0; 6]) } as usize;
    if number < FIRST_QUEUED {
        return send(thread, number, information);
    }
    let mut queue = QUEUE.lock();
    let mut count = 0;
    while count < MOST && take_next(number, &mut queue[count]) {
        count += 1;
    }
    send(thread, number, information);
    for next in &queue[..count] {
        send(thread, number, next.0.as_ptr());
    }
}

/// Sends it to the process.
pub(super) fn to_process(number: c_int, information: *const libc::siginfo_t) {
    let at = information.expose_provenance();
    let arguments = [process(), number as usize, at, 0, 0, 0];
    // SAFETY: information that the kernel has given.
    if unsafe { call(libc::SYS_rt_sigqueueinfo, arguments) } < 0 {
        // The kernel's own information may only be given to the calling thread.
        // SAFETY: a signal that has been sent to the process before.
        unsafe { call(libc::SYS_kill, [process(), number as usize, 0, 0, 0, 0]) };
    }
}

/// Sends to the process what a home has taken off the process's queue for its own thread, which is
/// about to end and has not let it through.
pub(crate) fn give_back() {
    // Where the call is refused each may be pending, and is asked for.
    let mut signals = u64::MAX;
    let place = (&raw mut signals).expose_provenance();
    // SAFETY: room for a set of signals.
    unsafe {
        call(
            libc::SYS_rt_sigpending,
            [place, size_of::<u64>(), 0, 0, 0, 0],
        )
    };
    if signals == 0 {
        return;
    }
    // The process's own are taken, too, and sent again in their order.
    let mut queue = QUEUE.lock();
    let mut count = 0;
    while count < MOST && take_pending(signals, Some(&mut queue[count].0)) > 0 {
        count += 1;
    }
    for taken in &queue[..count] {
        // SAFETY: the kernel has written it.
        let information = unsafe { taken.0.assume_init_ref() };
        if !is_one_thread(information) {
            to_process(information.si_signo, information);
        }
    }
}

/// Takes the next pending signal of this number. False if there is none.
fn take_next(number: c_int, place: &mut Taken) -> bool {
    take_pending(only(number), Some(&mut place.0)) == number as isize
}

/// Sends it to this thread of the process.
pub(super) fn send(thread: usize, number: c_int, information: *const libc::siginfo_t) {
    let at = information.expose_provenance();
    let arguments = [process(), thread, number as usize, at, 0, 0];
    // SAFETY: information that the kernel has given, for the calling thread.
    if unsafe { call(libc::SYS_rt_tgsigqueueinfo, arguments) } < 0 {
        // The queue is full: at least the signal itself is kept.
        // SAFETY: the calling thread.
        unsafe {
            call(
                libc::SYS_tgkill,
                [process(), thread, number as usize, 0, 0, 0],
            )
        };
    }
}
