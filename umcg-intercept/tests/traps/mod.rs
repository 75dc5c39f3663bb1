//! A handler of the engine's traps. The harness has a thread of its own, which may be anywhere
//! while its code is replaced.

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context.
    if !unsafe { umcg_intercept::on_trap(context) } {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

/// Installs it: to be called before the engine.
pub(crate) fn take() {
    // SAFETY: zero is a value.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler is safe in signal handlers.
    let result =
        unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()) };
    assert_eq!(result, 0);
}
