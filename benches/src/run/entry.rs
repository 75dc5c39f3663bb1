//! One program of the bench: how it is started, and where its figures come from.

use super::client::Protocol;
use super::compile::Source;
use super::process::{Finished, Usage};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

/// A program and what it is asked to do.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The value of the parameter `program`.
    pub(super) program: &'static str,
    pub(super) file: File,
    pub(super) arguments: fn(&Ask<'_>) -> Vec<String>,
    /// Of the environment, the same on both sides.
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) needs: fn(&Ask<'_>) -> Vec<Needed>,
    pub(super) measure: Measure,
}

/// A file that a program needs: its name, and its contents.
pub(super) type Needed = (&'static str, Vec<u8>);

#[derive(Clone, Copy)]
pub(super) enum File {
    Own(&'static Source),
    /// Found in the path.
    Installed(&'static str),
}

/// Where the figures come from.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    /// The program works for the time it is told, and its last line says how much it did.
    Timed,
    /// An operation is the whole life of a process. As many run as fit into the time.
    Whole,
    /// The program does as many pieces of work as it is told. The number is found by trying.
    Counted {
        first: u64,
        figures: fn(&str, &Ask<'_>) -> Option<Count>,
    },
    /// It serves. The client has as many connections as each of these says; the second list is for
    /// tests.
    Served {
        protocol: Protocol,
        connections: [&'static [usize]; 2],
    },
}

/// The request to one process.
pub(super) struct Ask<'a> {
    pub(super) budget: Duration,
    pub(super) servers: usize,
    /// Pieces of work.
    pub(super) count: u64,
    /// For a server to listen on.
    pub(super) port: u16,
    pub(super) folder: &'a Path,
    /// Sizes for tests.
    pub(super) small: bool,
}

impl Ask<'_> {
    pub(super) fn pick<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }

    /// The arguments of a program of our own.
    pub(super) fn timed(&self, sizes: &[&str]) -> Vec<String> {
        self.timed_longer(1, sizes)
    }

    /// The same for so many times as long: its operations take some milliseconds.
    pub(super) fn timed_longer(&self, times: u32, sizes: &[&str]) -> Vec<String> {
        [(self.budget * times).as_secs_f64().to_string()]
            .into_iter()
            .chain(sizes.iter().map(|&size| size.to_owned()))
            .collect()
    }
}

/// Operations, and the time that they took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Count {
    pub(super) operations: f64,
    pub(super) seconds: f64,
}

/// The findings of a turn.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) count: Count,
    /// Of so many operations: those that warm up are among them.
    pub(super) usage: Usage,
    pub(super) all: f64,
    /// The part of the output that is the same on both sides, as a hash.
    pub(super) said: u64,
    /// Standard error, where notes of `umcg run` are.
    pub(super) errors: String,
}

impl Figures {
    /// In the order of the metrics.
    pub(super) fn values(&self) -> Vec<f64> {
        vec![
            self.count.operations / self.count.seconds,
            self.usage.cpu.as_secs_f64() * 1e6 / self.all,
            self.usage.switches as f64 / self.all,
        ]
    }

    /// Of a program that has told its figures in its last line.
    pub(super) fn told(finished: Finished) -> Result<Self> {
        let text = String::from_utf8_lossy(&finished.output);
        let text = text.trim_end();
        let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
        let (count, all) = last_line(last)
            .with_context(|| format!("its last line is {last:?}, not \"ops N seconds S all M\""))?;
        Ok(Self {
            count,
            usage: finished.usage,
            all,
            said: digest(before.as_bytes()),
            errors: finished.errors,
        })
    }
}

/// "ops N seconds S all M".
fn last_line(line: &str) -> Option<(Count, f64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["ops", operations, "seconds", seconds, "all", all] = words[..] else {
        return None;
    };
    let count = Count {
        operations: operations.parse::<u64>().ok()? as f64,
        seconds: seconds.parse().ok()?,
    };
    let all = all.parse::<u64>().ok()? as f64;
    let is_possible = count.operations > 0.0 && count.seconds > 0.0 && all >= count.operations;
    is_possible.then_some((count, all))
}

/// For comparing the output of processes.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(output: &str) -> Result<Figures> {
        Figures::told(Finished {
            output: output.as_bytes().to_vec(),
            errors: String::new(),
            took: Duration::ZERO,
            usage: Usage {
                cpu: Duration::from_millis(3),
                switches: 600,
            },
        })
    }

    #[test]
    fn figures_are_in_the_last_line() {
        let figures = told("sum 5\nops 200 seconds 0.5 all 300\n").unwrap();
        assert_eq!(figures.values(), [400.0, 10.0, 2.0]);
        let same = told("sum 5\nops 7 seconds 1 all 9\n").unwrap();
        assert_eq!(same.said, figures.said);
        assert_ne!(
            told("sum 6\nops 7 seconds 1 all 9\n").unwrap().said,
            same.said
        );
    }

    #[test]
    fn other_lines_are_refused() {
        for wrong in [
            "",
            "ops 0 seconds 1 all 1",
            "ops 1 seconds 0 all 1",
            "ops 2 seconds 1 all 1",
            "ops 1 seconds 1",
            "ops -1 seconds 1 all 1",
            "ops 1 seconds nan all 1",
            "ops 1 seconds 1 all 1\nand more",
        ] {
            let error = told(wrong).unwrap_err().to_string();
            assert!(error.contains("its last line"), "{wrong}: {error}");
        }
    }
}
