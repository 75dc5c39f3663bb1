//! Alternate signal stacks: a handler cannot run on a stack that has overflowed.
//!
//! If a tick of preemption interrupts a handler of the program's, it puts another frame on that
//! stack. The stacks that the language's library gives its threads have room for two frames or
//! less, and a signal without room for its frame ends the process. So they are replaced by larger
//! ones.

use std::cell::Cell;
use std::ptr::{null, null_mut};
use umcg_context::stack::{self, SizeClass, Stack};

/// How many nested handler frames there is room for.
const FRAMES: usize = 4;
/// Bytes for the handlers' own frames.
const REST: usize = 8 << 10;

/// Gives the calling kernel thread an alternate signal stack if it has none, or a small one. It is
/// one of our own stacks, so a handler that overflows it hits a guard. It is kept for as long as
/// the kernel thread lives. `top` gives the address below which its frames are to begin: above it,
/// other data may lie.
pub(crate) fn ensure(top: impl FnOnce(&Stack) -> *mut u8) {
    replace(top, |now| now.ss_flags == libc::SS_DISABLE || is_small(now));
}

/// The same, but only if it has a small one: without any, handlers have all of the thread's own
/// stack.
pub(crate) fn enlarge(top: impl FnOnce(&Stack) -> *mut u8) {
    replace(top, is_small);
}

/// With other flags it is in use just now, or the program uses it in its own way.
fn is_small(now: &libc::stack_t) -> bool {
    now.ss_flags == 0 && now.ss_size < least()
}

fn replace(top: impl FnOnce(&Stack) -> *mut u8, is_wanting: impl FnOnce(&libc::stack_t) -> bool) {
    thread_local!(static KEPT: SignalStack = const { SignalStack(Cell::new(None)) });
    let Some(mut new) = setting().filter(is_wanting) else {
        return;
    };
    // Perhaps in a thread-local's destructor that runs after the one of `KEPT`.
    if KEPT.try_with(|_| ()).is_err() {
        return;
    }
    let Some(class) = SizeClass::for_size(least() + REST) else {
        return;
    };
    let Ok(stack) = stack::allocate(class) else {
        return;
    };
    new.ss_sp = stack.base().cast();
    new.ss_flags = 0;
    new.ss_size = top(&stack).addr() - stack.base().addr();
    // SAFETY: the memory stays mapped for as long as the kernel thread has it.
    let is_set = unsafe { libc::sigaltstack(&new, null_mut()) } == 0;
    if !is_set {
        return stack::release(stack);
    }
    // A stack that the thread was given before, and that the program has replaced since.
    let before = KEPT.with(|kept| kept.0.replace(Some((stack, tid()))));
    before
        .into_iter()
        .filter(|(_, thread)| *thread != -1 && *thread == tid())
        .for_each(|(stack, _)| stack::release(stack));
}

/// The alternate stack of the calling kernel thread.
fn setting() -> Option<libc::stack_t> {
    // SAFETY: zero is a valid stack_t.
    let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the setting.
    (unsafe { libc::sigaltstack(null(), &mut now) } == 0).then_some(now)
}

/// Bytes that a stack should have.
fn least() -> usize {
    // SAFETY: reads a vector that the kernel gave the process.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    FRAMES * frame.max(libc::MINSIGSTKSZ) + REST
}

/// The kernel thread's number; -1 where the kernel refuses it.
fn tid() -> libc::c_long {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// The signal stack that this thread was given, and on which kernel thread.
struct SignalStack(Cell<Option<(Stack, libc::c_long)>>);

impl Drop for SignalStack {
    fn drop(&mut self) {
        let Some((stack, thread)) = self.0.take() else {
            return;
        };
        // A thread worker may end while it is on a server's kernel thread, which has another signal
        // stack.
        let Some(mut now) = setting().filter(|_| thread != -1 && tid() == thread) else {
            return;
        };
        if now.ss_sp.cast() == stack.base() && now.ss_flags & libc::SS_DISABLE == 0 {
            now.ss_flags = libc::SS_DISABLE;
            // SAFETY: switches the signal stack off; we are not on it.
            if unsafe { libc::sigaltstack(&now, null_mut()) } != 0 {
                return;
            }
        }
        // Otherwise the language's library has taken it off already, when the thread ended.
        stack::release(stack);
    }
}
