//! `umcg bench compare`.

mod checkout;

use crate::ERROR;
use crate::bench::{look_at, picture, rounds, seconds};
use crate::output;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use umcg_benches::compare::interval::{FEWEST, MOST};
use umcg_benches::compare::{self, Figure, Plan, Verdict, files};
use umcg_benches::harness::Pattern;
use umcg_benches::harness::tell;
use umcg_benches::{About, catalogue};

const EXPLANATION: &str = "\
Example: umcg bench compare --builds old/umcg target/release/umcg -- switch --only umcg-light
         umcg bench compare monday.json tuesday.json

The builds run in turn, in pairs whose order alternates. For each row the pairs give what B costs
in what A costs, above 1 for worse, and an interval that holds the true median with at least 95 %
confidence. A row is worse if the whole interval is beyond the tolerance, and better if it is on
the other side; it is the same if the whole interval is within, and else unclear. Rows that look
worse are measured again, and judged by the new pairs alone.

After --: the bench, and perhaps
  --only ROW      only these rows; as for the bench itself
  --all-rows      all rows, in place of the usual ones
  --seconds N     time for each row in a run [default: 0.2; with --best 0.02]
  --rounds N      rounds in a run [default: 3; with --best 15; a very old build makes 7]
  --peers         the rows of peers, too: they should be the same

Of two files that --json of a bench or of `bench all` has printed, the rows of both are compared, by
their rounds. That is weaker: the files are of two times. --only ROW may stand for them, too.

Exit status: 0 if no row is worse, 1 if one is, 2 after an error or if a run had to be made again.";

/// What `umcg bench compare` is told.
#[derive(Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct Compare {
    /// Two files that --json of a bench has printed, in place of builds
    #[arg(
        num_args = 2,
        value_names = ["A.json", "B.json"],
        conflicts_with_all = ["builds", "target"]
    )]
    files: Vec<PathBuf>,
    /// Two builds of this command: programs, or checkouts, which are built first
    #[arg(long, num_args = 2, value_names = ["A", "B"], required_unless_present = "files")]
    builds: Vec<PathBuf>,
    /// Of files: only rows with all of these words; may be given several times
    #[arg(long, value_name = "ROW", requires = "files")]
    only: Vec<Pattern>,
    /// Pairs of runs
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = pairs)]
    pairs: usize,
    /// A difference up to so many per cent is none
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    tolerance: f64,
    /// End a run that has written nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 180.0, value_parser = seconds)]
    patience: f64,
    /// Judge each run by its best round, in place of the median; for machines that others use too
    #[arg(long)]
    best: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Draw each row's ratio and interval into a file; its name ends in .svg, or in .png
    #[arg(long, value_name = "FILE", value_parser = picture)]
    plot: Option<PathBuf>,
    /// The bench, and which of it
    #[arg(
        last = true,
        required_unless_present = "files",
        value_name = "BENCH [OPTIONS]"
    )]
    target: Vec<String>,
}

/// The arguments after `--`.
#[derive(Parser)]
#[command(name = "umcg bench compare --builds A B --", no_binary_name = true)]
struct Target {
    /// The bench
    #[arg(value_parser = PossibleValuesParser::new(catalogue().iter().map(|bench| bench.name)))]
    bench: String,
    /// Only rows with all of these words; may be given several times
    #[arg(long, value_name = "ROW")]
    only: Vec<Pattern>,
    /// Time for each row in a run
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Rounds in a run
    #[arg(long, value_name = "N", value_parser = rounds)]
    rounds: Option<usize>,
    /// All rows, in place of the usual ones
    #[arg(long)]
    all_rows: bool,
    /// The rows of peers, too
    #[arg(long)]
    peers: bool,
    /// Tiny sizes, for tests
    #[arg(long, hide = true)]
    small: bool,
}

fn pairs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(pairs) if (FEWEST..=MOST).contains(&pairs) => Ok(pairs),
        _ => Err(format!(
            "a number from {FEWEST}, so that there is an interval, to {MOST}"
        )),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("a number of per cent from 0 to 1000".to_owned()),
    }
}

impl Compare {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let [a, b] = &self.files[..] {
            return self.files([a, b]);
        }
        let target = Target::try_parse_from(&self.target).unwrap_or_else(|error| error.exit());
        look_at(self.plot.as_ref())?;
        let [a, b] = &self.builds[..] else {
            unreachable!("two are required")
        };
        let builds = [program(a).context("A")?, program(b).context("B")?];
        let plan = self.plan(target)?;
        let comparison = compare::compare([&builds[0], &builds[1]], &plan)?;
        let text = if self.json {
            comparison.to_json()? + "\n"
        } else {
            comparison.to_text()
        };
        output::print(text.as_bytes())?;
        self.plot
            .as_ref()
            .map_or(Ok(()), |file| compare::plot(&comparison, file))?;
        Ok(ExitCode::from(match () {
            () if comparison.with(Verdict::Worse).next().is_some() => 1,
            () if !comparison.failures.is_empty() => ERROR,
            () => 0,
        }))
    }

    fn files(&self, files: [&PathBuf; 2]) -> Result<ExitCode> {
        look_at(self.plot.as_ref())?;
        let found = files::compare(files.map(|it| &**it), self.tolerance / 100.0, &self.only)?;
        for warning in &found.warnings {
            tell(format_args!("umcg: warning: {warning}"));
        }
        let text = if self.json {
            found.to_json()? + "\n"
        } else {
            found.to_text()
        };
        output::print(text.as_bytes())?;
        self.plot.as_ref().map_or(Ok(()), |file| found.plot(file))?;
        let is_worse = found.with(Verdict::Worse).next().is_some();
        Ok(ExitCode::from(u8::from(is_worse)))
    }

    fn plan(&self, target: Target) -> Result<Plan> {
        let Target {
            bench,
            only,
            all_rows,
            peers,
            small,
            ..
        } = target;
        // A short turn may go undisturbed by other programs, and of many one does.
        let (figure, time, times) = if self.best {
            (Figure::Best, 0.02, 15)
        } else {
            (Figure::Median, 0.2, 3)
        };
        let (seconds, rounds) = (
            target.seconds.unwrap_or(time),
            target.rounds.unwrap_or(times),
        );
        let is_it = |about: &About| about.name == bench;
        let bench = catalogue()
            .into_iter()
            .find(is_it)
            .context("no such bench")?;
        let (pairs, tolerance) = (self.pairs, self.tolerance / 100.0);
        let patience = Duration::try_from_secs_f64(self.patience)?;
        Ok(Plan {
            bench,
            pairs,
            tolerance,
            figure,
            seconds,
            rounds,
            only,
            all_rows,
            peers,
            small,
            patience,
        })
    }
}

/// A checkout's program is built.
fn program(path: &Path) -> Result<PathBuf> {
    if path.is_dir() {
        checkout::build(path)
    } else {
        Ok(path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        assert_eq!(pairs("6"), Ok(6));
        assert!(
            ["5", "1001", "-1", "x"]
                .iter()
                .all(|wrong| pairs(wrong).is_err())
        );
        assert_eq!(percent("2.5"), Ok(2.5));
        assert!(
            ["-1", "nan", "1001", ""]
                .iter()
                .all(|wrong| percent(wrong).is_err())
        );
    }

    #[test]
    fn what_stands_behind_the_dashes_is_sound() {
        use clap::CommandFactory;
        Target::command().debug_assert();
        let target =
            Target::try_parse_from(["sem", "--only", "umcg contended", "--only", "fairness"])
                .unwrap();
        assert_eq!(
            (target.only.len(), target.rounds, target.peers),
            (2, None, false)
        );
        assert!(Target::try_parse_from(["nothing"]).is_err());
        assert!(Target::try_parse_from(["switch", "--only", ""]).is_err());
    }
}
