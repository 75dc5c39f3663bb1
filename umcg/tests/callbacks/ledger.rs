//! The values that are made, and how often each was dropped.

use crate::trap::{Point, Trap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Never freed: a value that is dropped twice is counted, and no more.
#[derive(Default)]
pub(crate) struct Ledger {
    drops: Mutex<Vec<u8>>,
    /// Others make and drop things, too, at any time.
    has_others: AtomicBool,
}

impl Ledger {
    pub(crate) fn new() -> &'static Ledger {
        Box::leak(Box::default())
    }

    fn make(&self) -> usize {
        let mut drops = self.drops.lock().unwrap();
        drops.push(0);
        drops.len() - 1
    }

    fn drop_one(&self, index: usize) {
        self.drops.lock().unwrap()[index] += 1;
    }

    /// Waits a while for values that are dropped by others, here and when it is checked: they may
    /// make more at any time.
    pub(crate) fn settle(&self) {
        self.has_others.store(true, Relaxed);
        self.settled();
    }

    /// How often each was dropped, at a moment when no other has to drop one. Waits in the kernel,
    /// as the party may be one that was aborted.
    fn settled(&self) -> Vec<u8> {
        let start = Instant::now();
        loop {
            let drops = self.drops.lock().unwrap().clone();
            let is_late = start.elapsed() > Duration::from_secs(100);
            if !drops.contains(&0) || !self.has_others.load(Relaxed) || is_late {
                return drops;
            }
            umcg::blocking(|| std::thread::sleep(Duration::from_micros(100)));
        }
    }

    /// Each was dropped once.
    #[track_caller]
    pub(crate) fn check(&self, what: &str) {
        let drops = self.settled();
        assert!(
            drops.iter().all(|count| *count == 1),
            "{what}: dropped so often, of what was made: {drops:?}"
        );
    }
}

/// A value of some size that is to be dropped once.
pub(crate) struct Thing<const BYTES: usize = 0> {
    index: usize,
    ledger: &'static Ledger,
    trap: &'static Trap,
    _bytes: [u8; BYTES],
}

impl<const BYTES: usize> Thing<BYTES> {
    pub(crate) fn new(ledger: &'static Ledger, trap: &'static Trap) -> Thing<BYTES> {
        Thing {
            index: ledger.make(),
            ledger,
            trap,
            _bytes: [0; BYTES],
        }
    }
}

impl<const BYTES: usize> Drop for Thing<BYTES> {
    fn drop(&mut self) {
        self.ledger.drop_one(self.index);
        self.trap.at(Point::Drop);
    }
}

/// The checks themselves find the faults they are for.
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
