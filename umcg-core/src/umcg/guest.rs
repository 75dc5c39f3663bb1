//! Guests: threads whose system calls are intercepted.
//!
//! The layer that intercepts keeps a state for each, which a word of the thread's storage names.
//! Its first field is for this crate: while the guest is *inside* that layer, its worker is not
//! preempted.
use crate::os::signal;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_context::local;

/// The signals of faults at an address.
pub const FAULTS: u64 = signal::only(libc::SIGSEGV) | signal::only(libc::SIGBUS);

/// The head of a guest's state.
#[repr(C)]
#[derive(Debug, Default)]
pub struct GuestHead {
    /// First: the engine of interception reads it. The guest is at home, and open, and its hook has
    /// nothing to do for calls that only have to be made there. Written by the guest, and by its
    /// handlers. May be false at any time.
    is_at_home: AtomicBool,
    /// The guest is in the layer that intercepts. Written by the guest.
    pub is_inside: AtomicBool,
    /// The C library's handler of SIGSETXID runs on the home thread, with the guest's storage. The
    /// guest itself may run on a server meanwhile. Written by the home thread.
    has_handler: AtomicBool,
    /// The mask that the kernel has for the guest, at home and open, may block signals of faults.
    blocks_faults: AtomicBool,
}

impl GuestHead {
    /// A head of a guest that does not block signals of faults.
    pub const fn new(is_inside: bool) -> GuestHead {
        GuestHead {
            is_at_home: AtomicBool::new(false),
            is_inside: AtomicBool::new(is_inside),
            has_handler: AtomicBool::new(false),
            blocks_faults: AtomicBool::new(false),
        }
    }

    /// Notes whether calls that only have to be made at home need the hook no more. The caller is
    /// the guest, inside, and leaves next: a signal that has come meanwhile ends it again.
    #[inline]
    pub fn note_home(&self, is_at_home: bool) {
        self.is_at_home.store(is_at_home, Relaxed);
    }

    /// Whether a flow with the guest's storage may be a handler on its home thread, and not the
    /// guest.
    #[inline]
    pub fn has_handler(&self) -> bool {
        self.has_handler.load(Relaxed)
    }

    /// Notes the mask that the guest's kernel thread has at home. Called before the kernel has it,
    /// if it blocks more than the last one, else after that.
    #[inline]
    pub fn note_mask(&self, mask: u64) {
        self.blocks_faults.store(mask & FAULTS != 0, Relaxed);
    }

    /// Whether the mask that was noted last blocks signals of faults.
    #[inline]
    pub fn blocks_faults(&self) -> bool {
        self.blocks_faults.load(Relaxed)
    }
}

#[inline]
pub(super) fn head() -> Option<&'static GuestHead> {
    // SAFETY: null, or a state that begins with a head, which is never freed.
    unsafe { local::guest().cast::<GuestHead>().as_ref() }
}

/// Notes that the calling guest, if the caller is one, leaves its home or is closed there.
pub(super) fn note_closed() {
    if let Some(head) = head() {
        head.note_home(false);
    }
}

/// Notes the mask of the calling guest, if the caller is one.
pub(super) fn note_mask(mask: u64) {
    if let Some(head) = head() {
        head.note_mask(mask);
    }
}

/// A handler of the library's that a guest runs: inside, until this is dropped. So the calls of the
/// C library's functions in it are none of the guest's.
pub(crate) struct GuestStay(Option<&'static GuestHead>);

impl GuestStay {
    pub(crate) fn begin() -> GuestStay {
        let head = head().filter(|head| !head.is_inside.load(Relaxed));
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

/// Calls the C library's handler of SIGSETXID on the kernel thread of a guest. The guest may run on
/// a server, so its flag [`is_inside`](GuestHead::is_inside) is left alone. Called with all signals
/// blocked.
pub(super) fn beside(handler: &mut dyn FnMut()) {
    let Some(head) = head() else {
        return handler();
    };
    head.has_handler.store(true, Relaxed);
    handler();
    head.has_handler.store(false, Relaxed);
}

/// Whether the flow that the caller interrupts is a guest inside the layer that intercepts.
pub(crate) fn is_inside() -> bool {
    head().is_some_and(|head| head.is_inside.load(Relaxed))
}
