//! The C library's contexts. Each switch saves and restores the signal mask, by a system call.

use crate::harness::{Sample, measure};
use anyhow::{Result, ensure};
use std::cell::UnsafeCell;
use std::mem::{self, MaybeUninit};
use std::time::Duration;

const STACK: usize = 64 * 1024;

struct Two {
    main: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    worker: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
}

impl Two {
    #[inline(always)]
    fn to_worker(&self) {
        // SAFETY: `worker` was made by `makecontext` or saved by a switch, and its stack is alive.
        unsafe { libc::swapcontext(self.main.get().cast(), self.worker.get().cast()) };
    }

    #[inline(always)]
    fn to_main(&self) {
        // SAFETY: only the worker calls this, so `main` was saved when it switched here.
        unsafe { libc::swapcontext(self.worker.get().cast(), self.main.get().cast()) };
    }
}

/// The pointer comes in two halves, because `makecontext` passes ints.
extern "C" fn worker(high: u32, low: u32) {
    let two = ((u64::from(high) << 32) | u64::from(low)) as *const Two;
    // SAFETY: points to a context that `round_trips` keeps until no thread switches here any more.
    let two = unsafe { &*two };
    loop {
        two.to_main();
    }
}

pub(super) fn round_trips(_worker_cpu: usize, budget: Duration) -> Result<Sample> {
    // A context points into itself, so it is made where it stays.
    let two = Box::new(Two {
        main: UnsafeCell::new(MaybeUninit::uninit()),
        worker: UnsafeCell::new(MaybeUninit::uninit()),
    });
    let mut stack = vec![0_u8; STACK];
    let context: *mut libc::ucontext_t = two.worker.get().cast();
    ensure!(
        // SAFETY: room for a context, which this fills.
        unsafe { libc::getcontext(context) } == 0,
        "getcontext: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: filled by `getcontext`, and no other code looks at it.
    let filled = unsafe { &mut *context };
    filled.uc_stack.ss_sp = stack.as_mut_ptr().cast();
    filled.uc_stack.ss_size = stack.len();
    let pointer = &raw const *two as u64;
    // SAFETY: `makecontext` is declared with a function without parameters; it calls it with the
    // two ints that follow.
    let entry = unsafe { mem::transmute::<extern "C" fn(u32, u32), extern "C" fn()>(worker) };
    // SAFETY: the context is filled and has a stack that outlives the last switch to it.
    unsafe { libc::makecontext(context, entry, 2, (pointer >> 32) as u32, pointer as u32) };
    two.to_worker();
    // The worker is simply not switched to again: it owns nothing.
    Ok(measure(budget, |n| (0..n).for_each(|_| two.to_worker())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_there_and_back() {
        assert!(round_trips(0, Duration::from_millis(2)).unwrap().operations > 0);
    }
}
