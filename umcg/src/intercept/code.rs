//! Code that is mapped while the program runs: libraries that are loaded later, and what compilers
//! in the process write.

use super::class::Watched;
use super::guest::Guest;
use super::stage::{Stage, answered};
use super::suspend::let_others_run;
use super::{descriptor, net, signal};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use umcg_core::call as make;
use umcg_intercept::{Call, forget, look_again};

/// How many times code was mapped, times four, [`UNSEEN`], and [`CATCHES`]. The first of these bits
/// goes only when a look has ended that began after the last time: until then each thread that
/// comes by waits for one.
pub(super) static STATE: AtomicU32 = AtomicU32::new(0);
/// Code was mapped that the engine has not seen whole yet.
const UNSEEN: u32 = 1;
/// Calls may have been caught by the [`net`].
const CATCHES: u32 = 2;
/// The bits for which [`attend`] is to be called before a call.
pub(super) const ATTENTION: u32 = UNSEEN | CATCHES;
const ONE_MORE: u32 = 4;

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

/// Whether this call of mmap(2) is for a stack.
pub(super) fn is_for_stack(call: &Call) -> bool {
    const FLAGS: usize = 3;
    call.number as libc::c_long == libc::SYS_mmap
        && call.arguments[FLAGS] as i32 & libc::MAP_STACK != 0
}

/// Maps memory for a stack. If there is none, other guests run first, whose ends may give some
/// back: a program that tries again and again would keep the servers until the tick.
pub(super) fn map_stack(guest: &Guest, call: &mut Call) -> Stage {
    // SAFETY: as the program asks, of anonymous memory that replaces none.
    let result = unsafe { make(call.number as libc::c_long, call.arguments) };
    if result < 0 {
        let_others_run(guest, call);
    }
    answered(call, Some(result))
}

/// The kernel has mapped code.
pub(super) fn mapped() {
    let note = |state: u32| Some(state.wrapping_add(ONE_MORE) | UNSEEN);
    let _ = STATE.fetch_update(Relaxed, Relaxed, note);
    look();
}

/// The engine has found code whose calls do not lead to the hook.
pub(super) fn misses() {
    STATE.fetch_or(CATCHES, Relaxed);
    net::want();
}

/// Whether code was mapped that is not seen whole yet.
pub(super) fn is_unseen() -> bool {
    STATE.load(Relaxed) & UNSEEN != 0
}

/// Before a call: whether [`attend`] is to be called.
#[inline(always)]
pub(super) fn needs_attention() -> bool {
    STATE.load(Relaxed) & ATTENTION != 0
}

/// Looks for code that was mapped, if there may be some. True if the call was caught, and is to be
/// the kernel's.
#[cold]
pub(super) extern "C" fn attend(call: &Call) -> bool {
    look();
    net::is_for_word(call)
}

/// Looks for code that was mapped, if there may be some. While the dynamic linker is at work, the
/// look comes later: with one of its next calls, before the code runs.
pub(super) fn look() {
    if is_unseen() {
        look_now();
    }
}

#[cold]
extern "C" fn look_now() {
    let before = STATE.load(Relaxed);
    let found = look_again();
    if found.misses {
        misses();
    }
    if !found.unfinished {
        // Unless more was mapped meanwhile.
        let _ = STATE.fetch_update(Relaxed, Relaxed, |now| {
            let is_same = now & !CATCHES == before & !CATCHES;
            is_same.then_some(now & !UNSEEN)
        });
    }
}
