//! The kernel's frame of a signal, copied to be restored by another kernel thread: the stub for
//! architectures on which system calls are not intercepted.

use std::ffi::c_void;

pub(crate) enum FrameCopy {}

impl FrameCopy {
    /// # Safety
    /// None.
    pub(crate) unsafe fn make(_: *const c_void, _: usize, _: usize) -> Option<*mut FrameCopy> {
        None
    }

    pub(crate) fn context(&mut self) -> *mut c_void {
        match *self {}
    }
}

/// # Safety
/// There is a copy.
pub(crate) unsafe fn redirect(
    _: *mut c_void,
    _: unsafe extern "C" fn(*mut FrameCopy) -> !,
    _: *mut FrameCopy,
    _: usize,
) {
}

/// # Safety
/// There is a copy.
pub(crate) unsafe fn restore(copy: *const FrameCopy) -> ! {
    // SAFETY: there is none of an empty type.
    match unsafe { &*copy } {
        other => match *other {},
    }
}
