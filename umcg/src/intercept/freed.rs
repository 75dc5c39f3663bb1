//! Changes of the mask by guests that are away. The C library blocks all signals while it makes or
//! ends a thread, and frees them again: neither is worth a way home.
//!
//! A guest that frees signals goes home, and is opened there, if one of them may have come before:
//!
//! - the home was not looking for it all the time, or has found one that was blocked, or
//! - a guest has sent any signal since this one last looked (`sent.1`).
//!
//! A signal from another process that came within the last microseconds, and that the home has not
//! seen yet, is delivered right after the call in place of before its end.
//!
//! The home is told of the mask by the next call that is none of those ([`tell`]), or by the tick.
//! That of a new guest, which may end soon, hears of its first mask later: see `untold`.

use super::guest::{self, Guest};
use super::untold;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg_core::raw;

/// How many signals guests have sent.
static SENT: AtomicU64 = AtomicU64::new(0);

/// The calling guest, which is away, sets this mask, and frees these signals. True if the mask was
/// set, as none of them has come. Signals that the program's threads send are counted before they
/// are sent (`sent.1`).
pub(super) fn may_free(adopted: raw::Adopted, freed: u64, mask: u64) -> bool {
    let Some(guest) = Guest::current() else {
        return false;
    };
    let home = &guest.home;
    // The mask that a thread begins with in the program's eyes: a signal that waits for the process
    // may as well go to the maker.
    let is_fresh = home.is_fresh.load(Relaxed);
    if freed != 0 && !is_fresh {
        // ORDERING(sent.2): Acquire, pairs with sent.1.
        let sent = SENT.load(Acquire);
        if home.sent.swap(sent, Relaxed) != sent || adopted.may_have_come(freed) {
            return false;
        }
    }
    adopted.set_mask_untold(mask);
    if is_fresh {
        home.is_fresh.store(false, Relaxed);
        untold::note_first_mask(guest);
    } else {
        home.is_untold.store(true, Relaxed);
    }
    true
}

/// A guest is about to send a signal.
pub(super) fn note_sent() {
    // ORDERING(sent.1): Release, pairs with sent.2: a guest that learns of it otherwise sees it
    // counted.
    SENT.fetch_add(1, Release);
}

/// The calling guest is away, and will not end with this call: its home is to look for the signals
/// that it wants.
#[cold]
pub(super) extern "C" fn tell(guest: &Guest) {
    guest.home.is_untold.store(false, Relaxed);
    if let Some(adopted) = guest::adopted().filter(|adopted| adopted.is_away()) {
        adopted.tell();
    }
}
