//! `umcg bench`.

use crate::compare::Compare;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use umcg_benches::harness::{
    self, Choice, Graph, Pattern, Plan, Program, Report, Section, plot, table,
};
use umcg_benches::{block, rt, run, scale, switch, sync, uth};

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Judge whether one build of this command costs more than another
    Compare(Compare),
    /// Round trips between a main thread and a worker, through everything there is for it
    #[command(after_help = metrics(switch::SECTIONS))]
    Switch(Options),
    /// The tables of the UthLib paper: switch, creation, recycling, re-initialisation
    #[command(after_help = metrics(uth::SECTIONS))]
    Uth {
        #[command(flatten)]
        options: Options,
        /// Print the paper's own figures too
        #[arg(long, conflicts_with = "json")]
        paper: bool,
    },
    /// The runtime beside tokio, may, Go, kernel threads and a C server
    #[command(after_help = metrics(rt::SECTIONS))]
    Rt(Parts),
    /// Unmodified programs, native and under `umcg run`
    #[command(after_help = metrics(run::SECTIONS))]
    Run(Parts),
    /// Workers that block as threads do, and are noticed, beside threads, tokio and `umcg::net`
    #[command(after_help = metrics(block::SECTIONS))]
    Block(Parts),
    /// The default scheduler with up to 256 servers, simulated, beside the runtime on this machine
    #[command(after_help = metrics(scale::SECTIONS))]
    Scale {
        #[command(flatten)]
        options: Options,
        /// Simulate with the costs of this machine, as far as it can tell them
        #[arg(long)]
        measure_costs: bool,
    },
    /// Semaphores and mutexes: ours, the kernel's, the C library's, std's, parking_lot's, tokio's,
    /// Go's
    #[command(after_help = metrics(sync::SEM.sections))]
    Sem(Parts),
    /// One of many semaphores, beside the paper's program for semaphores that cannot do that
    #[command(after_help = metrics(sync::ALTSEMS.sections))]
    Altsems(Parts),
    /// Channels: ours, crossbeam's, kanal's, flume's, tokio's, Go's, pipes and message queues
    #[command(after_help = metrics(sync::TUBE.sections))]
    Tube(Parts),
    /// To wait for one of many channels: ours, crossbeam's, flume's, tokio's, Go's
    #[command(after_help = metrics(sync::SELECT.sections))]
    Select(Parts),
    /// To wait for one of many words: ours, futex_waitv, and eventfds with poll and epoll
    #[command(after_help = metrics(sync::WAITV.sections))]
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
    /// value where that is a word; as in "umcg cpus=2". May be given several times
    #[arg(long, value_name = "ROW")]
    only: Vec<Pattern>,
    /// Only our own rows, without the peers
    #[arg(long)]
    ours: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Draw the figures into an SVG file
    #[arg(long, value_name = "FILE.svg", value_parser = picture)]
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
    if path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
    {
        Ok(path)
    } else {
        Err("pictures are SVG: the name of the file has to end in .svg".to_owned())
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

/// The help's text on metrics.
fn metrics(sections: &[Section]) -> String {
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
    text + "\nWhat their parameters are stands in benches/README.md."
}

pub(crate) fn run(bench: Bench) -> Result<ExitCode> {
    match bench {
        Bench::Compare(compare) => return compare.run(),
        Bench::Switch(options) => {
            let measure = || switch::run(options.plan(), &options.choice(switch::OURS));
            show(measure, switch::SECTIONS, &[], &options, "")?;
        }
        Bench::Uth { options, paper } => {
            let extra = paper.then(uth::paper_tables).unwrap_or_default();
            show(
                || uth::run(options.plan(), &options.choice(uth::OURS)),
                uth::SECTIONS,
                &[],
                &options,
                &extra,
            )?;
        }
        Bench::Rt(parts) => {
            let (options, wanted) = parts.with_children("rt-child", rt::OURS)?;
            show(
                || rt::run(options.plan(), &wanted),
                rt::SECTIONS,
                &[],
                &options,
                "",
            )?;
        }
        Bench::Run(parts) => {
            let (options, wanted) = parts.with_own(&["run"], run::OURS)?;
            show(
                || run::run(options.plan(), &wanted),
                run::SECTIONS,
                &[],
                &options,
                "",
            )?;
        }
        Bench::Block(parts) => {
            let (options, wanted) = parts.with_own(&["bench"], block::OURS)?;
            show(
                || block::run(options.plan(), &wanted),
                block::SECTIONS,
                &[],
                &options,
                "",
            )?;
        }
        Bench::Scale {
            options,
            measure_costs,
        } => run_scale(options, measure_costs)?,
        Bench::Sem(parts) => parts.run(&sync::SEM)?,
        Bench::Altsems(parts) => parts.run(&sync::ALTSEMS)?,
        Bench::Tube(parts) => parts.run(&sync::TUBE)?,
        Bench::Select(parts) => parts.run(&sync::SELECT)?,
        Bench::Waitv(parts) => parts.run(&sync::WAITV)?,
        Bench::BlockChild { task } => block::child(&task)?,
        Bench::RtChild { task } => rt::child(&task)?,
        Bench::SyncChild { task } => sync::child(&task)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Its picture is one of its own, and a text on where servers wait follows the tables.
fn run_scale(mut options: Options, measures_costs: bool) -> Result<()> {
    let picture = options.plot.take();
    look_at(picture.as_ref())?;
    let choice = options.choice(scale::OURS);
    let (report, places) = scale::run(options.plan(), &choice, measures_costs)?;
    let drawn = report.clone();
    show(|| Ok(report), scale::SECTIONS, &[], &options, &places)?;
    picture.map_or(Ok(()), |file| scale::plot(&drawn, &file))
}

impl Parts {
    fn run(self, bench: &sync::Bench) -> Result<()> {
        let (options, wanted) = self.with_children("sync-child", sync::OURS)?;
        show(
            || bench.run(options.plan(), &wanted),
            bench.sections,
            bench.graphs,
            &options,
            "",
        )
    }

    /// The options of a bench whose turns are processes of this program, called as `umcg bench
    /// COMMAND`.
    fn with_children(
        self,
        command: &str,
        ours: &'static [&'static str],
    ) -> Result<(Options, harness::Options)> {
        self.with_own(&["bench", command], ours)
    }

    /// The same for other commands of this program.
    fn with_own(
        self,
        arguments: &[&str],
        ours: &'static [&'static str],
    ) -> Result<(Options, harness::Options)> {
        let Parts { options, small } = self;
        let own = Program {
            file: std::env::current_exe()?,
            arguments: arguments.iter().map(Into::into).collect(),
        };
        let choice = options.choice(ours);
        Ok((options, harness::Options { own, choice, small }))
    }
}

impl Options {
    fn plan(&self) -> Plan {
        Plan {
            seconds: self.seconds,
            rounds: self.rounds,
        }
    }

    fn choice(&self, ours: &'static [&'static str]) -> Choice {
        Choice {
            only: self.only.clone(),
            cases: self.ours.then_some(ours),
        }
    }
}

/// Measures, prints, and then draws.
fn show(
    measure: impl FnOnce() -> Result<Report>,
    sections: &[Section],
    graphs: &[Graph],
    options: &Options,
    extra: &str,
) -> Result<()> {
    look_at(options.plot.as_ref())?;
    let report = measure()?;
    let text = if options.json {
        report.to_json()? + "\n"
    } else {
        tables(&report, sections, extra)
    };
    output::print(text.as_bytes())?;
    options
        .plot
        .as_ref()
        .map_or(Ok(()), |file| plot(&report, sections, graphs, file))
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
    fn pictures_are_svg() {
        assert!(picture("x.svg").is_ok() && picture("folder.d/x.SVG").is_ok());
        for wrong in ["x.png", "x", "svg", ".svg", "x.svg/y"] {
            assert!(picture(wrong).is_err(), "{wrong}");
        }
    }
}
