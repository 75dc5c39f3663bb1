//! `umcg bench select`: to wait for the first of many channels that has a message.

use super::bars::{self, Bar, Limit::*};
use super::choice::{self, BATCH, Many};
use super::experiment::{Experiment, Grid, Side, params};
use super::flow::{Threads, Workers};
use super::request::{Answer, Request};
use super::{Bench, tasks};
use crate::harness::{Finding, Outcome, Params, Report, Row, Section, lower, number};
use anyhow::Result;
use serde_json::Value;
use umcg::select::{Operation, Select, Set};
use umcg::sync::{Acquiring, Semaphore};
use umcg::tube::Receiving;

pub(super) const BENCH: Bench = Bench {
    name: "select",
    title: "One of many channels",
    params: &["cpus", "k", "kind", "object"],
    sections: SECTIONS,
    graphs: &[],
    usual: &["ready", "blocking cpus=2"],
    experiments: EXPERIMENTS,
    work,
};

const SIDES: &[Side] = &[
    Side::of("umcg", &[("kind", "worker")]),
    Side::of("umcg", &[("kind", "thread")]),
    Side::of("umcg", &[("kind", "worker"), ("object", "semaphore")]),
    Side::of("umcg", &[("kind", "thread"), ("object", "semaphore")]),
    Side::of("umcg", &[("kind", "worker"), ("object", "list")]),
    Side::of("umcg", &[("kind", "thread"), ("object", "list")]),
    Side::of("umcg", &[("kind", "worker"), ("object", "macro")]).cannot(is_most, WRITTEN_OUT),
    Side::of("umcg", &[("kind", "thread"), ("object", "macro")]).cannot(is_most, WRITTEN_OUT),
    Side::new("crossbeam"),
    Side::new("flume"),
    Side::new("tokio").cannot(is_most, "its macro takes no more than 64 arms"),
    Side::new("go"),
];

fn is_most(params: &Params) -> bool {
    params["k"] == COUNTS[2]
}

const WRITTEN_OUT: &str = "the arms of a macro are written out, ten at most";

const EXPERIMENTS: &[Experiment] = &[
    Experiment::of(&[lower("ready", "ns")], SIDES, ready_grid),
    Experiment::of(&[lower("blocking", "ns")], SIDES, blocking_grid),
];

/// How many to choose from.
const COUNTS: [u64; 3] = [2, 10, 128];

pub(super) fn ready_grid(_: &Grid) -> Vec<Params> {
    COUNTS
        .iter()
        .map(|k| params([("k", (*k).into())]))
        .collect()
}

pub(super) fn blocking_grid(grid: &Grid) -> Vec<Params> {
    let all = grid
        .cpus()
        .flat_map(|cpus| COUNTS.iter().map(move |k| (cpus, *k)));
    all.map(|(cpus, k)| params([("cpus", cpus.into()), ("k", k.into())]))
        .collect()
}

const SECTIONS: &[Section] = &[READY, BLOCKING];

pub(super) const READY: Section = Section {
    title: "One of k channels has messages: to take one",
    metric: "ready",
    heading: "ns",
    columns: &[],
    bar: Some(bar),
    references: &["crossbeam", "tokio", "go"],
};

pub(super) const BLOCKING: Section = Section {
    title: "Two answer each other, each by one of k channels, there and back",
    metric: "blocking",
    heading: "ns",
    columns: &[("ns an object", |report, row| {
        each_object(report, row).map(number)
    })],
    bar: Some(blocking_bar),
    references: &["crossbeam", "tokio", "go"],
};

/// The cost of one more to wait for: to wait for it, twice in a round, and to leave it again.
fn each_object(report: &Report, row: &Row) -> Option<f64> {
    let count = |row: &Row| row.params.get("k")?.as_u64();
    let is_fewest = |other: &&Row| {
        let without = |row: &Row| {
            row.params
                .iter()
                .filter(|(key, _)| *key != "k")
                .map(|(_, value)| value.clone())
                .collect::<Vec<_>>()
        };
        other.case == row.case
            && other.metric == row.metric
            && count(other) == Some(COUNTS[0])
            && without(other) == without(row)
    };
    let fewest = report.rows.iter().find(is_fewest)?;
    let more = count(row)?
        .checked_sub(COUNTS[0])
        .filter(|more| *more > 0)?;
    Some((row.median - fewest.median) / (2 * more) as f64)
}

const BARS: &[Bar] = &[
    Bar {
        metric: "ready",
        rows: &["k 2"],
        limit: AtMost(25.0),
    },
    Bar {
        metric: "ready",
        rows: &["k 10"],
        limit: AtMost(60.0),
    },
    Bar {
        metric: "ready",
        rows: &["k 128"],
        limit: AtMost(500.0),
    },
    Bar {
        metric: "blocking",
        rows: &["worker", "k 2"],
        limit: AtMost(120.0),
    },
    Bar {
        metric: "blocking",
        rows: &["worker", "k 10"],
        limit: AtMost(200.0),
    },
];

fn bar(report: &Report, row: &Row) -> Vec<Finding> {
    bars::findings(BARS, report, row)
}

/// That of an object whose queue is entered and left each time.
const REGISTRATION: f64 = 15.0;

fn blocking_bar(report: &Report, row: &Row) -> Vec<Finding> {
    let word = |key: &str| row.params.get(key).and_then(Value::as_str);
    // The steps that acquire_any does always, and a set never.
    let enters_all = report.bench == "altsems" || matches!(word("object"), Some("list" | "macro"));
    let is_asked = row.case == "umcg" && word("kind") == Some("worker") && enters_all;
    let registration = each_object(report, row).filter(|_| is_asked);
    let registration = registration.map(|nanos| Finding {
        demand: format!("an object at most {}", number(REGISTRATION)),
        outcome: Outcome::of(nanos <= REGISTRATION, row.runs),
    });
    bar(report, row).into_iter().chain(registration).collect()
}

macro_rules! with_many {
    ($work:ident, $request:expr) => {
        match $request.side() {
            ("umcg", "worker", _, "") => choice::$work::<Workers, Tubes>($request),
            ("umcg", "thread", _, "") => choice::$work::<Threads, Tubes>($request),
            ("umcg", "worker", _, "semaphore") => choice::$work::<Workers, Semaphores>($request),
            ("umcg", "thread", _, "semaphore") => choice::$work::<Threads, Semaphores>($request),
            ("umcg", "worker", _, "list") => choice::$work::<Workers, List>($request),
            ("umcg", "thread", _, "list") => choice::$work::<Threads, List>($request),
            ("umcg", "worker", _, "macro") => choice::$work::<Workers, Macro>($request),
            ("umcg", "thread", _, "macro") => choice::$work::<Threads, Macro>($request),
            ("crossbeam", ..) => choice::$work::<Threads, Crossbeam>($request),
            ("flume", ..) => choice::$work::<Threads, Flume>($request),
            ("tokio", ..) => tasks::$work($request),
            _ => $request.refuse(),
        }
    };
}

fn work(request: &Request) -> Result<Answer> {
    match &*request.work {
        "ready" => with_many!(ready, request),
        "blocking" => with_many!(blocking, request),
        _ => request.refuse(),
    }
}

/// Ours, over tubes: in a set that is kept.
struct Tubes(Vec<(umcg::tube::Sender<usize>, umcg::tube::Receiver<usize>)>);

impl Many for Tubes {
    type Taker = Set<Receiving<'static, usize>>;

    fn new(count: usize) -> Result<Self> {
        Ok(Self(
            (0..count)
                .map(|_| umcg::tube::tube(BATCH as usize))
                .collect(),
        ))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index].0.send(index).expect("both ends are there");
    }

    fn taker(&'static self) -> Self::Taker {
        self.0
            .iter()
            .map(|(_, receiver)| receiver.receiving())
            .collect()
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        let index = taker.wait();
        taker.outcome(index).expect("both ends are there")
    }
}

/// Over tubes, whose queues are entered and left each time.
struct List(Tubes);

impl Many for List {
    type Taker = Vec<Receiving<'static, usize>>;

    fn new(count: usize) -> Result<Self> {
        Tubes::new(count).map(List)
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0.put(index);
    }

    fn taker(&'static self) -> Self::Taker {
        self.0
            .0
            .iter()
            .map(|(_, receiver)| receiver.receiving())
            .collect()
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        let index = Select::new().wait(taker);
        taker[index].outcome().expect("both ends are there")
    }
}

macro_rules! any_of {
    ($($tube:ident)+) => {
        umcg::select! { $(message = $tube.1.receiving() => message,)+ }
    };
}

/// Over tubes, by `select!`.
struct Macro(Tubes);

impl Many for Macro {
    type Taker = &'static [(umcg::tube::Sender<usize>, umcg::tube::Receiver<usize>)];

    fn new(count: usize) -> Result<Self> {
        Tubes::new(count).map(Macro)
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0.put(index);
    }

    fn taker(&'static self) -> Self::Taker {
        &self.0.0
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        let message = match taker {
            [a, b] => any_of!(a b),
            [a, b, c, d, e, f, g, h, i, j] => any_of!(a b c d e f g h i j),
            _ => unreachable!("{WRITTEN_OUT}"),
        };
        message.expect("both ends are there")
    }
}

/// Sets over semaphores.
struct Semaphores(Vec<Semaphore>);

impl Many for Semaphores {
    type Taker = Set<Acquiring<'static>>;

    fn new(count: usize) -> Result<Self> {
        Ok(Self((0..count).map(|_| Semaphore::new(0)).collect()))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index].release(1).expect("a few wakeups");
    }

    fn taker(&'static self) -> Self::Taker {
        self.0.iter().map(Semaphore::acquiring).collect()
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        let index = taker.wait();
        taker.outcome(index).expect("nobody closes it");
        index
    }
}

/// The crate's `Select`, which is kept too.
struct Crossbeam(
    Vec<(
        crossbeam_channel::Sender<u64>,
        crossbeam_channel::Receiver<u64>,
    )>,
);

impl Many for Crossbeam {
    type Taker = (&'static Self, crossbeam_channel::Select<'static>);

    fn new(count: usize) -> Result<Self> {
        Ok(Self(
            (0..count)
                .map(|_| crossbeam_channel::bounded(BATCH as usize))
                .collect(),
        ))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index]
            .0
            .send(index as u64)
            .expect("both ends are there");
    }

    fn taker(&'static self) -> Self::Taker {
        let mut select = crossbeam_channel::Select::new();
        self.0.iter().for_each(|(_, receiver)| {
            select.recv(receiver);
        });
        (self, select)
    }

    #[inline(always)]
    fn take((many, select): &mut Self::Taker) -> usize {
        let chosen = select.select();
        let index = chosen.index();
        chosen.recv(&many.0[index].1).expect("both ends are there") as usize
    }
}

/// The crate's `Selector`, which is made for each time.
struct Flume(Vec<(flume::Sender<u64>, flume::Receiver<u64>)>);

impl Many for Flume {
    type Taker = &'static Self;

    fn new(count: usize) -> Result<Self> {
        Ok(Self(
            (0..count).map(|_| flume::bounded(BATCH as usize)).collect(),
        ))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index]
            .0
            .send(index as u64)
            .expect("both ends are there");
    }

    fn taker(&'static self) -> Self::Taker {
        self
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        let all = taker.0.iter();
        let selector = all.fold(flume::Selector::new(), |selector, (_, receiver)| {
            selector.recv(receiver, |message| message)
        });
        selector.wait().expect("both ends are there") as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Machine;
    use crate::harness::judge::listed;

    #[test]
    fn what_one_more_costs_is_asked_of_who_enters_queues() {
        let row = |k: u64, object: &str, median: f64| {
            let words = [
                ("k", k.into()),
                ("kind", "worker".into()),
                ("object", object.into()),
            ];
            let metric = lower("blocking", "ns");
            Row::new("umcg", params(words), &metric, vec![median; 15]).unwrap()
        };
        let rows = vec![
            row(2, "list", 100.0),
            row(10, "list", 340.0),
            row(2, "semaphore", 100.0),
            row(10, "semaphore", 356.0),
        ];
        let report = Report {
            bench: "select",
            machine: Machine::this(),
            rows,
            notes: Vec::new(),
            failed: Vec::new(),
        };
        let said = |index: usize| listed(&blocking_bar(&report, &report.rows[index]));
        assert_eq!(said(0), "at most 120: met");
        assert_eq!(said(1), "at most 200: missed; an object at most 15.0: met");
        assert_eq!(said(3), "at most 200: missed", "a set stays in its queues");
        let slower = Report {
            rows: vec![row(2, "macro", 100.0), row(10, "macro", 342.0)],
            ..report.clone()
        };
        assert_eq!(
            listed(&blocking_bar(&slower, &slower.rows[1])),
            "at most 200: missed; an object at most 15.0: missed"
        );
    }
}
