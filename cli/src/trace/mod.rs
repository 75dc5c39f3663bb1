//! `umcg trace`: sums up a trace of `umcg run --trace`, or draws it.

mod draw;
mod read;

use crate::output;
use anyhow::{Context, Result, bail};
use read::{Run, Trace};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Draw it: a row a server, a colour a thread
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let name = args.file.display();
    let bytes = fs::read(&args.file).with_context(|| format!("cannot read {name}"))?;
    let trace = read::read(&bytes).with_context(|| format!("{name} is no trace of `umcg run`"))?;
    if trace.runs.is_empty() {
        bail!("{name}: no thread has run on a server");
    }
    if let Some(svg) = &args.svg {
        return fs::write(svg, draw::draw(&trace))
            .with_context(|| format!("cannot write {}", svg.display()));
    }
    output::print(sum_up(&trace).as_bytes())
}

/// The time from the first begin to the last end, in nanoseconds.
fn span(trace: &Trace) -> (u64, u64) {
    let begin = trace.runs.iter().map(|run| run.begin).min().unwrap_or(0);
    let end = trace.runs.iter().map(|run| run.end).max().unwrap_or(0);
    (begin, end)
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

#[derive(Default)]
struct Sum<'a> {
    runs: usize,
    time: u64,
    stops: BTreeMap<&'a str, usize>,
}

fn sums<'a>(runs: &'a [Run], key: impl Fn(&Run) -> usize) -> BTreeMap<usize, Sum<'a>> {
    let mut sums: BTreeMap<usize, Sum> = BTreeMap::new();
    for run in runs {
        let sum = sums.entry(key(run)).or_default();
        sum.runs += 1;
        sum.time += run.end - run.begin;
        *sum.stops.entry(&run.stopped).or_default() += 1;
    }
    sums
}

fn sum_up(trace: &Trace) -> String {
    let (begin, end) = span(trace);
    let mut text = format!(
        "{} runs of {} threads on {} servers in {:.3} ms\n\n",
        trace.runs.len(),
        trace.threads.len(),
        trace.servers.len(),
        milliseconds(end - begin),
    );
    for (server, sum) in sums(&trace.runs, |run| run.server) {
        let share = 100.0 * sum.time as f64 / (end - begin).max(1) as f64;
        let (name, runs) = (&trace.servers[server], sum.runs);
        let _ = writeln!(text, "{name}: {runs} runs, busy for {share:.1} %");
    }
    text.push('\n');
    let threads = sums(&trace.runs, |run| run.thread);
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(thread, sum)| (std::cmp::Reverse(sum.time), *thread));
    for (thread, sum) in threads {
        let (name, runs) = (&trace.threads[thread], sum.runs);
        let _ = write!(
            text,
            "{name}: {runs} runs, {:.3} ms",
            milliseconds(sum.time)
        );
        for (stop, count) in sum.stops.iter().filter(|(stop, _)| !stop.is_empty()) {
            let _ = write!(text, "; {count} x {stop}");
        }
        text.push('\n');
    }
    text
}
