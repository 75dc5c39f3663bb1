//! The switch methods as one trait: the assembly, and UthLib's two portable ones. All may be used
//! in one program.
//!
//! | method | new flow | switch | new flow on a used stack |
//! |---|---|---|---|
//! | [`Asm`] | four stores | some ten instructions | four stores |
//! | [`Sjlj`] | one visit by `makecontext`, two system calls | `_setjmp` and `_longjmp` | a copy of the visit's `jmp_buf` |
//! | [`Mcsc`] | `getcontext` and `makecontext`, one system call | `swapcontext`, one system call | as a new one |
//!
//! `sjlj` makes a flow by visiting the new stack once: a bootstrap function calls `_setjmp` there
//! and jumps back. Its frame stays at the top of the stack. A jump into that frame, the first time
//! or after the flow was given up, leads to the call of the entry function.
//!
//! Only `mcsc` saves the signal mask and the floating-point modes. A program can observe that
//! difference; it is the reason for the system call.

use crate::{Context, EntryFn};
use core::mem::MaybeUninit;

/// Bytes of a [`PortableContext`]. build.rs knows it, and portable.c asserts that it suffices.
const SIZE: usize = match usize::from_str_radix(env!("UMCG_PORTABLE_SIZE"), 10) {
    Ok(size) => size,
    Err(_) => panic!("UMCG_PORTABLE_SIZE is not a number"),
};

/// A flow of control of the method [`Sjlj`] or [`Mcsc`]: a `jmp_buf` or a `ucontext_t`. It may
/// point into itself, so it must stay where it was first filled.
#[repr(C, align(16))]
pub struct PortableContext(MaybeUninit<[u8; SIZE]>);

impl PortableContext {
    /// A context that holds nothing yet. A switch away from it, or [`SwitchMethod::prepare`], fills
    /// it.
    pub const fn empty() -> Self {
        Self(MaybeUninit::uninit())
    }
}

impl core::fmt::Debug for PortableContext {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PortableContext").finish_non_exhaustive()
    }
}

/// A way to suspend one flow of control and continue another.
pub trait SwitchMethod {
    /// Holds a suspended flow. It does not move while it holds one.
    type Context;

    /// The method's name in options and tables.
    const NAME: &'static str;

    /// A context that holds nothing yet.
    fn empty() -> Self::Context;

    /// Makes `context` the context of a new flow that calls `entry(arg)` on the `size` bytes at
    /// `stack`.
    ///
    /// # Safety
    /// The context is writable, and no flow that is suspended in it will be resumed. The stack is
    /// writable memory, large enough for `entry` and one KiB more, and nothing else uses it until
    /// the flow has ended.
    unsafe fn prepare(
        context: *mut Self::Context,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    );

    /// As [`SwitchMethod::prepare`], for a context that was prepared before with the same stack. A
    /// flow that runs or is suspended on it is given up.
    ///
    /// # Safety
    /// As [`SwitchMethod::prepare`]. The context was prepared with this very stack and has not
    /// moved, and nothing but the flows on it wrote to either since, unless whole pages of them
    /// were zeroed (`MADV_DONTNEED`).
    #[inline]
    unsafe fn reprepare(
        context: *mut Self::Context,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    ) {
        // SAFETY: passed on.
        unsafe { Self::prepare(context, stack, size, entry, arg) }
    }

    /// Suspends the caller into `from` and continues `to`.
    ///
    /// # Safety
    /// As [`crate::switch`]; `to` was filled by this method.
    unsafe fn switch(from: *mut Self::Context, to: *mut Self::Context);
}

/// The architecture's own switch, in assembly.
#[derive(Clone, Copy, Debug)]
pub struct Asm;

/// `_setjmp` and `_longjmp`.
#[derive(Clone, Copy, Debug)]
pub struct Sjlj;

/// `makecontext` and `swapcontext`.
#[derive(Clone, Copy, Debug)]
pub struct Mcsc;

unsafe extern "C" {
    fn umcg_sjlj_prepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    );
    fn umcg_sjlj_reprepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    );
    fn umcg_sjlj_switch(from: *mut PortableContext, to: *mut PortableContext);
    fn umcg_mcsc_prepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    );
    fn umcg_mcsc_switch(from: *mut PortableContext, to: *mut PortableContext);
}

impl SwitchMethod for Asm {
    type Context = Context;
    const NAME: &'static str = "asm";

    fn empty() -> Context {
        Context::empty()
    }

    #[inline]
    unsafe fn prepare(
        context: *mut Context,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    ) {
        // SAFETY: the caller owns the context.
        let context = unsafe { &mut *context };
        // SAFETY: passed on; the stack ends at its base and size.
        unsafe { context.prepare(stack.wrapping_add(size), entry, arg) }
    }

    #[inline(always)]
    unsafe fn switch(from: *mut Context, to: *mut Context) {
        // SAFETY: passed on.
        unsafe { crate::switch(from, to) }
    }
}

impl SwitchMethod for Sjlj {
    type Context = PortableContext;
    const NAME: &'static str = "sjlj";

    fn empty() -> PortableContext {
        PortableContext::empty()
    }

    #[inline]
    unsafe fn prepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    ) {
        // SAFETY: passed on.
        unsafe { umcg_sjlj_prepare(context, stack, size, entry, arg) }
    }

    #[inline]
    unsafe fn reprepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    ) {
        // SAFETY: passed on: the bootstrap frame of the first `prepare` is still at the top of the
        // stack, or zeroed and made anew.
        unsafe { umcg_sjlj_reprepare(context, stack, size, entry, arg) }
    }

    #[inline(always)]
    unsafe fn switch(from: *mut PortableContext, to: *mut PortableContext) {
        // SAFETY: passed on.
        unsafe { umcg_sjlj_switch(from, to) }
    }
}

impl SwitchMethod for Mcsc {
    type Context = PortableContext;
    const NAME: &'static str = "mcsc";

    fn empty() -> PortableContext {
        PortableContext::empty()
    }

    #[inline]
    unsafe fn prepare(
        context: *mut PortableContext,
        stack: *mut u8,
        size: usize,
        entry: EntryFn,
        arg: *mut (),
    ) {
        // SAFETY: passed on.
        unsafe { umcg_mcsc_prepare(context, stack, size, entry, arg) }
    }

    #[inline(always)]
    unsafe fn switch(from: *mut PortableContext, to: *mut PortableContext) {
        // SAFETY: passed on.
        unsafe { umcg_mcsc_switch(from, to) }
    }
}
