//! Events in segments.

use super::{Opening, object};
use crate::answer::errno_of;
use crate::object::{boxed, methods, unboxed};
use crate::sync::event::{MANUAL, SET};
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EINVAL, c_char, c_int, ssize_t};
use umcg::segment::{Event, TryError};

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

fn wait_for(event: &Event, deadline_ns: u64) -> Result<(), c_int> {
    match event.try_wait() {
        Err(TryError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => event.wait().map_err(errno_of),
            Some(at) => event.wait_deadline(at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
    }
}

methods! {
    Event {
        umcg_segment_event_set() -> c_int = Event::set;
        umcg_segment_event_pulse() -> c_int = Event::pulse;
        umcg_segment_event_reset() -> c_int = Event::reset;
        umcg_segment_event_is_set() -> c_int = Event::is_set;
        umcg_segment_event_waiters() -> ssize_t = Event::waiters;
        umcg_segment_event_trywait() -> c_int = Event::try_wait;
        umcg_segment_event_wait() -> c_int = |event| wait_for(event, NO_TIMEOUT);
        umcg_segment_event_wait_until(deadline_ns: u64) -> c_int
            = |event| wait_for(event, deadline_ns);
    }
}
