//! Counts of what guests did, for `umcg run --stats`.
//!
//! A guest counts in its own state, by a load and a store. The counts of threads that have ended
//! stay with their states, which are reused and never freed.

use super::{guest, run, tell};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Counted {
    /// Waits for private words.
    Wait,
    /// Wake-ups of private words.
    Wake,
    /// Sleeps and yields in user mode.
    Pause,
    /// Calls that were tried in place, and done.
    InPlace,
    /// Ways home, for a call or a signal.
    Home,
    /// Threads that were made.
    Thread,
}

const KINDS: usize = 6;
const TEXTS: [&str; KINDS] = [
    "waits for words",
    "wake-ups",
    "sleeps and yields in user mode",
    "calls done in place that may block",
    "ways home",
    "threads",
];

/// The counts of one guest.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; KINDS]);

impl Counts {
    /// Counts one more. Called by the guest itself.
    #[inline(always)]
    pub(super) fn count(&self, counted: Counted) {
        let count = &self.0[counted as usize];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// From here on the counts are printed when the process ends.
pub(super) fn want() {
    IS_WANTED.store(true, Relaxed);
}

/// Prints the counts, if they are wanted. Called when the process ends, once.
pub(super) fn print() {
    if !IS_WANTED.swap(false, Relaxed) {
        return;
    }
    let mut sums = [0u64; KINDS];
    guest::each_counts(&mut |counts| {
        for (sum, count) in sums.iter_mut().zip(&counts.0) {
            *sum += count.load(Relaxed);
        }
    });
    let mut text = String::from("run:");
    for (sum, name) in sums.iter().zip(TEXTS) {
        let _ = write!(text, "\n  {sum:>14} {name}");
    }
    let _ = write!(text, "\n  {:>14} turns of servers", run::turns());
    let report = umcg_intercept::report();
    for (object, counts) in &report.objects {
        let path = String::from_utf8_lossy(&object.path);
        let (sites, patched) = (counts.sites, counts.patched + counts.unhooked);
        let _ = write!(text, "\n  {patched:>6} of {sites:>4} sites of {path}");
    }
    tell(format_args!("{text}"));
}
