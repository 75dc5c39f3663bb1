//! Signals of guests: their actions, the handler in front of the program's, masks.
//!
//! Each function that the program installs as a handler gets ours in front ([`run`]). It does two
//! things for the program's:
//!
//! - If the guest is inside (`guest.rs`), it keeps the signal: it closes, sends the signal again to
//!   the same kernel thread, and returns. The guest opens when it leaves.
//! - The program's handler may wait, and so may return on a server. Then the guest goes home before
//!   ours returns: the kernel restores mask and alternate stack there.
//!
//! | module | contains |
//! |---|---|
//! | `abort` | abort(3) of threads of the library's own |
//! | `action` | the program's actions, and those that the kernel gets |
//! | `mask` | masks of guests and servers |
//! | `held` | signals that were sent to the process, and for which no thread is found yet |
//! | `sets` | sets of signals that calls bring |
//!
//! Signals of our own: the tick's, SIGURG, and [`GO`](mask::GO), SIGSTKFLT. The program's action
//! for them is noted and never carried out. SIGSETXID is left to the C library and `umcg_core`.

use super::dump;
use super::guest::{self, Guest};
use crate::rt::engine::guest as engine;
use action::{KernelAction, is_always_ours};
use mask::{CLOSED, GO, TICK, is_servers, only};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::raw::{self, carry_home, requeue};
use umcg_intercept::{
    call_again, fail, is_refusal, on_sigsys, on_trap, show_place, step_in, step_out,
};

mod abort;
mod action;
mod held;
mod mask;
mod sets;

pub(super) use abort::abort_if_asked;
pub(super) use action::{free_go, keep_go, set_action, take_over, takes_handler_away, yield_go};
pub(super) use held::{add_held, claim_held, deadline, pass_on};
pub(super) use mask::{
    as_servers, change, forget_go, let_requests_through, mask, mask_at_end, note_next_mask,
    open_for_exit, set_mask,
};
pub(super) use sets::keep_go_out;

/// The handler in front of the program's.
extern "C-unwind" fn run(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    handle(signal, information, context, true);
}

/// The same in front of a default action that has replaced a handler. A signal that came when there
/// was the handler is handled by it.
extern "C-unwind" fn run_since(
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    handle(signal, information, context, false);
}

/// `had_handler`: the program had a handler when the kernel delivered the signal.
fn handle(
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
    had_handler: bool,
) {
    // SAFETY: as the kernel passed it.
    if signal == libc::SIGTRAP && is_fault(signal, information) && unsafe { on_trap(context) } {
        return;
    }
    // SAFETY: as the kernel passed it.
    if signal == libc::SIGSYS && unsafe { on_call(information, context) } {
        return;
    }
    // SAFETY: as the kernel passed it.
    if is_sent(signal, information) && unsafe { forward(signal, information, context) } {
        return;
    }
    let is_library = Guest::current().is_none() && !guest::is_aside();
    // SAFETY: as the kernel passed it.
    if is_library && unsafe { is_abort(signal, information) } {
        abort::begin();
    }
    // A child's handler is none of the guest's, which goes on beside it.
    let Some(guest) = Guest::current().filter(|guest| !guest.is_child()) else {
        // SAFETY: as the kernel passed it.
        return unsafe { call_program(None, signal, information, context, had_handler) };
    };
    let had_handler = guest.take_kept(only(signal)) || had_handler;
    // SAFETY: as the kernel passed it.
    let mask = unsafe { mask_of(context) };
    // SAFETY: as the kernel passed it.
    if guest.is_inside() && unsafe { is_abort_inside(signal, information, context) } {
        // SAFETY: likewise.
        return unsafe { call_program(None, signal, information, context, had_handler) };
    }
    if guest.is_inside() && !is_fault(signal, information) {
        // Before the note, or a handler that interrupts this one would note its frame's mask after.
        // The kernel may not have blocked this signal either (SA_NODEFER).
        change(libc::SIG_BLOCK, CLOSED);
        // SAFETY: as above.
        guest.note_closed(unsafe { mask.read() });
        // SAFETY: as above.
        unsafe { mask.write(CLOSED) };
        if had_handler {
            guest.note_kept(only(signal));
        }
        return requeue(signal, information);
    }
    // SAFETY: as the kernel passed it.
    if is_fault(signal, information) && unsafe { carry_home(context) } {
        return;
    }
    // SAFETY: as the kernel passed it.
    unsafe { call_at_home(guest, signal, information, context, had_handler) };
}

/// SIGSYS, with the handler's arguments: whether the kernel has caught the call, or a filter has
/// refused one on a server, or one of the library's.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn on_call(information: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: passed on.
    if unsafe { on_sigsys(information, context) } {
        return true;
    }
    // SAFETY: passed on.
    if guest::is_aside() || !unsafe { is_refusal(information) } {
        return false;
    }
    let is_own = match Guest::current() {
        None => true,
        Some(guest) if guest.is_child() => return false,
        Some(guest) => guest.is_inside(),
    };
    if is_own {
        // The library does without such calls.
        // SAFETY: passed on.
        unsafe { fail(context, libc::ENOSYS) };
        return true;
    }
    let Some(adopted) = guest::adopted().filter(|adopted| adopted.is_away()) else {
        return false;
    };
    // A guest's call on a server is made once more at home: there the program's handler runs.
    // SAFETY: passed on.
    unsafe { call_again(context) };
    adopted.worker().ask_to_stay();
    // SAFETY: passed on.
    unsafe { carry_home(context) }
}

/// Calls the program's handler in the own code of the guest, which is at home, and brings the guest
/// back there.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn call_at_home(
    guest: &Guest,
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
    had_handler: bool,
) {
    // SAFETY: the caller has it from the kernel.
    let mask = unsafe { mask_of(context) };
    if signal == libc::SIGQUIT {
        dump::quit();
    }
    // The handler finds the guest's mask.
    // SAFETY: as above.
    unsafe { *mask &= !only(GO) };
    // A handler that compares the interrupted pc with addresses of its own finds the site's.
    // SAFETY: as the kernel passed it.
    let inside = unsafe { step_out(context) };
    // SAFETY: as the kernel passed it.
    if signal == libc::SIGSYS && inside.is_some() && unsafe { is_refusal(information) } {
        // SAFETY: likewise.
        unsafe { show_place(information, context) };
    }
    let blocked_faults = guest.blocks_faults();
    // SAFETY: as the kernel passed it.
    unsafe { call_program(Some(guest), signal, information, context, had_handler) };
    if let Some(inside) = inside {
        // SAFETY: as above.
        unsafe { step_in(context, inside) };
    }
    guest.enter();
    engine::go_home();
    guest.leave_closed();
    // A signal that came in between has closed the guest, with the mask of a handler as its own.
    // The kernel opens it now, by this frame's. From here on none closes.
    guest.note_open();
    // SAFETY: as above.
    let restored = unsafe { mask.read() };
    // A handler that interrupts the end of another one restores no less than that has noted.
    guest.note_mask(if blocked_faults { u64::MAX } else { restored });
    if guest::adopted().is_some() {
        // SAFETY: as above. The kernel restores it now.
        unsafe { *mask |= only(GO) };
    }
}

/// The mask that the frame of a handler restores.
///
/// # Safety
/// Called by a handler, with its context.
unsafe fn mask_of(context: *mut c_void) -> *mut u64 {
    // SAFETY: the kernel passes a context, whose signal set begins with the kernel's.
    unsafe { (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast() }
}

/// Whether this is a signal that servers cannot block, since it may be a fault, and was sent. One
/// of abort(3) is for its sender.
fn is_sent(signal: c_int, information: *const libc::siginfo_t) -> bool {
    let may_be = FAULTS.contains(&signal) || matches!(signal, libc::SIGSYS | libc::SIGABRT);
    // SAFETY: the kernel passes a siginfo_t.
    let is_sent = || unsafe { (*information).si_code } <= 0;
    // SAFETY: likewise.
    may_be && is_sent() && !unsafe { is_abort(signal, information) }
}

/// If such a signal for the process has come to a server: passes it on to a thread that lets it
/// through, or [holds](held) it. False if the caller is a guest at home, or the process a child of
/// a fork.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn forward(
    signal: c_int,
    information: *const libc::siginfo_t,
    context: *mut c_void,
) -> bool {
    if guest::is_aside() {
        return false;
    }
    // From here to the end of the handler no preemption moves the flow.
    change(libc::SIG_BLOCK, only(TICK));
    if Guest::current().is_some() && !guest::is_away() {
        // SAFETY: passed on.
        let mask = unsafe { mask_of(context) };
        // SAFETY: the mask of this handler's frame.
        unsafe { note_move(mask) };
        return false;
    }
    match receiver(signal) {
        Some(to) => raw::pass_on(to, signal, information),
        None => held::hold(signal, information),
    }
    true
}

/// In a handler at home: if a preemption has brought the guest there since the signal came, the
/// handler's frame has the mask of a server. It gets the guest's.
///
/// # Safety
/// The mask is that of the handler's frame.
unsafe fn note_move(mask: *mut u64) {
    // SAFETY: passed on.
    let before = unsafe { mask.read() };
    if let Some(adopted) = guest::adopted().filter(|_| is_servers(before)) {
        // SAFETY: passed on.
        unsafe { mask.write(adopted.opening_mask()) };
    }
    if before & only(TICK) == 0 {
        change(libc::SIG_UNBLOCK, only(TICK));
    }
}

/// A thread of the program's for a signal that has come to a server: the guest that runs there, or
/// another one that is away, if it lets the signal through.
fn receiver(signal: c_int) -> Option<u32> {
    let here = guest::adopted().map(|adopted| adopted.tid());
    let mut found = here.filter(|tid| raw::is_away_for(*tid, signal));
    guest::each(&mut |guest| {
        let tid = guest.tid().filter(|tid| raw::is_away_for(*tid, signal));
        found = found.or(tid);
    });
    found
}

/// Whether this is abort(3), or looks like it.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn is_abort(signal: c_int, information: *const libc::siginfo_t) -> bool {
    // SAFETY: the kernel passes a siginfo_t.
    signal == libc::SIGABRT && unsafe { (*information).si_code } == libc::SI_TKILL
}

/// Whether this is abort(3) of a flow that is inside: of the library itself, or of the C library's
/// handler of SIGSETXID at a home. Kept for later, the signal would be passed over: abort ends the
/// process by an instruction that is none, once the signal has not ended it.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn is_abort_inside(
    signal: c_int,
    information: *const libc::siginfo_t,
    context: *mut c_void,
) -> bool {
    // SAFETY: passed on.
    if !unsafe { is_abort(signal, information) } {
        return false;
    }
    // Whether the flow is in a system call of the C library's, as it is if it has sent the signal.
    // SAFETY: as the kernel passed it.
    let Some(inside) = (unsafe { step_out(context) }) else {
        return false;
    };
    // SAFETY: just stepped out of.
    unsafe { step_in(context, inside) };
    inside.is_at_call()
}

/// Signals that instructions cause.
const FAULTS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// Whether an instruction caused the signal, which would only come again.
fn is_fault(signal: c_int, information: *const libc::siginfo_t) -> bool {
    // SAFETY: the kernel passes a siginfo_t.
    FAULTS.contains(&signal) && unsafe { (*information).si_code } > 0
}

/// Carries out the program's action: that which it had when the signal came, if that was a handler
/// and is none any more.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn call_program(
    guest: Option<&Guest>,
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
    had_handler: bool,
) {
    let now = action::current(signal);
    let before = (had_handler && !now.is_handler())
        .then(|| action::last_handler(signal))
        .flatten();
    let KernelAction {
        handler,
        flags,
        mask,
        ..
    } = before.unwrap_or(now);
    match handler {
        // It came after the change, or is that of a fault.
        libc::SIG_DFL => return default_action(signal, information),
        libc::SIG_IGN if !is_fault(signal, information) => return,
        libc::SIG_IGN => return default_action(signal, information),
        _ => {}
    }
    if flags as u32 & libc::SA_RESETHAND as u32 != 0 {
        action::reset(signal);
    }
    if is_always_ours(signal) {
        // The kernel does not know the program's action. It restores the mask at the end.
        let is_deferred = flags as u32 & libc::SA_NODEFER as u32 == 0;
        let own = if is_deferred { only(signal) } else { 0 };
        // Ours blocks the tick, the program's does not.
        // SAFETY: as the kernel passed it.
        let frame = unsafe { mask_of(context) };
        // SAFETY: as above.
        let before = unsafe { frame.read() };
        change(libc::SIG_UNBLOCK, only(TICK) & !(before | mask));
        change(libc::SIG_BLOCK, mask | own);
    }
    if let Some(guest) = guest {
        // The frame does not have it: the handler may interrupt a call that waits with a mask.
        guest.note_mask(change(libc::SIG_BLOCK, 0));
        guest
            .handled
            .store(guest.handled.load(Relaxed).wrapping_add(1), Relaxed);
        if flags as u32 & libc::SA_RESTART as u32 == 0 {
            guest
                .cut
                .store(guest.cut.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }
    type Full = extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    // SAFETY: the program gave it as a handler. One without SA_SIGINFO ignores the others.
    let handler = unsafe { std::mem::transmute::<usize, Full>(handler) };
    handler(signal, information, context);
}

fn default_action(signal: c_int, information: *const libc::siginfo_t) {
    action::let_kernel_act(signal);
    // A trap's instruction is not repeated.
    if signal == libc::SIGTRAP || !is_fault(signal, information) {
        requeue(signal, information);
    }
}
