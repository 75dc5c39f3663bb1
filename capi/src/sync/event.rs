//! Events.

use super::{init, named, wait_until};
use crate::rt::{NO_TIMEOUT, status, value};
use libc::{EAGAIN, EINVAL, c_int};
use umcg::sync::Event;

// `umcg_event_t`.
const _: () = assert!(size_of::<Event>() == 16 && align_of::<Event>() == 8);

/// Flags, also of events in segments.
pub(crate) const SET: c_int = 1;
pub(crate) const MANUAL: c_int = 4;

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_init(event: *mut Event, flags: c_int) -> c_int {
    let is_set = flags & SET != 0;
    let made = match flags & !SET {
        0 => Ok(Event::auto(is_set)),
        MANUAL => Ok(Event::manual(is_set)),
        _ => Err(EINVAL),
    };
    // SAFETY: passed on.
    unsafe { init(event, made) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_set(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.map(Event::set))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_pulse(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.map(Event::pulse))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_reset(event: *const Event) -> c_int {
    // SAFETY: passed on.
    value(
        unsafe { named(event) }.map(|event| event.reset().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_is_set(event: *const Event) -> c_int {
    // SAFETY: passed on.
    value(
        unsafe { named(event) }.map(|event| event.is_set().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_trywait(event: *const Event) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.and_then(|event| event.try_wait().then_some(()).ok_or(EAGAIN)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_wait(event: *const Event) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_event_wait_until(event, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_event_wait_until(event: *const Event, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(event) }.and_then(|event| {
        if event.try_wait() {
            return Ok(());
        }
        wait_until(
            deadline_ns,
            || event.wait(),
            |deadline| event.wait_deadline(deadline),
        )
    }))
}
