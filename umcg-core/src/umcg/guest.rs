//! Guests: threads whose system calls are intercepted.
//!
//! The layer that intercepts keeps a state for each, which a word of the thread's storage names.
//! Its first field is for this crate: while the guest is *inside* that layer, its worker is not
//! preempted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_context::local;

/// The head of a guest's state.
#[repr(C)]
#[derive(Debug, Default)]
pub struct GuestHead {
    /// The guest is in the layer that intercepts. Written by the guest.
    pub is_inside: AtomicBool,
}

/// A handler of the library's that a guest runs: inside, until this is dropped. So the calls of the
/// C library's functions in it are none of the guest's.
pub(crate) struct GuestStay(Option<&'static GuestHead>);

impl GuestStay {
    pub(crate) fn begin() -> GuestStay {
        // SAFETY: null, or a state that begins with a head, which is never freed.
        let head = unsafe { local::guest().cast::<GuestHead>().as_ref() };
        let head = head.filter(|head| !head.is_inside.load(Relaxed));
        if let Some(head) = head {
            head.is_inside.store(true, Relaxed);
        }
        GuestStay(head)
    }
}

impl Drop for GuestStay {
    fn drop(&mut self) {
        if let Some(head) = self.0 {
            head.is_inside.store(false, Relaxed);
        }
    }
}

/// Whether the flow that the caller interrupts is a guest inside the layer that intercepts.
pub(crate) fn is_inside() -> bool {
    // SAFETY: null, or a state that begins with a head.
    unsafe { local::guest().cast::<GuestHead>().as_ref() }
        .is_some_and(|head| head.is_inside.load(Relaxed))
}
