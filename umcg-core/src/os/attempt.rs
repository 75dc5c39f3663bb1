//! Calls of functions that may read unmapped memory: a fault ends the call, and not the process.
//!
//! This is for foreign code that follows data it reads, such as the unwinder with tables of others.
//! [`call`] saves the registers that a function has to preserve, and stores the place in a word of
//! the storage. The handler of faults lets the flow continue there ([`give_up`]), as if the
//! function had returned.

use super::signal::Frame;
use std::ffi::c_void;
use umcg_context::{annotate, local};

unsafe extern "C" {
    fn umcg_attempt(
        f: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        place: *mut usize,
    ) -> usize;
    fn umcg_attempt_failed();
}

/// Calls `f`. Returns false if it read unmapped memory, and was aborted at that point. The handler
/// of [`fault`](crate::fault) must be installed, or such a fault still ends the process.
///
/// # Safety
/// `f` may be aborted at any of its accesses, so it holds no lock and owns nothing there. It does
/// not switch, and does not unwind. No handler of the program's runs meanwhile: its faults would be
/// taken for faults of `f`.
pub(crate) unsafe fn call(mut f: &mut dyn FnMut()) -> bool {
    extern "C" fn begin(f: *mut c_void) {
        // SAFETY: passed below.
        let f = unsafe { &mut *f.cast::<&mut dyn FnMut()>() };
        f();
    }
    let mut place = 0usize;
    let before = local::attempt();
    local::set_attempt((&raw mut place).cast());
    // SAFETY: `begin` takes this argument. By the contract it need not return.
    let failed = unsafe { umcg_attempt(begin, (&raw mut f).cast(), &raw mut place) };
    local::set_attempt(before);
    failed == 0
}

/// Makes the flow that has faulted continue behind the call that it is in. Returns false if it is
/// in no such call. Async-signal-safe.
pub(crate) fn give_up(frame: &mut Frame) -> bool {
    /// No attempt needs that much stack.
    const MOST: usize = 64 << 10;
    // SAFETY: null, or the place of a call that has not returned.
    let Some(saved) = (unsafe { local::attempt().cast::<usize>().as_ref() }) else {
        return false;
    };
    let is_within = saved.wrapping_sub(frame.stack_pointer()) < MOST;
    if is_within {
        annotate::frames_given_up(frame.stack_pointer(), *saved);
        frame.set_stack_pointer(*saved);
        frame.set_program_counter(umcg_attempt_failed as *const () as usize);
    }
    is_within
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    unsafe extern "C" {
        fn umcg_test_read(at: usize) -> u64;
    }

    fn read(at: usize) -> impl FnMut() {
        move || {
            // SAFETY: the test tries this very read.
            black_box(unsafe { umcg_test_read(at) });
        }
    }

    #[test]
    fn what_faults_is_given_up_and_the_caller_goes_on() {
        crate::os::fault::install();
        let word = 7u64;
        let there = (&raw const word).expose_provenance();
        // The caller's registers are preserved.
        let mut sum = [
            black_box(1usize),
            black_box(2),
            black_box(3),
            black_box(4),
            black_box(5),
            black_box(6),
        ];
        let mut real = [black_box(0.5f64), black_box(1.5)];
        for round in 0..100 {
            // SAFETY: the calls own nothing.
            assert!(unsafe { call(&mut read(there)) });
            for nowhere in [0, 8, 1 << 62] {
                // SAFETY: as above.
                assert!(!unsafe { call(&mut read(nowhere)) });
            }
            sum.iter_mut().for_each(|sum| *sum += round);
            real.iter_mut().for_each(|real| *real += 1.0);
        }
        assert_eq!(
            (sum, real),
            ([4951, 4952, 4953, 4954, 4955, 4956], [100.5, 101.5])
        );
        assert!(local::attempt().is_null());
    }

    #[test]
    fn an_attempt_within_another_ends_alone() {
        crate::os::fault::install();
        let mut inner = [false; 2];
        let mut outer = || {
            // SAFETY: the calls own nothing.
            inner = [unsafe { call(&mut read(0)) }, unsafe { call(&mut || ()) }];
        };
        // SAFETY: as above.
        assert!(unsafe { call(&mut outer) });
        assert_eq!(inner, [false, true]);
    }
}
