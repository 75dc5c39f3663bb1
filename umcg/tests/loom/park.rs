//! Park and unpark.

use crate::rt::park;
use crate::semaphore::Data;
use crate::shim::atomic::AtomicU32;
use crate::{be, check, leak, party};
use std::sync::atomic::Ordering::Relaxed;

const WHY: &&str = &"model";

/// Changes made before the unpark are seen after the park, though the word that says so orders
/// nothing.
fn told(is_worker: bool, times: u32) {
    let count = leak(AtomicU32::new(0));
    let (task, waiter) = party(is_worker, move || {
        for time in 1..=times {
            while count.newest() < time {
                park::park_for(WHY);
            }
        }
    });
    be(true);
    for _ in 0..times {
        count.fetch_add(1, Relaxed);
        park::wake(task);
    }
    waiter.join().unwrap();
}

/// One park for one unpark: changes made before the unpark are seen.
fn seen(is_worker: bool) {
    let data = Data::new();
    let (task, waiter) = party(is_worker, move || {
        park::park_for(WHY);
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    park::wake(task);
    waiter.join().unwrap();
}

#[test]
fn no_unpark_is_lost() {
    check(2, || told(true, 2));
    check(2, || told(false, 2));
}

#[test]
fn an_unpark_says_what_was_before() {
    check(2, || seen(true));
    check(2, || seen(false));
}
