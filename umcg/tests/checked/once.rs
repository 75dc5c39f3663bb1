//! What is done once, on the protocol of waiting.

use crate::checker::{check, check_large, leak};
use crate::parties::{Data, be, join_all, parties};
use crate::sync::once::Once;

/// It is done once, and seen by all.
fn once(is_worker: bool, count: u32) {
    let (once, data) = (leak(Once::new()), Data::new());
    let call = move || {
        once.call_once(|| data.write());
        assert_eq!(data.read(), 1);
    };
    let others = parties(count - 1, is_worker, call);
    be(is_worker);
    call();
    join_all(others);
}

#[test]
fn what_is_done_once_is_seen() {
    check(2, || once(true, 2));
    check(2, || once(false, 2));
    check_large(|| once(true, 3));
}
