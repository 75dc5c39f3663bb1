//! Semaphores and altsems, on the protocol of waiting.

use crate::shim::cell::Cell;
use crate::sync::{Semaphore, any};
use crate::{be, check, leak, party};

/// What is given with a wakeup, and seen by who takes it.
pub(crate) struct Data(Cell<u32>);

// SAFETY: the cell fails where it is not so.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new() -> &'static Data {
        leak(Data(Cell::new(0)))
    }

    pub(crate) fn write(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn read(&self) -> u32 {
        self.0.get()
    }
}

fn of_kind(is_barging: bool) -> &'static Semaphore {
    leak(if is_barging { Semaphore::barging(0) } else { Semaphore::new(0) })
}

/// Who comes through sees what was done before.
fn one(is_barging: bool, is_worker: bool) {
    let (semaphore, data) = (of_kind(is_barging), Data::new());
    let (_, taker) = party(is_worker, || {
        semaphore.acquire().unwrap();
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    semaphore.release(1).unwrap();
    taker.join().unwrap();
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn a_wakeup_says_what_was_before() {
    check(|| one(false, true));
    check(|| one(false, false));
    check(|| one(true, true));
    check(|| one(true, false));
}
