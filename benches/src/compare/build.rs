//! One of the two builds: its options, and a run of it.

use super::reading::Reading;
use crate::harness::{Child, Program, cpu};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A build of the command `umcg`.
#[derive(Debug)]
pub(super) struct Build {
    /// A or B.
    pub(super) letter: char,
    pub(super) file: PathBuf,
    /// Of the file, which must stay the same.
    stamp: Stamp,
    patience: Duration,
}

/// Inode, size, and when it was written.
type Stamp = (u64, u64, i64, i64);

fn stamp(file: &Path) -> Result<Stamp> {
    let data = fs::metadata(file).with_context(|| file.display().to_string())?;
    ensure!(data.is_file(), "{}: no program", file.display());
    Ok((data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

/// Which options of a bench a build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) only: Only,
    pub(super) ours: bool,
    pub(super) rounds: bool,
    /// It runs few rows unless it is told to run all.
    pub(super) all_rows: bool,
}

/// The arguments for `--only`. A build that takes rows takes metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Only {
    Nothing,
    Metrics,
    Rows,
}

impl Abilities {
    fn of(help: &str) -> Self {
        let has = |option: &str| help.split([' ', '\n', ',']).any(|word| word == option);
        let only = match () {
            () if help.contains("--only <ROW>") => Only::Rows,
            () if has("--only") => Only::Metrics,
            () => Only::Nothing,
        };
        Self {
            only,
            ours: has("--ours"),
            rounds: has("--rounds"),
            all_rows: has("--all-rows"),
        }
    }

    /// The options that both have: the two are to do the same.
    pub(super) fn both([one, other]: [Self; 2]) -> Self {
        Self {
            only: one.only.min(other.only),
            ours: one.ours && other.ours,
            rounds: one.rounds && other.rounds,
            all_rows: one.all_rows && other.all_rows,
        }
    }
}

impl Build {
    pub(super) fn new(letter: char, file: &Path, patience: Duration) -> Result<Self> {
        let file =
            fs::canonicalize(file).with_context(|| format!("{letter}: {}", file.display()))?;
        let stamp = stamp(&file).with_context(|| letter.to_string())?;
        Ok(Self {
            letter,
            file,
            stamp,
            patience,
        })
    }

    /// By the help of the bench.
    pub(super) fn abilities(&self, bench: &str) -> Result<Abilities> {
        let help = self.output(&["bench".into(), bench.into(), "--help".into()]);
        Ok(Abilities::of(&help.with_context(|| {
            format!("{} has no help for bench {bench}", self.letter)
        })?))
    }

    /// A run of a bench, with these arguments.
    pub(super) fn run(&self, bench: &str, arguments: &[OsString]) -> Result<Reading> {
        let text = self
            .output(arguments)
            .with_context(|| format!("{} failed", self.letter))?;
        Reading::of(&text, bench)
            .with_context(|| format!("{} printed no report of bench {bench}", self.letter))
    }

    fn output(&self, arguments: &[OsString]) -> Result<String> {
        let program = Program {
            file: self.file.clone(),
            arguments: arguments.to_vec(),
        };
        Child::spawn(&program, &cpu::allowed()?)?.output(self.patience)
    }

    /// Whether the file is still unchanged.
    pub(super) fn check(&self) -> Result<()> {
        let same = stamp(&self.file)? == self.stamp;
        ensure!(
            same,
            "{} was written to meanwhile: {}",
            self.letter,
            self.file.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_the_help() {
        let old = Abilities::of("  --seconds <N>  Time\n  --only <METRIC>  Only this\n");
        assert_eq!(
            old,
            Abilities {
                only: Only::Metrics,
                ours: false,
                rounds: false,
                all_rows: false
            }
        );
        let new = Abilities::of(
            "      --rounds <N>       Rounds\n      --only <ROW>   Only\n      --ours\n          \
             Only\n      --all-rows\n          All\n",
        );
        assert_eq!(
            new,
            Abilities {
                only: Only::Rows,
                ours: true,
                rounds: true,
                all_rows: true
            }
        );
        assert_eq!(Abilities::both([old, new]), old);
        assert_eq!(
            Abilities::of("--paper"),
            Abilities {
                only: Only::Nothing,
                ours: false,
                rounds: false,
                all_rows: false
            }
        );
    }

    #[test]
    fn a_build_is_a_file() {
        let refused = |file: &str| {
            format!(
                "{:#}",
                Build::new('B', Path::new(file), Duration::ZERO).unwrap_err()
            )
        };
        assert!(refused("/no/such/file").starts_with("B: /no/such/file: No such file"));
        assert!(refused("/").contains("no program"));
    }
}
