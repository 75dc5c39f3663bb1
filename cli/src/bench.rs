//! `umcg bench`.

use crate::all::All;
use crate::compare::Compare;
use crate::output;
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use umcg_benches::harness::{
    self, Choice, Notes, Pattern, Plan, Program, Report, Section, judge, plot, table, words,
};
use umcg_benches::{About, bench as named, block, rt, scale, sync, uth};

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Every bench in at most ten minutes, and a page of tables, plots and verdicts
    All(All),
    /// Judge whether one build of this command costs more than another
    Compare(Compare),
    /// Round trips between a main thread and a worker, through everything there is for it
    #[command(after_help = metrics("switch"))]
    Switch(Parts),
    /// The tables of the UthLib paper: switch, creation, recycling, re-initialisation
    #[command(after_help = metrics("uth"))]
    Uth {
        #[command(flatten)]
        parts: Parts,
        /// Print the paper's own figures too
        #[arg(long, conflicts_with = "json")]
        paper: bool,
    },
    /// The runtime beside tokio, may, Go, kernel threads and a C server
    #[command(after_help = metrics("rt"))]
    Rt(Parts),
    /// Unmodified programs, native and under `umcg run`
    #[command(after_help = metrics("run"))]
    Run(Parts),
    /// Workers that block as threads do, and are noticed, beside threads, tokio and `umcg::net`
    #[command(after_help = metrics("block"))]
    Block(Parts),
    /// The default scheduler with up to 256 servers, simulated, beside the runtime on this machine
    #[command(after_help = metrics("scale"))]
    Scale {
        #[command(flatten)]
        parts: Parts,
        /// Simulate with the costs of this machine, as far as it can tell them
        #[arg(long)]
        measure_costs: bool,
    },
    /// Semaphores and mutexes: ours, the kernel's, the C library's, std's, parking_lot's, tokio's,
    /// Go's
    #[command(after_help = metrics("sem"))]
    Sem(Parts),
    /// One of many semaphores, beside the paper's program for semaphores that cannot do that
    #[command(after_help = metrics("altsems"))]
    Altsems(Parts),
    /// Channels: ours, crossbeam's, kanal's, flume's, tokio's, Go's, pipes and message queues
    #[command(after_help = metrics("tube"))]
    Tube(Parts),
    /// To wait for one of many channels: ours, crossbeam's, flume's, tokio's, Go's
    #[command(after_help = metrics("select"))]
    Select(Parts),
    /// To wait for one of many words: ours, futex_waitv, and eventfds with poll and epoll
    #[command(after_help = metrics("waitv"))]
    Waitv(Parts),
    /// A turn of `bench block`
    #[command(hide = true)]
    BlockChild {
        /// What to do, in JSON
        task: String,
    },
    /// A turn of `bench rt`
    #[command(hide = true)]
    RtChild {
        /// What to do, in JSON
        task: String,
    },
    /// A turn of `bench sem` and those beside it
    #[command(hide = true)]
    SyncChild {
        /// What to do, in JSON
        task: String,
    },
}

#[derive(Args)]
pub(crate) struct Parts {
    #[command(flatten)]
    options: Options,
    /// Tiny sizes, for tests
    #[arg(long, hide = true)]
    small: bool,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Time for each case, all rounds together
    #[arg(
        long,
        value_name = "N",
        default_value_t = Plan::default().seconds,
        value_parser = seconds
    )]
    seconds: f64,
    /// Rounds that count, beside one that warms up
    #[arg(long, value_name = "N", default_value_t = Plan::default().rounds, value_parser = rounds)]
    rounds: usize,
    /// Only rows with all of these words: a metric, a case, KEY=VALUE for a parameter, or its
    /// value where that is a word; as in "umcg cpus=2". May be given several times. Without it
    /// there are the usual rows
    #[arg(long, value_name = "ROW")]
    only: Vec<Pattern>,
    /// All rows, in place of the usual ones; takes longer, of some benches much longer
    #[arg(long)]
    all_rows: bool,
    /// Only our own rows, without the peers
    #[arg(long)]
    ours: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Draw the figures into a file; its name ends in .svg, or in .png
    #[arg(long, value_name = "FILE", value_parser = picture)]
    plot: Option<PathBuf>,
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("a number above 0 and up to 1000000, as in 2.5".to_owned()),
    }
}

pub(crate) fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=1000) => Ok(rounds),
        _ => Err("a number from 1 to 1000".to_owned()),
    }
}

/// The path of a picture: its name tells the contents.
pub(crate) fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let ending = path.extension();
    let is_svg = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    if is_svg || harness::is_png(&path) {
        Ok(path)
    } else {
        Err("pictures are SVG or PNG: the name has to end in .svg or .png".to_owned())
    }
}

/// Refuses a file that could not be written, before the measurement rather than after it. Leaves it
/// as it is.
pub(crate) fn look_at(picture: Option<&PathBuf>) -> Result<()> {
    let Some(file) = picture else { return Ok(()) };
    let new = OpenOptions::new().write(true).create_new(true).open(file);
    let tried = match new {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(file).map(drop)
        }
        Err(error) => Err(error),
    };
    tried.with_context(|| format!("cannot write {}", file.display()))
}

const COLUMNS: &str = "
Columns of all tables:
  min, max           of the rounds, as the median before them
  spread             from min to max, in medians
  bar                the figure that is asked of ours: met, equal or missed
  x NAME             how many times as good as NAME; = before it: they are equal
  < 10.0             below the step of the clock, which measured each operation by itself
";

/// The help's text on metrics and their like.
fn metrics(bench: &str) -> String {
    let bench = named(bench);
    let sections = bench.as_ref().map_or(&[][..], |bench| bench.sections);
    let mut text = "Metrics:\n".to_owned();
    for Section {
        metric,
        title,
        heading,
        ..
    } in sections
    {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {metric:<18} {title} ({heading})");
    }
    text += "\nParameters:\n";
    for name in bench.iter().flat_map(|bench| bench.params) {
        let meaning = words::meaning(name).unwrap_or_default();
        let _ = writeln!(text, "  {name:<18} {meaning}");
    }
    format!(
        "{text}{COLUMNS}\n{}\nbenches/README.md has more.",
        judge::RULE
    )
}

pub(crate) fn run(bench: Bench) -> Result<ExitCode> {
    match bench {
        Bench::All(all) => return all.run(),
        Bench::Compare(compare) => return compare.run(),
        Bench::Switch(parts) => parts.run("switch", "")?,
        Bench::Uth { parts, paper } => {
            let extra = paper.then(uth::paper_tables);
            parts.run("uth", &extra.unwrap_or_default())?;
        }
        Bench::Rt(parts) => parts.run("rt", "")?,
        Bench::Run(parts) => parts.run("run", "")?,
        Bench::Block(parts) => parts.run("block", "")?,
        Bench::Scale {
            parts,
            measure_costs,
        } => run_scale(parts, measure_costs)?,
        Bench::Sem(parts) => parts.run("sem", "")?,
        Bench::Altsems(parts) => parts.run("altsems", "")?,
        Bench::Tube(parts) => parts.run("tube", "")?,
        Bench::Select(parts) => parts.run("select", "")?,
        Bench::Waitv(parts) => parts.run("waitv", "")?,
        Bench::BlockChild { task } => block::child(&task)?,
        Bench::RtChild { task } => rt::child(&task)?,
        Bench::SyncChild { task } => sync::child(&task)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Its picture is one of its own, and a text on where servers wait follows the tables.
fn run_scale(parts: Parts, measures_costs: bool) -> Result<()> {
    let Parts { options, small } = parts;
    let bench = named("scale").context("no such bench")?;
    look_at(options.plot.as_ref())?;
    let wanted = harness_options(&bench, options.choice(&bench, small), small)?;
    let (report, places) = scale::run(options.plan(), &wanted, measures_costs)?;
    options.print(&bench, &report, &places, small)?;
    let picture = options.plot.as_ref();
    picture.map_or(Ok(()), |file| scale::plot(&report, file))
}

/// The options of a bench, whose turns may be processes of this program.
pub(crate) fn harness_options(
    bench: &About,
    choice: Choice,
    small: bool,
) -> Result<harness::Options> {
    let own = Program {
        file: std::env::current_exe()?,
        arguments: bench.arguments.iter().map(Into::into).collect(),
    };
    Ok(harness::Options {
        own,
        choice,
        small,
        notes: Notes::default(),
    })
}

impl Parts {
    /// Measures, prints, and then draws.
    fn run(self, name: &str, extra: &str) -> Result<()> {
        let Parts { options, small } = self;
        let bench = named(name).context("no such bench")?;
        look_at(options.plot.as_ref())?;
        let parts = harness_options(&bench, options.choice(&bench, small), small)?;
        let report = (bench.run)(options.plan(), &parts)?;
        options.print(&bench, &report, extra, small)?;
        options.plot.as_ref().map_or(Ok(()), |file| {
            plot(&report, bench.sections, bench.graphs, file)
        })
    }
}

impl Options {
    /// Prints a report, with `extra` behind its tables.
    fn print(&self, bench: &About, report: &Report, extra: &str, small: bool) -> Result<()> {
        let reasons = report.notes.join("; ");
        ensure!(!report.rows.is_empty(), "nothing was measured: {reasons}");
        let text = if self.json {
            report.to_json()? + "\n"
        } else {
            tables(report, bench.sections, extra) + self.hint(bench, small)
        };
        output::print(text.as_bytes())
    }

    fn plan(&self) -> Plan {
        Plan {
            seconds: self.seconds,
            rounds: self.rounds,
            end: None,
        }
    }

    /// Small sizes are for tests, which look at all rows.
    fn choice(&self, bench: &About, small: bool) -> Choice {
        Choice {
            only: self.only.clone(),
            usual: if self.all_rows || small {
                &[]
            } else {
                bench.usual
            },
            cases: self.ours.then_some(bench.ours),
            fitting: None,
        }
    }

    /// A line below the tables, if there are more rows than those.
    fn hint(&self, bench: &About, small: bool) -> &'static str {
        let is_part = self.only.is_empty() && !self.choice(bench, small).usual.is_empty();
        if is_part {
            "\nThese are the usual rows; --all-rows measures all.\n"
        } else {
            ""
        }
    }
}

fn tables(report: &Report, sections: &[Section], extra: &str) -> String {
    let machine = &report.machine;
    let runs = report.rows.first().map_or(0, |row| row.runs);
    let mut text = format!(
        "{}, {} CPUs, Linux {}; medians of {runs} alternating runs\n",
        machine.cpu, machine.cpus, machine.kernel
    );
    for table in sections.iter().filter_map(|section| table(report, section)) {
        text = text + "\n" + &table;
    }
    if !extra.is_empty() {
        text = text + "\n" + extra;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_checked() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "ten", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rounds("3"), Ok(3));
        for wrong in ["0", "-1", "1001", "2.5", ""] {
            assert!(rounds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pictures_are_svg_or_png() {
        for right in ["x.svg", "folder.d/x.SVG", "x.png"] {
            assert!(picture(right).is_ok(), "{right}");
        }
        for wrong in ["x.jpg", "x", "svg", ".svg", "x.svg/y"] {
            assert!(picture(wrong).is_err(), "{wrong}");
        }
    }
}
