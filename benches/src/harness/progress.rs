//! Says on standard error how far the bench is: a bar on a terminal, else a line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// On something that is no terminal, lines are at least this far apart.
const QUIET: Duration = Duration::from_secs(5);

pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { bench: &'static str, done: usize, total: usize, last: Instant },
}

impl Progress {
    pub(super) fn new(bench: &'static str, total: usize) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines { bench, done: 0, total, last: Instant::now() };
        }
        let style = ProgressStyle::with_template("{prefix} [{bar:40}] {pos}/{len} {msg} (about {eta} left)")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self::Bar(ProgressBar::new(total as u64).with_style(style).with_prefix(bench))
    }

    /// A turn of `case` begins. Nothing is drawn while it runs: a drawing thread would disturb it.
    pub(super) fn begin(&self, case: &str) {
        if let Self::Bar(bar) = self {
            bar.set_message(case.to_owned());
        }
    }

    /// A turn is over.
    pub(super) fn end(&mut self) {
        match self {
            Self::Bar(bar) => bar.inc(1),
            Self::Lines { bench, done, total, last } => {
                *done += 1;
                if last.elapsed() >= QUIET {
                    *last = Instant::now();
                    eprintln!("{bench}: {done} of {total} turns done");
                }
            }
        }
    }

    /// One line for people, above the bar if there is one.
    pub(super) fn say(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| eprintln!("{line}")),
            Self::Lines { .. } => eprintln!("{line}"),
        }
    }

    pub(super) fn finish(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
