//! The program's actions for signals: those whose handler has ours in front, and those that are
//! only noted. The kernel knows mask, flags and restorer as the program gave them, but for
//! SA_RESETHAND, which would reset a signal that is kept: ours does that.

use super::super::guest;
use super::super::memory::{self, FAULT, KernelData};
use super::mask::{GO, SIGSETXID, TICK, change, only};
use super::{held, run, run_since};
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::context::lock::Lock;
use umcg_core::raw::note_handled;
use umcg_core::signal::{install, take_pending, unwinding};
use umcg_core::{call, guarded};

const SIGNALS: usize = 64;

/// The kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KernelAction {
    pub(super) handler: usize,
    pub(super) flags: u64,
    restorer: usize,
    pub(super) mask: u64,
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
/// The last ones with a handler; the default action where there was none.
static LAST: Actions = Actions(UnsafeCell::new([DEFAULT; SIGNALS + 1]));
static CHANGING: Lock<()> = Lock::new(());

impl Actions {
    fn of(&self, signal: c_int) -> *mut KernelAction {
        let first = self.0.get().cast::<KernelAction>();
        first.wrapping_add(signal as usize)
    }
}

fn action(signal: c_int) -> *mut KernelAction {
    ACTIONS.of(signal)
}

/// Whether this is in place of a handler.
fn is_none(handler: usize) -> bool {
    matches!(handler, libc::SIG_DFL | libc::SIG_IGN)
}

impl KernelAction {
    pub(super) fn is_handler(&self) -> bool {
        !is_none(self.handler)
    }
}

/// Sets the program's action. The lock is held.
fn note(signal: c_int, new: KernelAction) {
    // SAFETY: in the table; the lock is held.
    unsafe { action(signal).write(new) };
    if new.is_handler() {
        // SAFETY: as above.
        unsafe { LAST.of(signal).write(new) };
    }
    note_handled(signal, new.is_handler());
}

/// The program's action now. Called by handlers.
pub(super) fn current(signal: c_int) -> KernelAction {
    // SAFETY: in the table.
    unsafe { action(signal).read_volatile() }
}

/// The last action with a handler that the program has had, for a signal that came when it had it.
/// None for the signals whose action the kernel does not know, and for a handler that is for one
/// signal.
pub(super) fn last_handler(signal: c_int) -> Option<KernelAction> {
    // SAFETY: in the table.
    let last = unsafe { LAST.of(signal).read_volatile() };
    let is_for_one = last.flags & libc::SA_RESETHAND as u32 as u64 != 0;
    let is_known = signal != libc::SIGQUIT && !is_always_ours(signal);
    (is_known && last.is_handler() && !is_for_one).then_some(last)
}

/// Whether this call of rt_sigaction(2) takes a handler away, by which signals that are on their
/// way are to be handled.
pub(in crate::intercept) fn takes_handler_away([number, new, ..]: [usize; 6]) -> bool {
    let signal = number as c_int;
    new != 0
        && (1..=SIGNALS as c_int).contains(&signal)
        && current(signal).is_handler()
        && memory::read::<u64>(new).is_some_and(|new| is_none(new as usize))
}

/// The program's action is the default one from now on.
pub(super) fn reset(signal: c_int) {
    let _changing = CHANGING.lock();
    note(signal, DEFAULT);
    if is_always_ours(signal) {
        follow_stack(signal, DEFAULT);
    } else {
        ask_kernel(signal, Some(DEFAULT));
    }
}

/// Ours, which is always in front, runs on the stack on which the program's handler is to run. With
/// the default action that is the alternate one: an overflow is reported there. The lock is held.
///
/// It blocks the tick. A guest that a preemption takes to another kernel thread, in the midst of
/// ours, would give that the mask and the alternate stack of this one.
fn follow_stack(signal: c_int, new: KernelAction) {
    const ALTERNATE: u64 = libc::SA_ONSTACK as u64;
    let kernels = ask_kernel(signal, None).1;
    let is_alternate = !new.is_handler() || new.flags & ALTERNATE != 0;
    let follows = KernelAction {
        flags: kernels.flags & !ALTERNATE | if is_alternate { ALTERNATE } else { 0 },
        mask: kernels.mask | only(TICK),
        ..kernels
    };
    if follows != kernels {
        ask_kernel(signal, Some(follows));
    }
}

/// The kernel carries out the default action from now on.
pub(super) fn let_kernel_act(signal: c_int) {
    ask_kernel(signal, Some(DEFAULT));
}

/// The functions that the kernel gets: in front of a handler, and of the default action that has
/// replaced one.
fn ours() -> usize {
    run as *const () as usize
}

fn ours_since() -> usize {
    run_since as *const () as usize
}

/// rt_sigaction(2).
pub(in crate::intercept) fn set_action(arguments: [usize; 6]) -> Option<isize> {
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
    if new.is_some_and(|new| new.handler == libc::SIG_IGN) {
        held::ignore(signal);
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
    // Before the kernel knows: ours may be called at once.
    new.inspect(|new| note(signal, *new));
    if is_always_ours(signal) {
        new.inspect(|new| follow_stack(signal, *new));
        return (0, noted);
    }
    if signal == GO || signal == TICK {
        return (0, noted);
    }
    let (result, kernels) = ask_kernel(signal, new.map(|new| in_front(signal, new)));
    if result != 0 {
        note(signal, noted);
    }
    let before = if [ours(), ours_since()].contains(&kernels.handler) {
        noted
    } else {
        kernels
    };
    (result, before)
}

/// Whether ours is installed whatever the program's action is: for faults, which the library's own
/// handler passes on, and for traps, which the engine may have to answer.
pub(super) fn is_always_ours(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP | libc::SIGSYS
    )
}

/// Puts ours in front for SIGSYS, by which the kernel tells of calls that it has caught or refused.
/// The return from the handler is a call, too.
fn install_for_calls() {
    let ours = KernelAction {
        handler: ours(),
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER | RESTORES) as u64,
        restorer: umcg_intercept::signal_restorer(),
        mask: 0,
    };
    ask_kernel(libc::SIGSYS, Some(ours));
}

/// The action that the kernel gets.
fn in_front(signal: c_int, new: KernelAction) -> KernelAction {
    if has_own_default(signal) && new.handler == libc::SIG_DFL {
        return own_action(ours());
    }
    let had_handler = || last_handler(signal).is_some();
    if new.handler == libc::SIG_DFL && ends_process(signal) && had_handler() {
        return own_action(ours_since());
    }
    if !new.is_handler() {
        return new;
    }
    KernelAction {
        handler: ours(),
        flags: (new.flags | libc::SA_SIGINFO as u64) & !(libc::SA_RESETHAND as u32 as u64),
        ..new
    }
}

/// Whether ours is in front of the default action, too: for SIGQUIT, which prints the list of
/// threads, and for signals that servers cannot block. The kernel would end the process though all
/// threads of the program block them.
fn has_own_default(signal: c_int) -> bool {
    matches!(signal, libc::SIGQUIT | libc::SIGFPE | libc::SIGILL)
}

/// Whether the default action for the signal, which no instruction causes, is to end the process.
fn ends_process(signal: c_int) -> bool {
    const THEY: [c_int; 13] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    THEY.contains(&signal) || signal > SIGSETXID
}

/// Ours where the program has no handler. For SIGQUIT: it prints the list of threads before the
/// process ends. For a signal that had a handler: one that is on its way since is handled by that.
fn own_action(handler: usize) -> KernelAction {
    KernelAction {
        handler,
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
pub(in crate::intercept) fn take_over() {
    let _changing = CHANGING.lock();
    for signal in (1..=SIGNALS as c_int).filter(|signal| *signal != SIGSETXID) {
        let kernels = ask_kernel(signal, None).1;
        note(signal, kernels);
        if signal == libc::SIGSYS {
            install_for_calls();
        } else if is_always_ours(signal) {
            // By the C library, which has the function that returns from handlers.
            // SAFETY: ours is async-signal-safe, but for the program's own.
            let _ = unsafe {
                install(
                    signal,
                    unwinding(run),
                    libc::SA_ONSTACK | libc::SA_NODEFER,
                    0,
                )
            };
        } else if kernels.is_handler() {
            ask_kernel(signal, Some(in_front(signal, kernels)));
        }
    }
    let restorer = ask_kernel(libc::SIGSEGV, None).1.restorer;
    RESTORER.store(restorer, Relaxed);
    for signal in (1..=SIGNALS as c_int).filter(|signal| has_own_default(*signal)) {
        // SAFETY: in the table; the lock is held.
        if unsafe { action(signal).read() }.handler == libc::SIG_DFL {
            ask_kernel(signal, Some(own_action(ours())));
        }
    }
    guarded::load(ACTIONS.0.get().expose_provenance());
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGSYS] {
        // SAFETY: as above.
        follow_stack(signal, unsafe { action(signal).read() });
    }
}

/// Before another program takes the process: it begins with the guest's mask, and without a signal
/// of ours.
pub(in crate::intercept) fn yield_go() {
    ignore_for_exec();
    if guest::adopted().is_none() {
        return;
    }
    while take_pending(only(GO), None) == GO as isize {}
    free_go();
}

/// The calling kernel thread, which no party wakes by GO any more, does not block it from here on.
pub(in crate::intercept) fn free_go() {
    change(libc::SIG_UNBLOCK, only(GO));
}

/// Signals of which the kernel may not have the program's action.
const NOTED_ONLY: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    libc::SIGSYS,
    GO,
    TICK,
];

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
            // SAFETY: in the table; the lock is held.
            unsafe { REPLACED.of(signal).write(before) };
        }
    }
}

/// Takes that back.
fn act_after_exec() {
    let _changing = CHANGING.lock();
    for signal in NOTED_ONLY {
        // SAFETY: in the table; the lock is held.
        let before = unsafe { REPLACED.of(signal).replace(DEFAULT) };
        if before.handler != libc::SIG_DFL {
            ask_kernel(signal, Some(before));
        }
    }
}

/// No other program took the process.
pub(in crate::intercept) fn keep_go() {
    act_after_exec();
    if guest::adopted().is_some() {
        change(libc::SIG_BLOCK, only(GO));
    }
}
