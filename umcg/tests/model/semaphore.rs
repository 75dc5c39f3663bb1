//! Semaphores: what takes many parties, or looks into them.

use crate::check;
use crate::parties::{NEVER, SOON, join_all, party, worker};
use crate::sync::{Semaphore, any};
use shuttle::thread;

#[path = "../checked/semaphore.rs"]
mod checked;

/// The first that came is the first that is served.
#[test]
fn first_come_first_served() {
    fn in_order(is_worker: bool) {
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
        let (_, first) = party(is_worker, || semaphore.acquire().unwrap());
        while !format!("{semaphore:?}").contains("has_waiters: true") {
            thread::yield_now();
        }
        let (_, second) = party(true, || semaphore.acquire_until(1, SOON).is_ok());
        semaphore.release(1).unwrap();
        first.join().unwrap();
        crate::kernel::advance(SOON);
        assert!(!second.join().unwrap());
    }
    check(|| in_order(true));
    check(|| in_order(false));
}

/// The same one twice, beside one that waits plainly.
#[test]
fn the_same_one_twice() {
    check(|| {
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
        let twice = worker(|| _ = any(&[semaphore, semaphore], NEVER).unwrap());
        let plain = worker(|| semaphore.acquire().unwrap());
        semaphore.release(2).unwrap();
        join_all([twice, plain]);
        assert_eq!(semaphore.available(), 0);
    });
}
