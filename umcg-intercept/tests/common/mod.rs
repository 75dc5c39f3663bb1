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

/// As the kernel wants it.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// Installs a handler of SIGSYS that armed threads may use, and arms the calling thread. False if
/// the kernel has no dispatch. To be called once the engine is installed.
#[allow(dead_code, reason = "most tests have no net")]
pub(crate) fn arm(handler: Handler) -> bool {
    const WITH_RESTORER: usize = 0x0400_0000;
    let action = Action {
        handler: handler as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER) as usize | WITH_RESTORER,
        restorer: umcg_intercept::signal_restorer(),
        mask: 0,
    };
    let action = &raw const action as usize;
    let arguments = [libc::SIGSYS as usize, action, 0, 8, 0, 0];
    // SAFETY: the caller vouches for the handler.
    let result = unsafe { umcg_intercept::raw_syscall(libc::SYS_rt_sigaction as usize, arguments) };
    assert_eq!(result, 0);
    // SAFETY: the handler is there.
    unsafe { umcg_intercept::arm_thread() }
        .inspect_err(|error| println!("skipped: the kernel has no dispatch: {error}"))
        .is_ok()
}
