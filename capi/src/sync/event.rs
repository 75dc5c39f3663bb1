//! Events.

use crate::answer::require;
use crate::object::{init, methods};
use crate::wait::{NO_TIMEOUT, wait_until};
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

fn wait_for(event: &Event, deadline_ns: u64) -> Result<(), c_int> {
    if event.try_wait() {
        return Ok(());
    }
    wait_until(
        deadline_ns,
        || event.wait(),
        |deadline| event.wait_deadline(deadline),
    )
}

methods! {
    Event {
        umcg_event_set() -> c_int = Event::set;
        umcg_event_pulse() -> c_int = Event::pulse;
        umcg_event_reset() -> c_int = Event::reset;
        umcg_event_is_set() -> c_int = Event::is_set;
        umcg_event_trywait() -> c_int = |event| require(event.try_wait(), EAGAIN);
        umcg_event_wait() -> c_int = |event| wait_for(event, NO_TIMEOUT);
        umcg_event_wait_until(deadline_ns: u64) -> c_int = |event| wait_for(event, deadline_ns);
    }
}
