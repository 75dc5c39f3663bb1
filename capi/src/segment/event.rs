//! Events in segments.

use super::sem::{errno_of_try, errno_of_wait};
use super::{Opening, boxed, errno_of_fault, named, object, unboxed, wait};
use crate::rt::{NO_TIMEOUT, status, value};
use crate::sync::event::{MANUAL, SET};
use libc::{EAGAIN, EINVAL, c_char, c_int, ssize_t};
use umcg::segment::Event;

fn try_wait(event: &Event) -> Result<(), c_int> {
    event.try_wait().map_err(errno_of_try)
}

/// # Safety
/// As `object`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event(
    opening: *const Opening,
    name: *const c_char,
    flags: c_int,
) -> *mut Event {
    if flags & !(SET | MANUAL) != 0 {
        return boxed(Err(EINVAL));
    }
    let is_set = flags & SET != 0;
    let make = |opening: &Opening, name: &str| match flags & MANUAL {
        0 => opening.segment.auto_event(name, is_set),
        _ => opening.segment.manual_event(name, is_set),
    };
    // SAFETY: passed on.
    unsafe { object(opening, name, make) }
}

/// # Safety
/// As `unboxed`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_free(event: *mut Event) {
    // SAFETY: passed on.
    unsafe { unboxed(event) };
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_set(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.and_then(|event| event.set().map_err(errno_of_fault)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_pulse(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.and_then(|event| event.pulse().map_err(errno_of_fault)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_reset(event: *const Event) -> c_int {
    // SAFETY: passed on.
    value(
        unsafe { named(event) }
            .and_then(|event| event.reset().map(c_int::from).map_err(errno_of_fault)),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_is_set(event: *const Event) -> c_int {
    // SAFETY: passed on.
    value(
        unsafe { named(event) }.map(|event| event.is_set().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_waiters(event: *const Event) -> ssize_t {
    // SAFETY: passed on.
    let waiters = unsafe { named(event) }.and_then(|event| event.waiters().map_err(errno_of_fault));
    // There are at most as many as a segment has records.
    value(waiters.map(|waiters| waiters as ssize_t), -1)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_trywait(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.and_then(try_wait))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_wait(event: *const Event) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_event_wait_until(event, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_event_wait_until(event: *const Event, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { named(event) }.and_then(|event| match try_wait(event) {
            Err(EAGAIN) => wait(deadline_ns, |deadline| match deadline {
                None => event.wait().map_err(errno_of_fault),
                Some(at) => event.wait_deadline(at).map_err(errno_of_wait),
            }),
            tried => tried,
        }),
    )
}
