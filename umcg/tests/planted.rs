//! Planted bugs, one a checking tool, each made in workers of a runtime. `ci/sanitizers.sh` runs
//! each under its tool before the tests of the runtime, and fails unless the tool finds it. Nothing
//! else runs them.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use umcg::{Builder, Runtime};

fn two_servers() -> Runtime {
    Runtime::builder().servers(2).build().expect("a runtime")
}

#[test]
#[ignore = "AddressSanitizer has to find a stack-buffer-overflow"]
fn address() {
    let overflow = || {
        let array = [1u8; 16];
        umcg::sleep(Duration::from_millis(1));
        let beyond = black_box(array.as_ptr()).wrapping_add(16);
        // SAFETY: none: this is the bug.
        black_box(unsafe { beyond.read_volatile() });
    };
    // SAFETY: the worker keeps nothing of its kernel thread's.
    let worker = unsafe { two_servers().spawn_light(overflow) };
    worker.join().expect("the worker");
}

#[test]
#[ignore = "ThreadSanitizer has to find a data race"]
fn thread() {
    static mut COUNT: u64 = 0;
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let count = || {
        BEGUN.fetch_add(1, Relaxed);
        while BEGUN.load(Relaxed) < 2 {
            spin_loop();
        }
        for _ in 0..1_000 {
            let count = &raw mut COUNT;
            // SAFETY: none: this is the bug.
            unsafe { *count += 1 };
        }
    };
    let runtime = two_servers();
    // SAFETY: the workers keep nothing of their kernel threads'.
    let spawn = |server| unsafe { runtime.build_light(&Builder::new().server(server), count) };
    let workers = [spawn(0), spawn(1)];
    workers
        .into_iter()
        .for_each(|worker| worker.expect("memory").join().expect("a worker"));
}
