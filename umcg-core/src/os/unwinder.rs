//! The unwinder that Rust's own library is linked with, as a loop over the callers of the calling
//! flow.
//!
//! It allocates nothing. It takes no lock where the C library has `_dl_find_object` (glibc 2.35).
//! Elsewhere it takes the loader's ([`takes_no_lock`]). For code that has registered its tables by
//! itself (`__register_frame`, as some run-time compilers do), a libgcc before that of GCC 13 takes
//! a lock too.
//!
//! On aarch64 the C library leaves a handler's return to code of the kernel's. Without tables for
//! that code, as under an emulator, libgcc recognizes it by its instructions. If another signal has
//! interrupted a handler right there, libgcc misreads the handler's frame, and may search for its
//! end for ever. So the callers end at such a frame.

use super::signal::Frame;
use crate::arch;
use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::sync::OnceLock;

/// One function on the way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackFrame {
    /// Where it continues; 0 behind a flow's first function.
    pub(crate) pc: usize,
    /// Its stack pointer there.
    pub(crate) stack_pointer: usize,
}

type FrameVisitor<'a> = &'a mut dyn FnMut(StackFrame) -> ControlFlow<()>;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    safe fn _Unwind_GetIP(context: *mut c_void) -> usize;
    safe fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Whether [`each_caller`] takes no lock of the loader's. That needs glibc 2.35 or later, and an
/// unwinder that was built to use its `_dl_find_object` (a libgcc of GCC 12 or later; this cannot
/// be checked). The first call of this must not be in a signal handler.
pub(crate) fn takes_no_lock() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        // SAFETY: asks for an address, by a string that ends.
        !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) }.is_null()
    })
}

/// Whether this caller is at the place where a handler returns to, and its signal came when another
/// handler was just there.
///
/// # Safety
/// The unwinder has found the caller.
unsafe fn is_return_to_return(caller: StackFrame) -> bool {
    /// Before the frame lies the signal's `siginfo_t`.
    const INFORMATION: usize = size_of::<libc::siginfo_t>();
    // SAFETY: exactly that lies there.
    let interrupted = || unsafe {
        Frame::of(std::ptr::with_exposed_provenance_mut(
            caller.stack_pointer + INFORMATION,
        ))
    };
    // SAFETY: there is code, and the unwinder reads it, too.
    let is_return = |pc: usize| unsafe { arch::is_misread_signal_return(pc) };
    caller.pc != 0 && is_return(caller.pc) && is_return(interrupted().program_counter())
}

/// Calls `step` with each caller, from the innermost outwards, until it breaks or the unwinder
/// knows no further caller. `step` does not unwind.
pub(crate) fn each_caller(step: FrameVisitor<'_>) {
    each(&mut |caller| {
        step(caller)?;
        // SAFETY: just found.
        if unsafe { is_return_to_return(caller) } {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

fn each(mut step: FrameVisitor<'_>) {
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    extern "C" fn call(context: *mut c_void, step: *mut c_void) -> c_int {
        // SAFETY: passed below.
        let step = unsafe { &mut *step.cast::<FrameVisitor<'_>>() };
        let caller = StackFrame {
            pc: _Unwind_GetIP(context),
            stack_pointer: _Unwind_GetCFA(context),
        };
        if step(caller).is_break() { STOP } else { GO_ON }
    }
    // SAFETY: `call` takes this argument, and does not unwind.
    unsafe { _Unwind_Backtrace(call, (&raw mut step).cast()) };
}
