//! The report at the end of the process, for `umcg run --stats`.

use super::stats::KINDS;
use super::{guest, servers, tell, trace};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// By kind of count.
const TEXTS: [&str; KINDS] = [
    "waits for words",
    "wake-ups",
    "sleeps and yields in user mode",
    "calls done in place that may block",
    "ways home",
    "threads",
];

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// From here on the counts are printed when the process ends.
pub(super) fn want() {
    IS_WANTED.store(true, Relaxed);
}

/// Prints the counts, if they are wanted, and ends the trace. Called when the process ends, once.
pub(super) fn print() {
    trace::flush();
    if !IS_WANTED.swap(false, Relaxed) {
        return;
    }
    let mut sums = [0u64; KINDS];
    guest::each_counts(&mut |counts| {
        for (sum, count) in sums.iter_mut().zip(counts.load()) {
            *sum += count;
        }
    });
    let mut text = String::from("run:");
    for (sum, name) in sums.iter().zip(TEXTS) {
        let _ = write!(text, "\n  {sum:>14} {name}");
    }
    let _ = write!(text, "\n  {:>14} turns of servers", servers::turns());
    let report = umcg_intercept::report();
    for (object, counts) in &report.objects {
        let path = String::from_utf8_lossy(&object.path);
        let sites = counts.sites;
        let missed = counts.no_window + counts.no_memory + counts.not_writable;
        if sites > 0 {
            let seen = sites - missed;
            let _ = write!(text, "\n  {seen:>6} of {sites:>4} sites of {path}");
        }
    }
    tell(format_args!("{text}"));
}
