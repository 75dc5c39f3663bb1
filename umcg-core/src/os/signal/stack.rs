//! Alternate signal stacks: a handler cannot run on a stack that has overflowed.

use std::cell::Cell;
use std::ptr::{null, null_mut};
use umcg_context::stack::{self, Class, Stack};

/// Gives the calling kernel thread an alternate signal stack if it has none. It is one of our own stacks, so a handler that overflows it hits a guard, and is
/// kept for as long as the kernel thread lives. `top` says below which address its frames are to begin: above may lie what belongs to others.
pub(crate) fn ensure(top: impl FnOnce(&Stack) -> *mut u8) {
    let Some(mut new) = setting().filter(|now| now.ss_flags & libc::SS_DISABLE != 0) else { return };
    let Some(class) = Class::for_size(size()) else { return };
    let Ok(stack) = stack::allocate(class) else { return };
    new.ss_sp = stack.base().cast();
    new.ss_flags = 0;
    new.ss_size = top(&stack).addr() - stack.base().addr();
    // SAFETY: the memory stays mapped for ever.
    if unsafe { libc::sigaltstack(&new, null_mut()) } == 0 {
        thread_local!(static KEPT: Kept = const { Kept(Cell::new(None)) });
        KEPT.with(|kept| kept.0.set(Some(stack)));
    } else {
        stack::release(stack);
    }
}

/// That of the calling kernel thread.
fn setting() -> Option<libc::stack_t> {
    // SAFETY: zero is a valid stack_t.
    let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the setting.
    (unsafe { libc::sigaltstack(null(), &mut now) } == 0).then_some(now)
}

fn size() -> usize {
    // SAFETY: reads a vector that the kernel gave the process.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    (least + (16 << 10)).max(32 << 10)
}

/// The signal stack that this thread was given.
struct Kept(Cell<Option<Stack>>);

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(stack) = self.0.take() else { return };
        // A thread worker may end while it is on a server's kernel thread, whose signal stack is another.
        let Some(mut now) = setting().filter(|now| now.ss_sp.cast() == stack.base()) else { return };
        now.ss_flags = libc::SS_DISABLE;
        // SAFETY: switches the signal stack off; we are not on it.
        if unsafe { libc::sigaltstack(&now, null_mut()) } == 0 {
            stack::release(stack);
        }
    }
}
