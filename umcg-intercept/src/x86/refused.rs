//! Calls that the kernel answers by SIGSYS in place of a result: a filter has refused them
//! (`SECCOMP_RET_TRAP`), or the [net](super::net) has no room for their sites.
//!
//! The kernel leaves the number in rax, and the pc behind the `syscall`; rcx and r11 are lost in
//! any case. So the call can be made once more, by another kernel thread for example.

use crate::call::Site;

/// Codes of siginfo_t, and where the address of the call is.
const BY_FILTER: i32 = 1;
const BY_NET: i32 = 2;
const ADDRESS: usize = 16;

/// Whether this SIGSYS is of such a call.
///
/// # Safety
///
/// `information` is what the kernel gave to the handler.
#[must_use]
pub unsafe fn is_refusal(information: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller vouches for it.
    matches!(unsafe { (*information).si_code }, BY_FILTER | BY_NET)
}

/// The call is made once more when the handler returns.
///
/// # Safety
///
/// `context` is what the kernel gave to the handler of SIGSYS. Called once.
pub unsafe fn call_again(context: *mut libc::c_void) {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] -= Site::CALL as i64;
}

/// The call has failed with this error.
///
/// # Safety
///
/// As for [`call_again`].
pub unsafe fn fail(context: *mut libc::c_void, error: i32) {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(error);
}

/// Tells the program's handler of a refusal that the call was made at the pc of the context.
///
/// # Safety
///
/// Both are what the kernel gave to the handler.
pub unsafe fn show_place(information: *mut libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let pc = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    let place = information.wrapping_byte_add(ADDRESS).cast::<usize>();
    // SAFETY: the address in the record of such a signal.
    unsafe { place.write(pc) };
}
