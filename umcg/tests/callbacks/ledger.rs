//! What is made, and how often each was dropped.

use crate::trap::{Point, Trap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Never freed: what is dropped twice is counted, and no more.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Vec<u8>>);

impl Ledger {
    pub(crate) fn new() -> &'static Ledger {
        Box::leak(Box::default())
    }

    fn make(&self) -> usize {
        let mut drops = self.0.lock().unwrap();
        drops.push(0);
        drops.len() - 1
    }

    fn drop_one(&self, index: usize) {
        self.0.lock().unwrap()[index] += 1;
    }

    /// Waits a while for those that are dropped by others. In the kernel, as the party may be one
    /// that was aborted.
    pub(crate) fn settle(&self) {
        let start = Instant::now();
        while self.0.lock().unwrap().contains(&0) && start.elapsed() < Duration::from_secs(100) {
            umcg::blocking(|| std::thread::sleep(Duration::from_micros(100)));
        }
    }

    /// Each was dropped once.
    #[track_caller]
    pub(crate) fn check(&self, what: &str) {
        let drops = self.0.lock().unwrap();
        assert!(drops.iter().all(|count| *count == 1), "{what}: dropped so often, of what was made: {drops:?}");
    }
}

/// Something that is to be dropped once, of some size.
pub(crate) struct Thing<const BYTES: usize = 0> {
    index: usize,
    ledger: &'static Ledger,
    trap: &'static Trap,
    _bytes: [u8; BYTES],
}

impl<const BYTES: usize> Thing<BYTES> {
    pub(crate) fn new(ledger: &'static Ledger, trap: &'static Trap) -> Thing<BYTES> {
        Thing { index: ledger.make(), ledger, trap, _bytes: [0; BYTES] }
    }
}

impl<const BYTES: usize> Drop for Thing<BYTES> {
    fn drop(&mut self) {
        self.ledger.drop_one(self.index);
        self.trap.at(Point::Drop);
    }
}

/// The checks themselves find what they are for.
#[test]
fn what_is_wrong_is_found() {
    let wrong = |bad: fn(Thing)| {
        let (ledger, trap) = (Ledger::new(), Trap::idle());
        bad(Thing::new(ledger, trap));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ledger.check("expected"))).is_err()
    };
    crate::support::silence_what_is_expected();
    assert!(!wrong(drop));
    assert!(wrong(std::mem::forget));
    assert!(wrong(|mut thing| {
        // SAFETY: it owns no memory.
        unsafe { std::ptr::drop_in_place(&mut thing) };
    }));
}
