//! What several tests of the engine need.

/// A table of hooked numbers: all of these.
#[allow(dead_code, reason = "some tests hook all")]
pub(crate) const fn hooked(first: usize, last: usize) -> [u8; 512] {
    let mut hooked = [0; 512];
    let mut number = first;
    while number <= last {
        hooked[number] = 1;
        number += 1;
    }
    hooked
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context.
    if !unsafe { umcg_intercept::on_trap(context) } {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

/// Installs a handler of the engine's traps: to be called before the engine. The harness has a
/// thread of its own, which may be anywhere while its code is replaced.
#[allow(dead_code, reason = "some tests have a handler of their own")]
pub(crate) fn take_traps() {
    handle(libc::SIGTRAP, on_signal, 0);
}

/// A handler that gets what the kernel gives.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs a handler that is safe where the signal comes.
#[allow(dead_code, reason = "some tests have no handler of their own")]
pub(crate) fn handle(signal: i32, handler: Handler, flags: i32) {
    // SAFETY: zero is a value.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: the caller vouches for the handler.
    let result = unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) };
    assert_eq!(result, 0);
}
