//! Says on standard error how far the bench is: a bar on a terminal, else a line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// On something that is no terminal, lines are at least this far apart.
const QUIET: Duration = Duration::from_secs(5);

/// Says a line on standard error. A reader that has gone, or a full disk, is no reason to stop.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines {
        what: String,
        unit: &'static str,
        done: usize,
        total: usize,
        start: Instant,
        last: Instant,
    },
}

impl Progress {
    /// This many of a unit.
    pub(crate) fn new(what: &str, total: usize, unit: &'static str) -> Self {
        if !stderr().is_terminal() {
            let now = Instant::now();
            return Self::Lines {
                what: what.to_owned(),
                unit,
                done: 0,
                total,
                start: now,
                last: now,
            };
        }
        let style = ProgressStyle::with_template(
            "{prefix} [{bar:40}] {pos}/{len} {msg} (about {eta} left)",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self::Bar(
            ProgressBar::new(total as u64)
                .with_style(style)
                .with_prefix(what.to_owned()),
        )
    }

    /// A turn of `case` begins. Nothing is drawn while it runs: a drawing thread would disturb it.
    pub(crate) fn begin(&self, case: &str) {
        if let Self::Bar(bar) = self {
            bar.set_message(case.to_owned());
        }
    }

    /// A turn is over.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Bar(bar) => bar.inc(1),
            Self::Lines {
                what,
                unit,
                done,
                total,
                start,
                last,
            } => {
                *done += 1;
                if last.elapsed() >= QUIET {
                    *last = Instant::now();
                    let left = start.elapsed().as_secs_f64() / *done as f64
                        * total.saturating_sub(*done) as f64;
                    tell(format_args!(
                        "{what}: {done} of {total} {unit} done (about {left:.0} s left)"
                    ));
                }
            }
        }
    }

    /// So many will not be.
    pub(crate) fn skip(&mut self, count: usize) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(bar.length().unwrap_or(0).saturating_sub(count as u64))
            }
            Self::Lines { total, .. } => *total = total.saturating_sub(count),
        }
    }

    /// One line for people, above the bar if there is one.
    pub(crate) fn say(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| tell(line)),
            Self::Lines { .. } => tell(line),
        }
    }

    pub(crate) fn finish(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
