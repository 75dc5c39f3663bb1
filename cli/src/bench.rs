//! `umcg bench`.

use crate::output;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use umcg_benches::harness::{self, Graph, Plan, Program, Report, Section, plot, table};
use umcg_benches::{rt, switch, sync, uth};

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Round trips between a main thread and a worker, through everything there is for it
    Switch(Options),
    /// The tables of the UthLib paper: switch, creation, recycling, re-initialisation
    Uth {
        #[command(flatten)]
        options: Options,
        /// Print the paper's own figures too
        #[arg(long, conflicts_with = "json")]
        paper: bool,
    },
    /// The runtime beside tokio, may, Go, kernel threads and a C server
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(rt::metrics()))))]
    Rt(Parts),
    /// Semaphores and mutexes: ours, the kernel's, the C library's, std's, parking_lot's, tokio's, Go's
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(sync::SEM.metrics()))))]
    Sem(Parts),
    /// One of many semaphores, beside the paper's program for semaphores that cannot do that
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(sync::ALTSEMS.metrics()))))]
    Altsems(Parts),
    /// Channels: ours, crossbeam's, kanal's, flume's, tokio's, Go's, pipes and message queues
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(sync::TUBE.metrics()))))]
    Tube(Parts),
    /// To wait for one of many channels: ours, crossbeam's, flume's, tokio's, Go's
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(sync::SELECT.metrics()))))]
    Select(Parts),
    /// To wait for one of many words: ours, futex_waitv, and eventfds with poll and epoll
    #[command(mut_arg("only", |only| only.value_parser(PossibleValuesParser::new(sync::WAITV.metrics()))))]
    Waitv(Parts),
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
    /// Only this metric; may be given several times
    #[arg(long, value_name = "METRIC")]
    only: Vec<String>,
    /// Tiny sizes, for tests
    #[arg(long, hide = true)]
    small: bool,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Time for each case, all rounds together
    #[arg(long, value_name = "N", default_value_t = Plan::default().seconds, value_parser = seconds)]
    seconds: f64,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Draw the figures into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("a number above 0 and up to 1000000, as in 2.5".to_owned()),
    }
}

pub(crate) fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Switch(options) => show(&switch::run(options.plan())?, switch::SECTIONS, &[], &options, ""),
        Bench::Uth { options, paper } => {
            let extra = if paper { uth::paper_tables() } else { String::new() };
            show(&uth::run(options.plan())?, uth::SECTIONS, &[], &options, &extra)
        }
        Bench::Rt(parts) => {
            let (options, wanted) = parts.with_children("rt-child")?;
            show(&rt::run(options.plan(), &wanted)?, rt::SECTIONS, &[], &options, "")
        }
        Bench::Sem(parts) => parts.run(&sync::SEM),
        Bench::Altsems(parts) => parts.run(&sync::ALTSEMS),
        Bench::Tube(parts) => parts.run(&sync::TUBE),
        Bench::Select(parts) => parts.run(&sync::SELECT),
        Bench::Waitv(parts) => parts.run(&sync::WAITV),
        Bench::RtChild { task } => rt::child(&task),
        Bench::SyncChild { task } => sync::child(&task),
    }
}

impl Parts {
    fn run(self, bench: &sync::Bench) -> Result<()> {
        let (options, wanted) = self.with_children("sync-child")?;
        show(&bench.run(options.plan(), &wanted)?, bench.sections, bench.graphs, &options, "")
    }

    /// What to run, in processes of this program that are called so.
    fn with_children(self, command: &str) -> Result<(Options, harness::Options)> {
        let Parts { options, only, small } = self;
        let own = Program { file: std::env::current_exe()?, arguments: vec!["bench".into(), command.into()] };
        Ok((options, harness::Options { own, only, small }))
    }
}

impl Options {
    fn plan(&self) -> Plan {
        Plan { seconds: self.seconds, ..Plan::default() }
    }
}

fn show(report: &Report, sections: &[Section], graphs: &[Graph], options: &Options, extra: &str) -> Result<()> {
    if let Some(file) = &options.plot {
        plot(report, sections, graphs, file)?;
    }
    if options.json {
        return output::print((report.to_json()? + "\n").as_bytes());
    }
    let machine = &report.machine;
    let runs = report.rows.first().map_or(0, |row| row.runs);
    let mut text =
        format!("{}, {} CPUs, Linux {}; medians of {runs} alternating runs\n", machine.cpu, machine.cpus, machine.kernel);
    for table in sections.iter().filter_map(|section| table(report, section)) {
        text = text + "\n" + &table;
    }
    if !extra.is_empty() {
        text = text + "\n" + extra;
    }
    output::print(text.as_bytes())
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
    }
}
