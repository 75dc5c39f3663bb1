//! The switch methods behind one face: what a record needs for each, and the dispatch.
//!
//! The assembly keeps a suspended flow in the record itself. The portable methods need some hundred
//! bytes more: just below the record for a uth, in a block of its own for a kernel thread's flow.
//! Where the portable methods are left out of the build, no dispatch is left either.

use super::Error;
use super::record::{Record, state};
use std::sync::atomic::Ordering::*;
use umcg_context::Context;
use umcg_context::annotate::Flow;

/// How a virtual processor switches between uths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// The architecture's own switch, in assembly. Nanoseconds.
    Asm,
    /// `_setjmp` and `_longjmp` (the paper's SJLJ). Feature `portable`.
    Sjlj,
    /// `makecontext` and `swapcontext` (the paper's MCSC): also saves the signal mask, by a system
    /// call. Feature `portable`.
    Mcsc,
}

impl Method {
    pub(crate) fn from_u8(method: u8) -> Method {
        match method {
            1 => Method::Sjlj,
            2 => Method::Mcsc,
            _ => Method::Asm,
        }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        if self == Method::Asm || cfg!(feature = "portable") {
            Ok(())
        } else {
            Err(Error::MethodMissing)
        }
    }
}

/// Gives a kernel thread's flow what `method` needs.
pub(crate) fn prepare_native(record: &Record, method: Method) -> Result<(), Error> {
    record.method.store(method as u8, Relaxed);
    #[cfg(feature = "portable")]
    if method != Method::Asm {
        portable::allocate(record);
    }
    Ok(())
}

/// Takes that back.
pub(crate) fn release_native(_record: &Record) {
    #[cfg(feature = "portable")]
    portable::free(_record);
}

/// Gives a new uth what its method needs.
#[inline]
pub(crate) fn prepare_record(_record: &Record) {
    #[cfg(feature = "portable")]
    portable::place(_record);
}

/// Makes `record` ready to run `driver(record)`.
///
/// # Safety
/// Nothing runs on its stack.
#[inline(always)]
pub(crate) unsafe fn prepare(record: &Record, driver: umcg_context::Entry) {
    let arg = (record as *const Record).cast_mut().cast::<()>();
    #[cfg(feature = "portable")]
    if record.method.load(Relaxed) != Method::Asm as u8 {
        // SAFETY: passed on.
        return unsafe { portable::prepare(record, driver, arg) };
    }
    // SAFETY: passed on.
    unsafe { record.start_flow() };
    // SAFETY: nobody runs or resumes the uth, so its context is the caller's to write.
    let context = unsafe { &mut *record.context.get() };
    // SAFETY: the stack below the record is the uth's own.
    unsafe { context.prepare(record.stack_top(), driver, arg) };
}

/// Suspends `old`, which is the caller, and goes on with `new`; both are of the method that `ready`
/// names.
///
/// # Safety
/// As `umcg_context::switch` for the contexts of both.
#[inline(always)]
pub(crate) unsafe fn switch(ready: u8, old: &Record, new: &Record) {
    #[cfg(feature = "portable")]
    if ready != state::READY + Method::Asm as u8 {
        // SAFETY: passed on.
        return unsafe { portable::switch(ready - state::READY, old, new) };
    }
    debug_assert_eq!(ready, state::READY + Method::Asm as u8);
    // SAFETY: both are suspended or the caller's.
    unsafe { Flow::leave(old.flow.get(), new.flow.get()) };
    // SAFETY: passed on.
    unsafe { umcg_context::switch(old.context.get(), new.context.get()) };
    // SAFETY: back on the stack of `old`.
    unsafe { Flow::arrive(old.flow.get()) };
}

/// Goes on with `new` and forgets the caller, which is `old`.
///
/// # Safety
/// As `umcg_context::resume`; `old` is the record of the caller, whose stack stays until the switch
/// is done.
pub(crate) unsafe fn resume(old: &Record, new: &Record) -> ! {
    #[cfg(feature = "portable")]
    if new.method.load(Relaxed) != Method::Asm as u8 {
        // SAFETY: passed on.
        unsafe { portable::switch(new.method.load(Relaxed), old, new) };
        super::die(old, "was resumed after its end");
    }
    // SAFETY: as `switch`.
    unsafe { Flow::leave_for_good(old.flow.get(), new.flow.get()) };
    // SAFETY: passed on.
    unsafe { umcg_context::resume(new.context.get()) }
}

/// Calls `f` on the stack of a suspended uth.
///
/// # Safety
/// As `umcg_context::inject`; the uth is suspended by the assembly.
pub(crate) unsafe fn inspect(me: &Record, uth: &Record, f: &mut dyn FnMut()) {
    struct Call<'a> {
        f: &'a mut dyn FnMut(),
        flows: (*mut Flow, *mut Flow),
        back: *const Context,
        there: Context,
    }
    unsafe extern "C" fn run(call: *mut ()) {
        // SAFETY: `inspect` passed the call, and waits.
        let call = unsafe { &mut *call.cast::<Call<'_>>() };
        // SAFETY: first thing on the stack of the uth.
        unsafe { Flow::arrive(call.flows.1) };
        (call.f)();
        // SAFETY: the inspector is suspended.
        unsafe { Flow::leave(call.flows.1, call.flows.0) };
        // Goes back, and leaves this frame suspended on the uth's stack: it is simply forgotten, as
        // nothing ever resumes it.
        // SAFETY: `back` holds the inspector, which waits.
        unsafe { umcg_context::switch(&raw mut call.there, call.back) };
    }
    let mut back = Context::empty();
    let mut call = Call {
        f,
        flows: (me.flow.get(), uth.flow.get()),
        back: &raw const back,
        there: Context::empty(),
    };
    // SAFETY: the uth is suspended.
    unsafe { Flow::leave(me.flow.get(), uth.flow.get()) };
    // SAFETY: passed on; the uth's own context is only read, so it goes on later from where it was.
    unsafe {
        umcg_context::inject(
            &raw mut back,
            uth.context.get(),
            run,
            (&raw mut call).cast(),
        )
    };
    // SAFETY: back on the inspector's stack.
    unsafe { Flow::arrive(me.flow.get()) };
}

#[cfg(feature = "portable")]
mod portable {
    use super::*;
    use std::ptr::null_mut;
    use umcg_context::portable::{Mcsc, Method as _, PortableContext, Sjlj};

    const SJLJ: u8 = Method::Sjlj as u8;

    fn context(record: &Record) -> *mut PortableContext {
        record.portable.load(Relaxed).cast()
    }

    pub(super) fn allocate(record: &Record) {
        record.portable.store(
            Box::into_raw(Box::new(PortableContext::empty())).cast(),
            Relaxed,
        );
    }

    pub(super) fn free(record: &Record) {
        let context = record
            .portable
            .swap(null_mut(), Relaxed)
            .cast::<PortableContext>();
        if !context.is_null() {
            // SAFETY: came from `allocate`, and the swap lets only one caller have it.
            drop(unsafe { Box::from_raw(context) });
        }
    }

    /// Finds room below the record. A recycled stack whose last uth had the same method keeps what
    /// that one left there.
    pub(super) fn place(record: &Record) {
        if record.method.load(Relaxed) == Method::Asm as u8 {
            return;
        }
        let below = (record.extension_place() as usize - size_of::<PortableContext>()) & !63;
        record.portable.store(below as *mut u8, Relaxed);
    }

    /// # Safety
    /// As `prepare` above; the record's method is a portable one.
    pub(super) unsafe fn prepare(record: &Record, driver: umcg_context::Entry, arg: *mut ()) {
        let base = record.stack_base();
        let size = record.stack_top() as usize - base as usize;
        let method = record.method.load(Relaxed);
        let used = record.boot_frame.swap((method == SJLJ).into(), Relaxed) == 1;
        match (method, used) {
            // SAFETY: passed on; the context lies below the record and above the stack, at the same
            // place for this stack's life.
            (SJLJ, false) => unsafe { Sjlj::prepare(context(record), base, size, driver, arg) },
            // SAFETY: as above; `boot_frame` says that this stack was prepared by the same method
            // last.
            (SJLJ, true) => unsafe { Sjlj::reprepare(context(record), base, size, driver, arg) },
            // SAFETY: as above.
            _ => unsafe { Mcsc::prepare(context(record), base, size, driver, arg) },
        }
    }

    /// # Safety
    /// As `switch` above; both are of this method.
    pub(super) unsafe fn switch(method: u8, old: &Record, new: &Record) {
        if method == SJLJ {
            // SAFETY: passed on.
            unsafe { Sjlj::switch(context(old), context(new)) }
        } else {
            // SAFETY: passed on.
            unsafe { Mcsc::switch(context(old), context(new)) }
        }
    }
}
