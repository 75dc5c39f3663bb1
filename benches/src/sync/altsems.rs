//! `umcg bench altsems`: a wakeup from one of many semaphores. The paper's Experiment 2, beside the
//! paper's program for semaphores that cannot do that; and the cost of one that need not wait, and
//! of one that must.

use super::choice::{self, Many};
use super::critical::{steps, waste};
use super::experiment::{Experiment, Grid, Side, params};
use super::flow::{Flow, Threads, Workers, together};
use super::locks::Counter;
use super::request::{Answer, Clock, Request};
use super::sem::boxes;
use super::semaphores::{EventFd, SemT, Semaphore, SysV};
use super::{Bench, select};
use crate::harness::{Graph, Params, Section, lower, ticks};
use anyhow::{Result, ensure};
use std::iter::repeat_with;
use std::sync::Arc;
use umcg::sync::acquire_any;

pub(super) const BENCH: Bench = Bench {
    name: "altsems",
    title: "One of many semaphores",
    params: &[
        "cpus",
        "processes",
        "semaphores",
        "css",
        "nss",
        "k",
        "kind",
        "order",
    ],
    sections: SECTIONS,
    graphs: GRAPHS,
    usual: &[
        "gamma processes=10 semaphores=10",
        "ready",
        "blocking cpus=2",
    ],
    experiments: EXPERIMENTS,
    work,
};

const OURS: &[Side] = &[
    Side::of("umcg", &[("kind", "worker"), ("order", "strong")]),
    Side::of("umcg", &[("kind", "thread"), ("order", "strong")]),
];
const GAMMA: &[Side] = &[
    OURS[0],
    OURS[1],
    Side::new("sem_t"),
    Side::new("sysv"),
    Side::new("eventfd"),
];

const EXPERIMENTS: &[Experiment] = &[
    Experiment::of(&[lower("gamma", "ns")], GAMMA, gamma_grid),
    Experiment {
        metrics: &[lower("ready", "ns")],
        sides: OURS,
        grid: select::ready_grid,
        length: 1,
    },
    Experiment {
        metrics: &[lower("blocking", "ns")],
        sides: OURS,
        grid: select::blocking_grid,
        length: 1,
    },
];

const SECTIONS: &[Section] = &[
    boxes(
        "Gamma, the paper's Experiment 2: to take one of some semaphores, do css steps, and give \
         it back",
        "gamma",
    ),
    Section {
        title: "One of k semaphores has wakeups: to take one",
        references: &[],
        ..select::READY
    },
    Section {
        title: "Two answer each other, each by one of k semaphores, there and back",
        references: &[],
        ..select::BLOCKING
    },
];

const GRAPHS: &[Graph] = &[Graph {
    title: "Gamma graphs: one of some semaphores",
    metric: "gamma",
    across: "css",
}];

fn gamma_grid(grid: &Grid) -> Vec<Params> {
    let mut list = Vec::new();
    for &processes in grid.pick(&[10, 50][..], &[3]) {
        for &semaphores in grid.pick(&[2, 10][..], &[2]) {
            for &css in grid.pick(&[10, 100, 1000, 10000][..], &[10]) {
                let shared = [
                    ("cpus", grid.most_cpus.into()),
                    ("processes", processes.into()),
                ];
                let all = params(shared).into_iter();
                let nss = grid.pick(10000, 10);
                let own = params([
                    ("semaphores", semaphores.into()),
                    ("css", css.into()),
                    ("nss", nss.into()),
                ]);
                list.push(all.chain(own).collect());
            }
        }
    }
    list
}

fn work(request: &Request) -> Result<Answer> {
    match (&*request.work, &*request.case, request.word("kind")) {
        ("gamma", "umcg", "worker") => gamma::<Workers, Altsems>(request),
        ("gamma", "umcg", "thread") => gamma::<Threads, Altsems>(request),
        ("gamma", "sem_t", _) => gamma::<Threads, OneByOne<SemT>>(request),
        ("gamma", "sysv", _) => gamma::<Threads, OneByOne<SysV>>(request),
        ("gamma", "eventfd", _) => gamma::<Threads, OneByOne<EventFd>>(request),
        ("ready", "umcg", "worker") => choice::ready::<Workers, Altsems>(request),
        ("ready", "umcg", "thread") => choice::ready::<Threads, Altsems>(request),
        ("blocking", "umcg", "worker") => choice::blocking::<Workers, Altsems>(request),
        ("blocking", "umcg", "thread") => choice::blocking::<Threads, Altsems>(request),
        _ => request.refuse(),
    }
}

/// Many locks, of which one is as good as another.
trait Locks: Sized + Send + Sync + 'static {
    /// The data of one party.
    type Own<'a>;

    fn new(count: usize) -> Result<Self>;
    fn own(&self) -> Self::Own<'_>;
    fn with_one<R>(&self, own: &Self::Own<'_>, body: impl FnOnce(usize) -> R) -> R;
}

/// By altsems.
struct Altsems(Vec<umcg::sync::Semaphore>);

impl Locks for Altsems {
    type Own<'a> = Vec<&'a umcg::sync::Semaphore>;

    fn new(count: usize) -> Result<Self> {
        Ok(Self(
            (0..count).map(|_| umcg::sync::Semaphore::new(1)).collect(),
        ))
    }

    fn own(&self) -> Self::Own<'_> {
        self.0.iter().collect()
    }

    #[inline(always)]
    fn with_one<R>(&self, own: &Self::Own<'_>, body: impl FnOnce(usize) -> R) -> R {
        let index = acquire_any(own).expect("they are never closed");
        let result = body(index);
        self.0[index].release(1).expect("a few wakeups");
        result
    }
}

impl Many for Altsems {
    type Taker = Vec<&'static umcg::sync::Semaphore>;

    fn new(count: usize) -> Result<Self> {
        Ok(Self(
            (0..count).map(|_| umcg::sync::Semaphore::new(0)).collect(),
        ))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index].release(1).expect("a few wakeups");
    }

    fn taker(&'static self) -> Self::Taker {
        self.own()
    }

    #[inline(always)]
    fn take(taker: &mut Self::Taker) -> usize {
        acquire_any(taker).expect("they are never closed")
    }
}

/// As the paper does it with semaphores that have no altsems (its Figure 22): the holder of the
/// main semaphore tries the others in turn, and keeps it until it is done.
struct OneByOne<S> {
    main: S,
    others: Vec<S>,
}

impl<S: Semaphore> Locks for OneByOne<S> {
    type Own<'a> = ();

    fn new(count: usize) -> Result<Self> {
        Ok(Self {
            main: S::new(1)?,
            others: (0..count).map(|_| S::new(1)).collect::<Result<_>>()?,
        })
    }

    fn own(&self) {}

    #[inline(always)]
    fn with_one<R>(&self, (): &(), body: impl FnOnce(usize) -> R) -> R {
        self.main.down();
        let index = self
            .others
            .iter()
            .position(S::try_down)
            .expect("nobody else has one");
        let result = body(index);
        self.others[index].up();
        self.main.up();
        result
    }
}

fn gamma<F: Flow, L: Locks>(request: &Request) -> Result<Answer> {
    let ((css, nss), times) = (steps(request)?, request.times);
    let count = request.number("semaphores")?;
    let shared = Arc::new((
        <L as Locks>::new(count)?,
        (0..count).map(|_| Counter::default()).collect::<Vec<_>>(),
    ));
    let inside = Arc::clone(&shared);
    let clock = Clock::start();
    let body = move |_| {
        let (locks, counters) = &*inside;
        let own = locks.own();
        let add = |index: usize| {
            let value = counters[index].get();
            waste(css);
            counters[index].set(value + 1);
        };
        let round = || {
            let start = ticks();
            locks.with_one(&own, add);
            let took = ticks().wrapping_sub(start);
            waste(nss);
            took
        };
        repeat_with(round)
            .take(times as usize)
            .collect::<Vec<u64>>()
    };
    let processes = request.number("processes")?;
    let all = together::<F, _>(request, processes, body)?;
    let counted: u64 = shared.1.iter().map(Counter::get).sum();
    ensure!(
        counted == processes as u64 * times,
        "increments were lost: {counted} of {}",
        processes as u64 * times
    );
    Answer::measured(clock.nanos(all.into_iter().flatten()))
}
