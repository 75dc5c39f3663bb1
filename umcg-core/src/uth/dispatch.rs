//! The switch methods behind one interface: the data that a record needs for each, and the
//! dispatch.
//!
//! The assembly keeps a suspended flow in the record itself. The portable methods need some hundred
//! bytes more: just below the record for a uth, in a block of its own for a kernel thread's flow.
//! If the portable methods are left out of the build, no dispatch is left either.

use super::method::Method;
use super::record::{UthRecord, state};
use std::sync::atomic::Ordering::*;
use umcg_context::annotate::Flow;

/// Gives a kernel thread's flow the memory that `method` needs.
pub(crate) fn prepare_native(record: &UthRecord, method: Method) {
    record.method.store(method as u8, Relaxed);
    #[cfg(feature = "portable")]
    if method != Method::Asm {
        portable::allocate(record);
    }
}

/// Frees that memory.
pub(crate) fn release_native(_record: &UthRecord) {
    #[cfg(feature = "portable")]
    portable::free(_record);
}

/// Gives a new uth the memory that its method needs.
#[inline]
pub(crate) fn prepare_record(_record: &UthRecord) {
    #[cfg(feature = "portable")]
    portable::place(_record);
}

/// Makes `record` ready to run `driver(record)`.
///
/// # Safety
/// Nothing runs on its stack.
#[inline(always)]
pub(crate) unsafe fn prepare(record: &UthRecord, driver: umcg_context::EntryFn) {
    let arg = (record as *const UthRecord).cast_mut().cast::<()>();
    #[cfg(feature = "portable")]
    if record.method.load(Relaxed) != Method::Asm as u8 {
        // SAFETY: passed on.
        return unsafe { portable::prepare(record, driver, arg) };
    }
    // SAFETY: passed on.
    unsafe { record.start_flow() };
    // SAFETY: no thread runs or resumes the uth, so its context is the caller's to write.
    let context = unsafe { &mut *record.context.get() };
    // SAFETY: the stack below the record is the uth's own.
    unsafe { context.prepare(record.stack_top(), driver, arg) };
}

/// Suspends `old`, which is the caller, and continues `new`. Both use the method that `ready`
/// names.
///
/// # Safety
/// As `umcg_context::switch` for the contexts of both.
#[inline(always)]
pub(crate) unsafe fn switch(ready: u8, old: &UthRecord, new: &UthRecord) {
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

/// Continues `new` and forgets the caller, which is `old`.
///
/// # Safety
/// As `umcg_context::resume`. `old` is the record of the caller, whose stack stays until the switch
/// is done.
pub(crate) unsafe fn resume(old: &UthRecord, new: &UthRecord) -> ! {
    #[cfg(feature = "portable")]
    if new.method.load(Relaxed) != Method::Asm as u8 {
        // SAFETY: passed on.
        unsafe { portable::switch(new.method.load(Relaxed), old, new) };
        super::failure::die(old, "was resumed after its end");
    }
    // SAFETY: as `switch`.
    unsafe { Flow::leave_for_good(old.flow.get(), new.flow.get()) };
    // SAFETY: passed on.
    unsafe { umcg_context::resume(new.context.get()) }
}

#[cfg(feature = "portable")]
mod portable {
    use super::*;
    use std::ptr::null_mut;
    use umcg_context::portable::{Mcsc, PortableContext, Sjlj, SwitchMethod as _};

    const SJLJ: u8 = Method::Sjlj as u8;

    fn context(record: &UthRecord) -> *mut PortableContext {
        record.portable.load(Relaxed).cast()
    }

    pub(super) fn allocate(record: &UthRecord) {
        record.portable.store(
            Box::into_raw(Box::new(PortableContext::empty())).cast(),
            Relaxed,
        );
    }

    pub(super) fn free(record: &UthRecord) {
        let context = record
            .portable
            .swap(null_mut(), Relaxed)
            .cast::<PortableContext>();
        if !context.is_null() {
            // SAFETY: it came from `allocate`, and the swap gives it to only one caller.
            drop(unsafe { Box::from_raw(context) });
        }
    }

    /// Finds room below the record. If the last uth of a recycled stack had the same method, its
    /// data there is kept.
    pub(super) fn place(record: &UthRecord) {
        if record.method.load(Relaxed) == Method::Asm as u8 {
            return;
        }
        let below = (record.extension_place() as usize - size_of::<PortableContext>()) & !63;
        record.portable.store(below as *mut u8, Relaxed);
    }

    /// # Safety
    /// As `prepare` above; the record's method is a portable one.
    pub(super) unsafe fn prepare(record: &UthRecord, driver: umcg_context::EntryFn, arg: *mut ()) {
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
    pub(super) unsafe fn switch(method: u8, old: &UthRecord, new: &UthRecord) {
        if method == SJLJ {
            // SAFETY: passed on.
            unsafe { Sjlj::switch(context(old), context(new)) }
        } else {
            // SAFETY: passed on.
            unsafe { Mcsc::switch(context(old), context(new)) }
        }
    }
}
