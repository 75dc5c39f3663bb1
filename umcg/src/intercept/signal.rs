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
//! The kernel knows mask, flags and restorer as the program gave them, but for SA_RESETHAND, which
//! would reset a signal that is kept: ours does that.
//!
//! Signals of our own: the tick's, SIGURG, and [`GO`], SIGSTKFLT. The program's action for them is
//! noted and never carried out. SIGSETXID is left to the C library and `umcg_core`.

use super::dump;
use super::freed;
use super::guest::{self, Guest};
use super::memory::{self, FAULT, KernelData};
use crate::rt::engine::guest as engine;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::context::lock::Lock;
use umcg_core::raw::{carry_home, requeue};
use umcg_core::signal::{install, take_pending};
use umcg_core::{FAULTS, call, guarded};
use umcg_intercept::{on_trap, step_in, step_out};

/// The signal that wakes homes, and the one of the tick.
const GO: c_int = libc::SIGSTKFLT;
const TICK: c_int = libc::SIGURG;
const SIGSETXID: c_int = 33;
const SIGNALS: usize = 64;
const EINVAL: isize = -(libc::EINVAL as isize);

const fn only(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// All that a kernel thread blocks that is closed.
const CLOSED: u64 = !only(SIGSETXID);

/// The kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

// SAFETY: four words.
unsafe impl KernelData for KernelAction {}

const DEFAULT: KernelAction = KernelAction {
    handler: libc::SIG_DFL,
    flags: 0,
    restorer: 0,
    mask: 0,
};

/// The program's actions whose handler has ours in front, or that are only noted.
struct Actions(UnsafeCell<[KernelAction; SIGNALS + 1]>);

// SAFETY: written under the lock. A handler reads an action while the program may be replacing it,
// as it may with the kernel's: each word is read by itself.
unsafe impl Sync for Actions {}

static ACTIONS: Actions = Actions(UnsafeCell::new([DEFAULT; SIGNALS + 1]));
static CHANGING: Lock<()> = Lock::new(());

fn action(signal: c_int) -> *mut KernelAction {
    ACTIONS
        .0
        .get()
        .cast::<KernelAction>()
        .wrapping_add(signal as usize)
}

fn ours() -> usize {
    run as *const () as usize
}

/// rt_sigaction(2).
pub(super) fn set_action(arguments: [usize; 6]) -> Option<isize> {
    let [number, new, old, bytes, ..] = arguments;
    let signal = number as c_int;
    let is_valid = (1..=SIGNALS as c_int).contains(&signal);
    if !is_valid || bytes != size_of::<u64>() || signal == SIGSETXID {
        return None; // the kernel's to answer, or the C library's own
    }
    let new = match new {
        0 => None,
        _ => match memory::read::<[u64; 4]>(new) {
            Some([handler, flags, restorer, mask]) => Some(KernelAction {
                handler: handler as usize,
                flags,
                restorer: restorer as usize,
                mask,
            }),
            None => return Some(FAULT),
        },
    };
    let changing = CHANGING.lock();
    let (result, before) = exchange(signal, new);
    drop(changing);
    if result != 0 {
        return Some(result);
    }
    let KernelAction {
        handler,
        flags,
        restorer,
        mask,
    } = before;
    let words = [handler as u64, flags, restorer as u64, mask];
    Some(if old == 0 || memory::write(old, words) {
        0
    } else {
        FAULT
    })
}

/// Sets the program's action, if there is a new one. Returns the kernel's answer and the action
/// before.
fn exchange(signal: c_int, new: Option<KernelAction>) -> (isize, KernelAction) {
    // SAFETY: in the table; the lock is held.
    let noted = unsafe { action(signal).read() };
    if signal == GO || signal == TICK {
        if let Some(new) = new {
            // SAFETY: as above.
            unsafe { action(signal).write(new) };
        }
        return (0, noted);
    }
    if let Some(new) = new {
        // Before the kernel knows: ours may be called at once.
        // SAFETY: as above.
        unsafe { action(signal).write(new) };
    }
    if is_always_ours(signal) {
        return (0, noted);
    }
    let (result, kernels) = ask_kernel(signal, new.map(|new| in_front(signal, new)));
    if result != 0 {
        // SAFETY: as above.
        unsafe { action(signal).write(noted) };
    }
    let before = if kernels.handler == ours() {
        noted
    } else {
        kernels
    };
    (result, before)
}

/// Whether ours is installed whatever the program's action is: for faults, which the library's own
/// handler passes on, and for traps, which the engine may have to answer.
fn is_always_ours(signal: c_int) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP)
}

/// The action that the kernel gets.
fn in_front(signal: c_int, new: KernelAction) -> KernelAction {
    if signal == libc::SIGQUIT && new.handler == libc::SIG_DFL {
        return quit_action();
    }
    if matches!(new.handler, libc::SIG_DFL | libc::SIG_IGN) {
        return new;
    }
    KernelAction {
        handler: ours(),
        flags: (new.flags | libc::SA_SIGINFO as u64) & !(libc::SA_RESETHAND as u32 as u64),
        ..new
    }
}

/// Ours for SIGQUIT where the program has no handler: it prints the list of threads before the
/// process ends.
fn quit_action() -> KernelAction {
    KernelAction {
        handler: ours(),
        flags: (libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK | RESTORES) as u64,
        restorer: RESTORER.load(Relaxed),
        mask: 0,
    }
}

/// SA_RESTORER: the action names the function that returns from handlers.
const RESTORES: c_int = 0x0400_0000;
/// The C library's function for that.
static RESTORER: AtomicUsize = AtomicUsize::new(0);

fn ask_kernel(signal: c_int, new: Option<KernelAction>) -> (isize, KernelAction) {
    let mut before = DEFAULT;
    let new = new
        .as_ref()
        .map_or(0, |new| from_ref(new).expose_provenance());
    let old = (&raw mut before).expose_provenance();
    let arguments = [signal as usize, new, old, size_of::<u64>(), 0, 0];
    // SAFETY: two actions of the kernel's layout. The handler is ours, or the program's word.
    let result = unsafe { call(libc::SYS_rt_sigaction, arguments) };
    (result, before)
}

/// Puts ours in front of the handlers that the program has installed so far. For faults ours comes
/// in any case, and the library's own handler in front of that. Called once.
pub(super) fn take_over() {
    let _changing = CHANGING.lock();
    for signal in (1..=SIGNALS as c_int).filter(|signal| *signal != SIGSETXID) {
        let kernels = ask_kernel(signal, None).1;
        // SAFETY: in the table; the lock is held.
        unsafe { action(signal).write(kernels) };
        if is_always_ours(signal) {
            // By the C library, which has the function that returns from handlers.
            // SAFETY: ours is async-signal-safe, but for the program's own.
            let _ = unsafe { install(signal, front, libc::SA_ONSTACK | libc::SA_NODEFER, 0) };
        } else if !matches!(kernels.handler, libc::SIG_DFL | libc::SIG_IGN) {
            ask_kernel(signal, Some(in_front(signal, kernels)));
        }
    }
    let restorer = ask_kernel(libc::SIGSEGV, None).1.restorer;
    RESTORER.store(restorer, Relaxed);
    // SAFETY: in the table; the lock is held.
    let quit = unsafe { action(libc::SIGQUIT).read() };
    if quit.handler == libc::SIG_DFL {
        ask_kernel(libc::SIGQUIT, Some(quit_action()));
    }
    guarded::load(ACTIONS.0.get().expose_provenance());
}

/// [`run`], as the library's own function for handlers takes it.
extern "C" fn front(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    run(signal, information, context);
}

/// The handler in front of the program's.
extern "C-unwind" fn run(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as the kernel passed it.
    if signal == libc::SIGTRAP && unsafe { on_trap(context) } {
        return;
    }
    if is_always_ours(signal) && !is_fault(signal, information) && forward(signal) {
        return;
    }
    let Some(guest) = Guest::current() else {
        // SAFETY: as the kernel passed it.
        return unsafe { call_program(None, signal, information, context) };
    };
    // SAFETY: the kernel passes a context, whose signal set begins with the kernel's.
    let mask = unsafe { (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>() };
    // SAFETY: as the kernel passed it.
    if guest.is_inside() && unsafe { is_abort_inside(signal, information, context) } {
        // SAFETY: likewise.
        return unsafe { call_program(None, signal, information, context) };
    }
    if guest.is_inside() && !is_fault(signal, information) {
        // SAFETY: as above.
        guest.note_closed(unsafe { mask.read() });
        // SAFETY: as above.
        unsafe { mask.write(CLOSED) };
        return send_again(signal, information);
    }
    // SAFETY: as the kernel passed it.
    if is_fault(signal, information) && unsafe { carry_home(context) } {
        return;
    }
    if signal == libc::SIGQUIT {
        dump::quit();
    }
    // A handler that compares the interrupted pc with addresses of its own finds the site's.
    // SAFETY: as the kernel passed it.
    let inside = unsafe { step_out(context) };
    let blocked_faults = guest.blocks_faults();
    // SAFETY: as the kernel passed it.
    unsafe { call_program(Some(guest), signal, information, context) };
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

/// A signal that servers cannot block, since it may be a fault, was sent to the process and came to
/// a server: sends it to the home of the guest that runs there, or to the process's first thread.
/// False if the caller is a guest at home, or there is no such thread.
fn forward(signal: c_int) -> bool {
    let at_home = Guest::current().is_some() && !guest::is_away();
    if at_home || guest::is_aside() {
        return false;
    }
    // SAFETY: no arguments.
    let process = unsafe { call(libc::SYS_getpid, [0; 6]) } as usize;
    let away = guest::adopted().filter(|adopted| adopted.is_away());
    let thread = away.map_or(process, |adopted| adopted.tid() as usize);
    // SAFETY: the signal has come to this process.
    unsafe {
        call(
            libc::SYS_tgkill,
            [process, thread, signal as usize, 0, 0, 0],
        ) == 0
    }
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
    // SAFETY: the kernel passes a siginfo_t.
    if signal != libc::SIGABRT || unsafe { (*information).si_code } != libc::SI_TKILL {
        return false;
    }
    // Whether the flow is in a system call of the C library's, as it is if it has sent the signal.
    // SAFETY: as the kernel passed it.
    let Some(inside) = (unsafe { step_out(context) }) else {
        return false;
    };
    // SAFETY: just stepped out of.
    unsafe { step_in(context, inside) };
    true
}

/// Whether an instruction caused the signal, which would only come again.
fn is_fault(signal: c_int, information: *const libc::siginfo_t) -> bool {
    const FAULTS: [c_int; 5] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
    ];
    // SAFETY: the kernel passes a siginfo_t.
    FAULTS.contains(&signal) && unsafe { (*information).si_code } > 0
}

/// Sends a signal that has just come to the same kernel thread again. It is blocked there first,
/// which the kernel may not have done (SA_NODEFER).
fn send_again(signal: c_int, information: *const libc::siginfo_t) {
    change(libc::SIG_BLOCK, CLOSED);
    requeue(signal, information);
}

/// Carries out the program's action.
///
/// # Safety
/// Called by the handler, with its arguments.
unsafe fn call_program(
    guest: Option<&Guest>,
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: in the table.
    let KernelAction {
        handler,
        flags,
        mask,
        ..
    } = unsafe { action(signal).read_volatile() };
    match handler {
        // It was replaced meanwhile, or is that of a fault.
        libc::SIG_DFL => return default_action(signal, information),
        libc::SIG_IGN if !is_fault(signal, information) => return,
        libc::SIG_IGN => return default_action(signal, information),
        _ => {}
    }
    if flags as u32 & libc::SA_RESETHAND as u32 != 0 {
        let changing = CHANGING.lock();
        // SAFETY: in the table; the lock is held.
        unsafe { action(signal).write(DEFAULT) };
        ask_kernel(signal, Some(DEFAULT));
        drop(changing);
    }
    if is_always_ours(signal) {
        // The kernel does not know the program's action. It restores the mask at the end.
        let is_deferred = flags as u32 & libc::SA_NODEFER as u32 == 0;
        change(
            libc::SIG_BLOCK,
            mask | if is_deferred { only(signal) } else { 0 },
        );
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
    ask_kernel(signal, Some(DEFAULT));
    // A trap's instruction is not repeated.
    if signal == libc::SIGTRAP || !is_fault(signal, information) {
        requeue(signal, information);
    }
}

/// The guest's mask before a call that blocks all signals and does not ask for the mask: the C
/// library makes it where a thread ends.
pub(super) fn mask_at_end([how, new, old, bytes, ..]: [usize; 6]) -> Option<u64> {
    let is_it = how as c_int == libc::SIG_BLOCK
        && old == 0
        && bytes == size_of::<u64>()
        && memory::read::<u64>(new).is_some_and(|set| set | only(SIGSETXID) == u64::MAX);
    is_it.then(mask)
}

/// The calling guest's mask.
pub(super) fn mask() -> u64 {
    let noted = || Guest::current().and_then(Guest::closed_mask);
    noted().unwrap_or_else(|| {
        let kernels = change(libc::SIG_BLOCK, 0) & !only(GO);
        // A signal may have closed the guest before the kernel was asked.
        noted().unwrap_or(kernels)
    })
}

/// The process ends with its last thread: its functions for that run with the mask that the thread
/// had before it began to end.
pub(super) fn open_for_exit(mask: u64) {
    let go = guest::adopted().map_or(0, |_| only(GO));
    change(libc::SIG_SETMASK, mask | go);
}

/// rt_sigprocmask(2) of a guest. None if the kernel is to do it. `frees` is set if signals may have
/// waited for this: they are to be delivered before the call returns.
pub(super) fn set_mask(arguments: [usize; 6], frees: &mut bool) -> Option<isize> {
    let adopted = guest::adopted()?;
    let [how, new, old, bytes, ..] = arguments;
    if bytes != size_of::<u64>() {
        return Some(EINVAL);
    }
    let new = match new {
        0 => None,
        _ => match memory::read::<u64>(new) {
            Some(new) => Some(new),
            None => return Some(FAULT),
        },
    };
    let before = mask();
    if let Some(new) = new {
        let next = match how as c_int {
            libc::SIG_BLOCK => before | new,
            libc::SIG_UNBLOCK => before & !new,
            libc::SIG_SETMASK => new,
            _ => return Some(EINVAL),
        };
        if adopted.is_away() && freed::may_free(adopted, before & !next, next) {
            // No signal has waited for this.
        } else if adopted.is_closed() {
            adopted.set_mask(next);
            *frees = before & !next != 0;
        } else {
            change(libc::SIG_SETMASK, next | only(GO));
            if let Some(guest) = Guest::current() {
                guest.note_mask(next);
            }
            // A signal that came just before has closed, with the mask before as the guest's.
            if adopted.is_closed() {
                adopted.set_mask(next);
            }
        }
    }
    Some(if old == 0 || memory::write(old, before) {
        0
    } else {
        FAULT
    })
}

/// The guest, which is plain, is about to make this call of rt_sigprocmask(2).
pub(super) fn note_next_mask(guest: &Guest, [how, new, _, bytes, ..]: [usize; 6]) {
    if new == 0 || bytes != size_of::<u64>() {
        return;
    }
    match (how as c_int, memory::read::<u64>(new)) {
        (libc::SIG_SETMASK, Some(mask)) => guest.note_mask(mask),
        (libc::SIG_BLOCK, Some(mask)) if mask & FAULTS != 0 => guest.note_mask(mask),
        (libc::SIG_UNBLOCK, Some(mask)) if mask & FAULTS == FAULTS => guest.note_mask(0),
        _ => {}
    }
}

/// Calls `f`, which starts servers, with their mask: they get the tick, what the C library sends to
/// all threads, and the faults of the guests that they run.
pub(super) fn as_servers<R>(f: impl FnOnce() -> R) -> R {
    const GET: [c_int; 9] = [
        TICK,
        SIGSETXID,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
    ];
    let mask = GET
        .into_iter()
        .fold(u64::MAX, |mask, signal| mask & !only(signal));
    let before = change(libc::SIG_SETMASK, mask);
    let result = f();
    change(libc::SIG_SETMASK, before);
    result
}

/// Lets the calling thread, the courier, get requests of other processes.
pub(super) fn let_requests_through() {
    change(libc::SIG_UNBLOCK, only(TICK));
}

/// Changes the kernel's mask, and returns the one before.
pub(super) fn change(how: c_int, mask: u64) -> u64 {
    let mut before = 0u64;
    let arguments = [
        how as usize,
        from_ref(&mask).expose_provenance(),
        (&raw mut before).expose_provenance(),
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: two sets of signals.
    unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
    before
}

/// In the child of a fork, which has no home to be woken. `kept` is the guest's mask, if the kernel
/// does not have it.
pub(super) fn forget_go(kept: Option<u64>) {
    match kept {
        Some(mask) => change(libc::SIG_SETMASK, mask),
        None => change(libc::SIG_UNBLOCK, only(GO)),
    };
}

/// Before another program takes the process: it begins with the guest's mask, and without a signal
/// of ours.
pub(super) fn yield_go() {
    ignore_for_exec();
    if guest::adopted().is_none() {
        return;
    }
    while take_pending(only(GO), None) == GO as isize {}
    change(libc::SIG_UNBLOCK, only(GO));
}

/// Signals of which the kernel does not have the program's action.
const NOTED_ONLY: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, GO, TICK];

/// The kernel's actions that [`ignore_for_exec`] has replaced.
static REPLACED: Actions = Actions(UnsafeCell::new([DEFAULT; SIGNALS + 1]));

/// Another program inherits which signals are ignored: the kernel is told of those that it does not
/// know.
fn ignore_for_exec() {
    let _changing = CHANGING.lock();
    for signal in NOTED_ONLY {
        // SAFETY: in the table; the lock is held.
        let noted = unsafe { action(signal).read() };
        if noted.handler == libc::SIG_IGN {
            let (_, before) = ask_kernel(signal, Some(noted));
            let place = REPLACED.0.get().cast::<KernelAction>();
            // SAFETY: in the table; the lock is held.
            unsafe { *place.wrapping_add(signal as usize) = before };
        }
    }
}

/// Takes that back.
fn act_after_exec() {
    let _changing = CHANGING.lock();
    for signal in NOTED_ONLY {
        let place = REPLACED.0.get().cast::<KernelAction>();
        let place = place.wrapping_add(signal as usize);
        // SAFETY: in the table; the lock is held.
        let before = unsafe { place.replace(DEFAULT) };
        if before.handler != libc::SIG_DFL {
            ask_kernel(signal, Some(before));
        }
    }
}

/// No other program took the process.
pub(super) fn keep_go() {
    act_after_exec();
    if guest::adopted().is_some() {
        change(libc::SIG_BLOCK, only(GO));
    }
}
