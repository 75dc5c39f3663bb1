//! `umcg bench tube`: channels. The paper's Experiment 3, rounds of a pinger and pongers; and how
//! many messages get through.
//!
//! As many pings are under way as there are pongers: the pinger sends that many before the first
//! round, which is then to receive a pong and to send the next ping. So the pong of a round need
//! not be that of its ping, as in the paper, and more pongers mean fewer switches a round.

use super::bars::{self, Bar, Limit::*};
use super::channels::{Channel, Crossbeam, Flume, Kanal, Message, Pipe, Queue, Tube};
use super::experiment::{Experiment, Grid, Side, params};
use super::flow::{Flow, Threads, Workers, together};
use super::request::{Answer, Clock, Request};
use super::{Bench, sem, tasks};
use crate::harness::{
    Finding, Graph, Params, Report, Row, Section, Spread, higher, lower, measure, number, ticks,
};
use anyhow::{Context, Result, ensure};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

pub(super) const BENCH: Bench = Bench {
    name: "tube",
    title: "Channels",
    params: &["cpus", "pongers", "size", "producers", "consumers", "kind"],
    sections: SECTIONS,
    graphs: GRAPHS,
    usual: &[
        "round size=8 pongers=1",
        "round size=8 pongers=24",
        "round size=4096 pongers=1",
        "epsilon cpus=2 pongers=1",
        "throughput",
    ],
    experiments: EXPERIMENTS,
    work,
};

/// The paper's buffer.
pub(super) const CAPACITY: usize = 32;
/// The paper's, in bytes.
const SIZES: [u64; 5] = [8, 32, 64, 512, 4096];
const PONGERS: [u64; 4] = [1, 8, 16, 24];

const WORKER: &[(&str, &str)] = &[("kind", "worker")];
const THREAD: &[(&str, &str)] = &[("kind", "thread")];

const SIDES: &[Side] = &[
    Side::of("umcg", WORKER),
    Side::of("umcg", THREAD),
    Side::of("kanal", WORKER),
    Side::of("kanal", THREAD),
    Side::of("flume", WORKER),
    Side::of("flume", THREAD),
    Side::new("crossbeam"),
    Side::new("tokio").cannot(has_many_receivers, "its channel has one receiver"),
    Side::new("go"),
    Side::new("pipe"),
    Side::new("mqueue"),
];

fn has_many_receivers(params: &Params) -> bool {
    ["pongers", "consumers"]
        .iter()
        .any(|key| params.get(*key).is_some_and(|count| *count != 1))
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment::of(
        &[lower("round", "ns"), lower("epsilon", "ns")],
        SIDES,
        round_grid,
    ),
    Experiment::of(&[higher("throughput", "1/s")], SIDES, throughput_grid),
];

fn round_grid(grid: &Grid) -> Vec<Params> {
    let mut list = Vec::new();
    for cpus in grid.cpus() {
        for &pongers in grid.pick(&PONGERS[..], &[1, 3]) {
            for &size in grid.pick(&SIZES[..], &[8, 4096]) {
                list.push(params([
                    ("cpus", cpus.into()),
                    ("pongers", pongers.into()),
                    ("size", size.into()),
                ]));
            }
        }
    }
    list
}

fn throughput_grid(grid: &Grid) -> Vec<Params> {
    let all = grid.cpus().flat_map(|cpus| [1, 4].map(|each| (cpus, each)));
    all.map(|(cpus, each)| {
        params([
            ("cpus", cpus.into()),
            ("producers", each.into()),
            ("consumers", each.into()),
        ])
    })
    .collect()
}

const REFERENCES: &[&str] = &["kanal", "flume", "crossbeam", "go", "pipe"];

const SECTIONS: &[Section] = &[
    Section {
        title: "A round of the pinger",
        metric: "round",
        heading: "ns",
        columns: &[],
        bar: Some(bar),
        references: REFERENCES,
    },
    Section {
        references: REFERENCES,
        ..sem::boxes(
            "Epsilon: the same, each round measured by itself",
            "epsilon",
        )
    },
    Section {
        title: "Messages of 8 bytes from producers to consumers",
        metric: "throughput",
        heading: "1/s",
        columns: &[("ns", |_, row| Some(number(1e9 / row.median)))],
        bar: Some(bar),
        references: REFERENCES,
    },
];

const GRAPHS: &[Graph] = &[Graph {
    title: "Epsilon graphs: a round of the pinger",
    metric: "epsilon",
    across: "size",
}];

const BARS: &[Bar] = &[
    Bar {
        metric: "round",
        rows: &["worker", "pongers 1", "size 8"],
        limit: AtMost(70.0),
    },
    Bar {
        metric: "round",
        rows: &["worker", "pongers 24", "size 8"],
        limit: AtMost(45.0),
    },
    Bar {
        metric: "round",
        rows: &["worker", "size 4096"],
        limit: AtMost(400.0),
    },
    Bar {
        metric: "round",
        rows: &["thread"],
        limit: Times(1.0, &["crossbeam", "kanal", "flume"]),
    },
    Bar {
        metric: "throughput",
        rows: &["worker", "producers 1"],
        limit: AtLeast(60e6),
    },
    Bar {
        metric: "throughput",
        rows: &["worker", "producers 4"],
        limit: AtLeast(50e6),
    },
    Bar {
        metric: "throughput",
        rows: &["thread"],
        limit: Times(1.0, &["crossbeam", "kanal", "flume"]),
    },
];

fn bar(report: &Report, row: &Row) -> Vec<Finding> {
    bars::findings(BARS, report, row)
}

/// Calls a function that is generic over the flow, the channel, and the words of a message.
macro_rules! with_channel {
    ($work:ident, $request:expr, $words:literal) => {
        match (&*$request.case, $request.word("kind")) {
            ("umcg", "worker") => $work::<Workers, Tube, $words>($request),
            ("umcg", "thread") => $work::<Threads, Tube, $words>($request),
            ("kanal", "thread") => $work::<Threads, Kanal, $words>($request),
            ("flume", "thread") => $work::<Threads, Flume, $words>($request),
            ("crossbeam", _) => $work::<Threads, Crossbeam, $words>($request),
            ("pipe", _) => $work::<Threads, Pipe, $words>($request),
            ("mqueue", _) => $work::<Threads, Queue, $words>($request),
            _ => tasks::tube::$work::<$words>($request),
        }
    };
}

fn work(request: &Request) -> Result<Answer> {
    match &*request.work {
        "round" => match request.number("size")? {
            8 => with_channel!(rounds, request, 1),
            32 => with_channel!(rounds, request, 4),
            64 => with_channel!(rounds, request, 8),
            512 => with_channel!(rounds, request, 64),
            4096 => with_channel!(rounds, request, 512),
            _ => request.refuse(),
        },
        "throughput" => with_channel!(throughput, request, 1),
        _ => request.refuse(),
    }
}

/// A message that tells a ponger or a consumer to end.
pub(super) const STOP: u64 = u64::MAX;

/// The sums of a pinger's sent and returned messages: equal, if nothing was lost or doubled.
#[derive(Default)]
pub(super) struct Tally {
    next: u64,
    balance: u64,
}

impl Tally {
    /// The message to send next, from the one before.
    #[inline(always)]
    pub(super) fn ping<const W: usize>(&mut self, message: &mut Message<W>) {
        self.next += 1;
        message[0] = self.next;
        self.balance = self.balance.wrapping_add(self.next);
        // All of it is to be sent, with any contents.
        black_box(message);
    }

    #[inline(always)]
    pub(super) fn pong<const W: usize>(&mut self, message: &Message<W>) {
        self.balance = self.balance.wrapping_sub(black_box(message)[0]);
    }

    pub(super) fn is_even(&self) -> bool {
        self.balance == 0
    }
}

/// The findings of the pinger.
pub(super) struct Rounds {
    pub(super) nanos: f64,
    pub(super) each: Vec<f64>,
    pub(super) is_even: bool,
}

impl Rounds {
    pub(super) fn answer(self) -> Result<Answer> {
        ensure!(self.is_even, "not what was sent came back");
        let spread = Spread::of(self.each).context("nothing was measured")?;
        Ok(Answer {
            values: vec![self.nanos, spread.median()],
            spread: Some(spread),
        })
    }
}

fn rounds<F: Flow, C: Channel<W>, const W: usize>(request: &Request) -> Result<Answer> {
    let (pongers, budget, times) = (request.number("pongers")?, request.budget(), request.times);
    let (pings, pongs) = (C::new(CAPACITY)?, C::new(CAPACITY)?);
    let body = move |index| {
        if index == 0 {
            return Some(pinger::<C, W>(&pings.0, &pongs.1, pongers, budget, times));
        }
        loop {
            let message = C::receive(&pings.1);
            if message[0] == STOP {
                return None;
            }
            C::send(&pongs.0, message);
        }
    };
    let mut all = together::<F, _>(request, pongers + 1, body)?;
    all[0].take().context("no pinger")?.answer()
}

fn pinger<C: Channel<W>, const W: usize>(
    sender: &C::Sender,
    receiver: &C::Receiver,
    pongers: usize,
    budget: Duration,
    times: u64,
) -> Rounds {
    let (mut tally, mut message) = (Tally::default(), [0; W]);
    for _ in 0..pongers {
        tally.ping(&mut message);
        C::send(sender, message);
    }
    let mut round = || {
        tally.pong(&C::receive(receiver));
        tally.ping(&mut message);
        C::send(sender, message);
    };
    let sample = measure(budget, |n| (0..n).for_each(|_| round()));
    let clock = Clock::start();
    let timed = |_| {
        let start = ticks();
        round();
        ticks().wrapping_sub(start)
    };
    let each: Vec<u64> = (0..times).map(timed).collect();
    let each = clock.nanos(each);
    for _ in 0..pongers {
        tally.pong(&C::receive(receiver));
    }
    for _ in 0..pongers {
        C::send(sender, [STOP; W]);
    }
    Rounds {
        nanos: sample.nanos(),
        each,
        is_even: tally.is_even(),
    }
}

/// A producer sends this many messages before it looks at the clock.
pub(super) const CLOCK: u64 = 256;

/// The end of a producer or a consumer: how many messages, their sum, and when.
pub(super) struct Share {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) end: Instant,
}

/// From the shares of all, the consumers' behind the producers'.
pub(super) fn rate(start: Instant, shares: &[Share], producers: usize) -> Result<Answer> {
    let total = |shares: &[Share]| {
        let sum = shares
            .iter()
            .fold(0_u64, |sum, share| sum.wrapping_add(share.sum));
        (shares.iter().map(|share| share.count).sum::<u64>(), sum)
    };
    let (sent, received) = (total(&shares[..producers]), total(&shares[producers..]));
    ensure!(
        sent == received,
        "{} messages of {} arrived",
        received.0,
        sent.0
    );
    let end = shares
        .iter()
        .map(|share| share.end)
        .max()
        .context("nobody")?;
    Answer::of(received.0 as f64 / end.duration_since(start).as_secs_f64())
}

fn throughput<F: Flow, C: Channel<W>, const W: usize>(request: &Request) -> Result<Answer> {
    let (producers, consumers) = (request.number("producers")?, request.number("consumers")?);
    let (budget, channel) = (request.budget(), C::new(CAPACITY)?);
    let running = AtomicUsize::new(producers);
    let origin = Instant::now();
    let first = Arc::new(std::sync::OnceLock::new());
    let start = Arc::clone(&first);
    let body = move |index| {
        let start = *start.get_or_init(Instant::now);
        let (sender, receiver) = &channel;
        let (mut count, mut sum, mut message) = (0, 0_u64, [0; W]);
        if index < producers {
            while count == 0 || count % CLOCK != 0 || start.elapsed() < budget {
                count += 1;
                message[0] = count;
                sum = sum.wrapping_add(count);
                C::send(sender, *black_box(&mut message));
            }
            // ORDERING(bench-last.1): AcqRel, pairs with itself: the last one stops the consumers
            // when all has been sent.
            if running.fetch_sub(1, AcqRel) == 1 {
                (0..consumers).for_each(|_| C::send(sender, [STOP; W]));
            }
        } else {
            loop {
                let message = C::receive(receiver);
                if black_box(&message)[0] == STOP {
                    break;
                }
                count += 1;
                sum = sum.wrapping_add(message[0]);
            }
        }
        Share {
            count,
            sum,
            end: Instant::now(),
        }
    };
    let shares = together::<F, _>(request, producers + consumers, body)?;
    rate(*first.get().unwrap_or(&origin), &shares, producers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_finds_what_is_lost_or_doubled() {
        let (mut tally, mut message) = (Tally::default(), [0; 4]);
        tally.ping(&mut message);
        let first = message;
        tally.ping(&mut message);
        tally.pong(&message);
        assert!(!tally.is_even(), "one is missing");
        tally.pong(&first);
        assert!(tally.is_even());
        tally.pong(&first);
        assert!(!tally.is_even(), "one came twice");
    }

    #[test]
    fn a_rate_counts_what_arrived() {
        let start = Instant::now();
        let share = |count, sum, seconds| Share {
            count,
            sum,
            end: start + Duration::from_secs(seconds),
        };
        let answer = rate(
            start,
            &[share(4, 10, 1), share(1, 1, 1), share(5, 11, 2)],
            2,
        )
        .unwrap();
        assert_eq!(answer.values, [2.5]);
        assert!(rate(start, &[share(4, 10, 1), share(3, 10, 2)], 1).is_err());
        assert!(rate(start, &[share(4, 10, 1), share(4, 9, 2)], 1).is_err());
    }
}
