//! Calls that a filter answers by SIGSYS in place of a result (`SECCOMP_RET_TRAP`).
//!
//! The kernel leaves the number in rax, and the pc behind the `syscall`. The program's handler, if
//! it is to run on another kernel thread, has to find the call there: so it is made once more.

use super::stub;
use crate::call::Site;

/// The code of siginfo_t.
const BY_FILTER: i32 = 1;

/// Whether a filter has sent this SIGSYS.
///
/// # Safety
///
/// `information` is what the kernel gave to the handler.
#[must_use]
pub unsafe fn is_refusal(information: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { (*information).si_code == BY_FILTER }
}

/// If the stub has made the call for its site, and not for the hook: leads it to the hook, as if it
/// had not been there. False otherwise. Safe in signal handlers.
///
/// # Safety
///
/// `context` is what the kernel gave to the handler of a [refusal](is_refusal).
pub unsafe fn ask_hook_again(context: *mut libc::c_void) -> bool {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let pc = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let place = stub::after_refusal((*pc as usize).wrapping_sub(Site::CALL));
    if let Some(place) = place {
        *pc = place as i64;
    }
    place.is_some()
}

/// The call has failed with this error.
///
/// # Safety
///
/// As for [`ask_hook_again`].
pub unsafe fn fail(context: *mut libc::c_void, error: i32) {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(error);
}
