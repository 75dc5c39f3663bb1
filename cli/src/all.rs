//! `umcg bench all`.

use crate::ERROR;
use crate::bench::{harness_options, look_at, rounds, seconds};
use crate::output;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use umcg_benches::all::{self, Time};
use umcg_benches::harness::{self, Asked, Choice, Fitting, Pattern};
use umcg_benches::{About, bench, catalogue};

const EXPLANATION: &str = "\
The page is one file that fetches nothing. It is written anew after each bench, so that it has what
there is if the run is ended.

Exit status: 0 if all benches have run; 2 after an error, or if a bench or a row of ours failed. A
peer that is missing is no failure, and a bar that is missed is none.";

/// What `umcg bench all` is told.
#[derive(Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct All {
    /// A first look in at most two minutes: five rounds, which are too few for verdicts
    #[arg(long)]
    quick: bool,
    /// Time for all benches together
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<f64>,
    /// Rounds that count, if there is time for them
    #[arg(long, value_name = "N", value_parser = rounds)]
    rounds: Option<usize>,
    /// Only these rows, as for each bench; a first word may be the bench, as in "sem contended".
    /// May be given several times
    #[arg(long, value_name = "ROW")]
    only: Vec<Pattern>,
    /// All rows of each bench, in place of the usual ones. There is not enough time for verdicts
    #[arg(long)]
    all_rows: bool,
    /// Only our own rows, without the peers
    #[arg(long)]
    ours: bool,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "umcg-bench.html")]
    html: PathBuf,
    /// Print one JSON object instead of a summary
    #[arg(long)]
    json: bool,
    /// Tiny sizes, for tests
    #[arg(long, hide = true)]
    small: bool,
}

impl All {
    pub(crate) fn run(self) -> Result<ExitCode> {
        look_at(Some(&self.html))?;
        let (mut written, fitting) = (Ok(()), Fitting::default());
        let write = |all: &all::All| written = write(&self.html, all);
        let all = all::all(
            catalogue(),
            self.time()?,
            |bench| self.options(bench, &fitting),
            write,
        )?;
        let text = if self.json {
            all.to_json()? + "\n"
        } else {
            format!("{}\nThe page: {}\n", all.to_text(), self.html.display())
        };
        output::print(text.as_bytes())?;
        written?;
        self.check(&fitting)?;
        Ok(ExitCode::from(if all.has_failed() { ERROR } else { 0 }))
    }

    fn time(&self) -> Result<Time> {
        let usual = if self.quick { Time::QUICK } else { Time::USUAL };
        let total = self.time.map(Duration::try_from_secs_f64).transpose()?;
        Ok(Time {
            total: total.unwrap_or(usual.total),
            rounds: self.rounds.unwrap_or(usual.rounds),
        })
    }

    /// None if nothing of this bench is asked for.
    fn options(&self, bench: &About, fitting: &Fitting) -> Result<Option<harness::Options>> {
        let Some(only) = Asked::of(&self.only, bench.name, is_bench) else {
            return Ok(None);
        };
        let is_usual = !self.all_rows && !self.small;
        let choice = Choice {
            only,
            usual: if is_usual { bench.usual } else { &[] },
            cases: self.ours.then_some(bench.ours),
            fitting: Some(fitting.clone()),
        };
        harness_options(bench, choice, self.small).map(Some)
    }

    /// Refuses a pattern that has fitted no row. A bench that is measured as a whole hides one for
    /// all benches.
    fn check(&self, fitting: &Fitting) -> Result<()> {
        let is_of_none = |pattern: &&Pattern| {
            catalogue()
                .iter()
                .all(|bench| match pattern.of_bench(bench.name, is_bench) {
                    Asked::Nothing => true,
                    Asked::All => false,
                    Asked::Rows(rest) => !fitting.has(&rest),
                })
        };
        let unfit = self.only.iter().find(is_of_none);
        ensure!(
            unfit.is_none(),
            "no bench has a row with all of \"{}\"",
            unfit
                .iter()
                .flat_map(|it| it.words())
                .collect::<Vec<_>>()
                .join(" ")
        );
        Ok(())
    }
}

fn is_bench(name: &str) -> bool {
    bench(name).is_some()
}

/// Writes the page whole or not at all: a full disk leaves the one of the benches before. What is
/// no file, such as a pipe, is written to as it is.
fn write(file: &Path, all: &all::All) -> Result<()> {
    let page = all.to_html();
    let written = if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        fs::write(file, page)
    } else {
        let mut name = file.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let moved = fs::write(&new, page).and_then(|()| fs::rename(&new, file));
        moved.inspect_err(|_| drop(fs::remove_file(&new)))
    };
    written.with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(only: &[&str]) -> All {
        All {
            quick: false,
            time: None,
            rounds: None,
            only: only.iter().map(|text| text.parse().unwrap()).collect(),
            all_rows: false,
            ours: false,
            html: "x.html".into(),
            json: false,
            small: false,
        }
    }

    #[test]
    fn rows_may_be_of_one_bench() {
        let words = |only: &[&str], name: &str| {
            let options = with(only)
                .options(&bench(name).unwrap(), &Fitting::default())
                .unwrap()?;
            let patterns = options.choice.only.iter();
            let words = patterns.map(|it| it.words().collect::<Vec<_>>().join(" "));
            Some(words.collect::<Vec<_>>())
        };
        assert_eq!(words(&[], "sem"), Some(vec![]));
        assert_eq!(words(&["sem"], "sem"), Some(vec![]));
        assert_eq!(words(&["sem"], "tube"), None);
        let only = &["sem contended cpus=2", "ready"];
        assert_eq!(words(only, "sem").unwrap(), ["contended cpus=2", "ready"]);
        assert_eq!(words(only, "select").unwrap(), ["ready"]);
        assert_eq!(words(&["sem", "ready"], "sem"), Some(vec![]), "all of it");
    }

    #[test]
    fn quick_is_quick() {
        let quick = All {
            quick: true,
            ..with(&[])
        };
        assert_eq!(quick.time().unwrap().total, Duration::from_secs(120));
        let time = All {
            time: Some(30.0),
            ..quick
        };
        assert_eq!(time.time().unwrap().total, Duration::from_secs(30));
        assert_eq!(with(&[]).time().unwrap().total, Duration::from_secs(600));
    }
}
