//! Calls a function on another stack, from which its caller can be unwound. For code that does not
//! fit on a signal stack.

use std::ffi::c_void;

unsafe extern "C" {
    fn umcg_call_on(top: *mut u8, f: extern "C" fn(*mut c_void), argument: *mut c_void);
}

/// Calls `f(argument)` on the stack below `top`, which is aligned to 16 bytes.
///
/// # Safety
/// Nothing else uses that stack. `f` does not unwind, and does not switch.
pub(crate) unsafe fn call(top: *mut u8, f: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: passed on.
    unsafe { umcg_call_on(top, f, argument) };
}
