//! Stacks of workers.

use crate::support::{Kind, eventually};
use std::ffi::c_void;
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use umcg::{Builder, Error, Runtime, SpawnError};

/// However small a stack is asked for, the library itself fits, and a small function.
#[test]
fn the_smallest_stack_is_large_enough_for_nothing() {
    let runtime = Runtime::builder().servers(1).stack_size(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        for bytes in [0, 1, 4096] {
            let builder = Builder::new().stack_size(bytes);
            let worker = kind.build_on(&runtime, &builder, umcg::yield_now);
            worker.unwrap().join().unwrap();
        }
    }
}

#[test]
fn stacks_beyond_all_bounds_are_an_error() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for bytes in [(1 << 30) + 1, usize::MAX / 2, usize::MAX] {
        let error = Kind::Full
            .build_on(&runtime, &Builder::new().stack_size(bytes), || ())
            .unwrap_err();
        assert!(
            matches!(error, SpawnError::Stack(_)) && error.to_string().contains("1 GiB"),
            "{error}"
        );
        let error = Runtime::builder().stack_size(bytes).build().unwrap_err();
        assert!(matches!(error, Error::Stack(_)), "{error}");
    }
}

/// The size that ordinary code needs without optimisation, and a thread has: see also
/// `ci/ordinary`.
#[test]
fn the_default_stack_has_room() {
    fn deep(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 128]);
        if n == 0 {
            0
        } else {
            frame[100] - n + deep(n - 1) + 1
        }
    }
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        assert_eq!(kind.run(&runtime, || deep(90)), 90);
    }
}

fn until(over: &AtomicBool) {
    while !over.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that is to end at its next point of cancellation of the C library's comes back from a
/// trim that has to wait for a server, and from dumps, which read the kernel's files: or the
/// servers would stand still for good.
#[test]
fn trims_and_dumps_are_no_points_of_cancellation() {
    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    }
    extern "C" fn main(runtime: *mut c_void) -> *mut c_void {
        const DISABLE: i32 = 1;
        // SAFETY: passed below, which joins this thread.
        let runtime = unsafe { &*runtime.cast::<Runtime>() };
        // SAFETY: no preconditions.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: the calling thread.
        unsafe { pthread_cancel(me) };
        umcg::rt::trim();
        let dump = runtime.dump();
        // SAFETY: for the rest of this thread's life.
        unsafe { pthread_setcancelstate(DISABLE, null_mut()) };
        without_provenance_mut(usize::from(dump.contains("blocks")))
    }
    let (runs, is_over) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let (its_runs, its_end) = (runs.clone(), is_over.clone());
    let sees_end = is_over.clone();
    let blocked = runtime.spawn(move || umcg::blocking(|| until(&sees_end)));
    eventually("it blocks", || runtime.dump().contains("blocks"));
    let worker = runtime.spawn(move || {
        its_runs.store(true, Relaxed);
        while !its_end.load(Relaxed) {
            std::hint::spin_loop();
        }
    });
    while !runs.load(Relaxed) {
        std::thread::yield_now();
    }
    let (mut thread, mut result) = (0, null_mut());
    let argument = (&raw const runtime).cast_mut().cast();
    // SAFETY: `main` takes the runtime, which outlives the thread.
    let made = unsafe { libc::pthread_create(&raw mut thread, null(), main, argument) };
    assert_eq!(made, 0);
    // SAFETY: made just now, and joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut result) }, 0);
    is_over.store(true, Relaxed);
    if result.addr() != 1 {
        std::mem::forget(runtime);
        panic!("it was cancelled in there, and the runtime stands still");
    }
    worker.join().unwrap();
    blocked.join().unwrap();
}
