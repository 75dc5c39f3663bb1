//! Planted bugs, one for each checking tool, each made in a flow on its own stack.
//! `ci/sanitizers.sh` runs each under its tool before anything else, and fails unless the tool
//! finds the bug. Nothing else runs them.

mod common;

use common::Coroutine;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

#[test]
#[ignore = "AddressSanitizer has to find a stack-buffer-overflow"]
fn address() {
    let coroutine = Coroutine::new(|me| {
        let array = [1u8; 16];
        me.suspend();
        let beyond = black_box(array.as_ptr()).wrapping_add(16);
        // SAFETY: none: this is the bug.
        black_box(unsafe { beyond.read_volatile() });
    });
    coroutine.resume_to_the_end();
}

#[test]
#[ignore = "ThreadSanitizer has to find a data race"]
fn thread() {
    static mut COUNT: u64 = 0;
    static BOTH: Barrier = Barrier::new(2);
    let count = || {
        let coroutine = Coroutine::new(|me| {
            for _ in 0..1_000 {
                let count = &raw mut COUNT;
                // SAFETY: none: this is the bug.
                unsafe { *count += 1 };
                me.suspend();
            }
            BOTH.wait(); // a flow that is gone before the other one begins would be forgotten
        });
        coroutine.resume_to_the_end();
    };
    let other = thread::spawn(count);
    count();
    other.join().expect("the thread");
}

#[test]
#[ignore = "Valgrind has to find an invalid read"]
fn valgrind() {
    let coroutine = Coroutine::new(|me| {
        let freed = Box::into_raw(Box::new(1u64));
        me.suspend();
        // SAFETY: came from a box.
        drop(unsafe { Box::from_raw(freed) });
        // SAFETY: none: this is the bug.
        black_box(unsafe { black_box(freed).read_volatile() });
    });
    coroutine.resume_to_the_end();
}
