//! System calls that touch no thread-local storage, errno included.
//!
//! A flow makes its calls here where the storage that it runs with may be in use elsewhere, as the
//! loop of a home thread does. The instruction lies in one function, `umcg_call`.

use std::ffi::c_long;

unsafe extern "C" {
    fn umcg_call(
        number: c_long,
        first: usize,
        second: usize,
        third: usize,
        fourth: usize,
        fifth: usize,
        sixth: usize,
    ) -> isize;
}

/// Makes the system call. Returns its result, or the negative number of its error.
///
/// # Safety
/// As for the system call.
pub unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: passed on.
    unsafe { umcg_call(number, first, second, third, fourth, fifth, sixth) }
}
