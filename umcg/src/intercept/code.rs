//! Code that is mapped while the program runs: libraries that are loaded later, and what compilers
//! in the process write.

use super::class::Watched;
use super::stage::Stage;
use super::{descriptor, signal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_intercept::{Call, forget, look_again};

/// Code was mapped that the engine has not seen whole yet.
static IS_UNSEEN: AtomicBool = AtomicBool::new(false);

/// The arguments of mmap and mprotect that hold the protection.
const PROTECTION: usize = 2;

pub(super) fn begin(call: &mut Call, watched: Watched) -> Stage {
    match watched {
        Watched::Map | Watched::MapFile | Watched::Protect
            if call.arguments[PROTECTION] as i32 & libc::PROT_EXEC != 0 =>
        {
            Stage::Map
        }
        Watched::Unmap => {
            let [at, bytes, ..] = call.arguments;
            forget(at..at.saturating_add(bytes));
            Stage::Native
        }
        Watched::Close | Watched::Replace | Watched::CloseRange => descriptor::begin(call, watched),
        Watched::SignalFd => {
            signal::keep_go_out(call);
            Stage::Native
        }
        other if other.is_in_place() => Stage::Native,
        _ => Stage::Home,
    }
}

/// The kernel has mapped code.
pub(super) fn mapped() {
    IS_UNSEEN.store(true, Relaxed);
    look();
}

/// Whether code was mapped that is not seen whole yet.
#[inline(always)]
pub(super) fn is_unseen() -> bool {
    IS_UNSEEN.load(Relaxed)
}

/// Looks for code that was mapped, if there may be some. While the dynamic linker is at work, the
/// look comes later.
#[inline(always)]
pub(super) fn look() {
    if IS_UNSEEN.load(Relaxed) {
        look_now();
    }
}

#[cold]
extern "C" fn look_now() {
    IS_UNSEEN.store(false, Relaxed);
    if look_again().unfinished {
        IS_UNSEEN.store(true, Relaxed);
    }
}
