//! `umcg bench sem`: semaphores and mutexes. The cost of one without contention, of one that all
//! want, of one that is handed over; and the experiments of the semaphore paper with a simple
//! mutex: its Experiment 1, and the increments of its Figure 11.

use super::bars::{self, Bar, Limit::*};
use super::contest::contended;
use super::critical::critical_sections;
use super::experiment::{Experiment, Grid, Side, params};
use super::flow::{Flow, Threads, Workers};
use super::increment::increment;
use super::locks::{Lock, Mutexes, ParkingLot, Pthread, Std};
use super::request::{Answer, Request};
use super::semaphores::{EventFd, Ours, SemT, Semaphore, SysV};
use super::{Bench, tasks};
use crate::harness::{
    Column, Finding, Graph, Params, Report, Row, Section, higher, lower, measure, number,
};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(super) const BENCH: Bench = Bench {
    name: "sem",
    title: "Semaphores and mutexes: ours, those of the kernel, of libraries and of other runtimes",
    params: &[
        "cpus",
        "workers",
        "processes",
        "css",
        "nss",
        "ratio",
        "kind",
        "order",
        "object",
    ],
    sections: SECTIONS,
    graphs: GRAPHS,
    usual: &[
        "uncontended",
        "contended cpus=2",
        "fairness cpus=2",
        "hand_over",
        "alpha nss=1000 processes=20",
        "beta processes=20",
        "increment processes=1",
        "increment processes=5",
        "increment processes=20",
    ],
    experiments: EXPERIMENTS,
    work,
};

const WORKER: Side = Side::of("umcg", &[("kind", "worker"), ("order", "strong")]);
const WORKER_BARGING: Side = Side::of("umcg", &[("kind", "worker"), ("order", "barging")]);
const THREAD: Side = Side::of("umcg", &[("kind", "thread"), ("order", "strong")]);
const THREAD_BARGING: Side = Side::of("umcg", &[("kind", "thread"), ("order", "barging")]);

/// All that can exclude.
const LOCKS: &[Side] = &[
    WORKER,
    WORKER_BARGING,
    THREAD,
    THREAD_BARGING,
    Side::of(
        "umcg",
        &[("kind", "worker"), ("order", "strong"), ("object", "mutex")],
    ),
    Side::of(
        "umcg",
        &[
            ("kind", "worker"),
            ("order", "barging"),
            ("object", "mutex"),
        ],
    ),
    Side::of(
        "umcg",
        &[("kind", "thread"), ("order", "strong"), ("object", "mutex")],
    ),
    Side::of(
        "umcg",
        &[
            ("kind", "thread"),
            ("order", "barging"),
            ("object", "mutex"),
        ],
    ),
    Side::new("sem_t"),
    Side::new("pthread"),
    Side::new("std"),
    Side::new("parking_lot"),
    Side::new("parking_lot-fair"),
    Side::new("sysv"),
    Side::new("eventfd"),
    Side::new("tokio"),
    Side::new("go"),
];

/// All that one can raise for another.
const SEMAPHORES: &[Side] = &[
    WORKER,
    WORKER_BARGING,
    THREAD,
    THREAD_BARGING,
    Side::new("sem_t"),
    Side::new("sysv"),
    Side::new("eventfd"),
    Side::new("tokio"),
    Side::new("go"),
];

/// The paper's two, ours and standard, and those of today's C library.
const PAPERS: &[Side] = &[
    WORKER,
    THREAD,
    THREAD_BARGING,
    Side::new("sem_t"),
    Side::new("sysv"),
    Side::new("eventfd"),
];

const INCREMENTS: &[Side] = &[
    Side::new("atomic_add"),
    Side::new("compare_exchange"),
    Side::new("spin_lock"),
    Side::of("umcg", &[("kind", "thread"), ("order", "strong")]),
];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        metrics: &[lower("uncontended", "ns")],
        sides: LOCKS,
        grid: |_| vec![Params::new()],
        length: 1,
    },
    Experiment {
        metrics: &[lower("contended", "ns"), higher("fairness", "min/max")],
        sides: LOCKS,
        grid: contended_grid,
        length: 2,
    },
    Experiment {
        metrics: &[lower("hand_over", "ns")],
        sides: SEMAPHORES,
        grid: |grid| {
            grid.cpus()
                .map(|cpus| params([("cpus", cpus.into())]))
                .collect()
        },
        length: 1,
    },
    Experiment::of(&[lower("alpha", "ns")], PAPERS, alpha_grid),
    Experiment::of(
        &[lower("alpha_nonblocking", "ns")],
        PAPERS,
        nonblocking_grid,
    ),
    Experiment::of(&[lower("beta", "ns")], PAPERS, beta_grid),
    Experiment::of(&[lower("increment", "ns")], INCREMENTS, increment_grid),
];

fn contended_grid(grid: &Grid) -> Vec<Params> {
    let workers = grid.pick(&[2, 10, 100][..], &[3]);
    let all = grid
        .cpus()
        .flat_map(|cpus| workers.iter().map(move |workers| (cpus, *workers)));
    all.map(|(cpus, workers)| params([("cpus", cpus.into()), ("workers", workers.into())]))
        .collect()
}

fn alpha_grid(grid: &Grid) -> Vec<Params> {
    let all = |nss, processes, css| {
        params([
            ("cpus", grid.most_cpus.into()),
            ("nss", nss),
            ("processes", processes),
            ("css", css),
        ])
    };
    let mut list = Vec::new();
    for &nss in grid.pick(&[100, 1000, 10000][..], &[10]) {
        for &processes in grid.pick(&[5, 10, 20, 50, 100][..], &[3]) {
            for &css in grid.pick(&[10, 100, 1000, 10000][..], &[10]) {
                list.push(all(nss.into(), processes.into(), css.into()));
            }
        }
    }
    list
}

/// The paper found the others much the same.
fn nonblocking_grid(grid: &Grid) -> Vec<Params> {
    let largest = grid.pick(10000, 10);
    alpha_grid(grid)
        .into_iter()
        .filter(|params| params["nss"] == largest)
        .collect()
}

fn beta_grid(grid: &Grid) -> Vec<Params> {
    let ratios = grid.pick(&[0.01, 0.1, 1.0, 10.0][..], &[10.0]);
    let processes = grid.pick(&[5, 20, 50, 100][..], &[3]);
    let all = processes
        .iter()
        .flat_map(|processes| ratios.iter().map(move |ratio| (*processes, *ratio)));
    let cpus = grid.most_cpus;
    all.map(|(processes, ratio)| {
        params([
            ("cpus", cpus.into()),
            ("processes", processes.into()),
            ("ratio", ratio.into()),
        ])
    })
    .collect()
}

fn increment_grid(grid: &Grid) -> Vec<Params> {
    let processes = grid.pick(&[1, 2, 5, 10, 20, 50, 100][..], &[2]);
    processes
        .iter()
        .map(|count| {
            params([
                ("cpus", grid.most_cpus.into()),
                ("processes", (*count).into()),
            ])
        })
        .collect()
}

const SECTIONS: &[Section] = &[
    section(
        "Taken and given back where nobody else is",
        "uncontended",
        &["std", "parking_lot", "sem_t"],
    ),
    section(
        "Wanted by all at once: for each time that one has it",
        "contended",
        &["go", "tokio", "parking_lot", "sysv"],
    ),
    Section {
        heading: "min/max",
        ..section(
            "The same: how often the least favoured had it for each time of the most favoured",
            "fairness",
            &[],
        )
    },
    section(
        "Two semaphores hand over, there and back",
        "hand_over",
        &["tokio", "go", "sem_t"],
    ),
    boxes(
        "Alpha, the paper's Experiment 1: to enter and leave a critical section of css steps, with \
         nss steps outside",
        "alpha",
    ),
    boxes(
        "Alpha for downs that do not wait: to try, and to leave if it went well",
        "alpha_nonblocking",
    ),
    boxes(
        "Beta: the same by the ratio of css, which is 1,000, to nss",
        "beta",
    ),
    Section {
        references: &["atomic_add"],
        ..boxes(
            "Figure 11: to increment a counter that all processes increment",
            "increment",
        )
    },
];

const fn section(
    title: &'static str,
    metric: &'static str,
    references: &'static [&'static str],
) -> Section {
    Section {
        title,
        metric,
        heading: "ns",
        columns: &[],
        bar: Some(bar),
        references,
    }
}

/// For the experiments that are measured operation by operation.
pub(super) const fn boxes(title: &'static str, metric: &'static str) -> Section {
    const QUARTERS: &[(&str, Column)] = &[
        ("quarter below", |_, row| Some(number(row.tukey?.q1))),
        ("above", |_, row| Some(number(row.tukey?.q3))),
        ("mean", |_, row| Some(number(row.tukey?.mean))),
    ];
    Section {
        title,
        metric,
        heading: "ns",
        columns: QUARTERS,
        bar: None,
        references: &["sysv", "eventfd"],
    }
}

const GRAPHS: &[Graph] = &[
    Graph {
        title: "Alpha graphs: to enter and leave a critical section",
        metric: "alpha",
        across: "css",
    },
    Graph {
        title: "Alpha graphs for downs that do not wait",
        metric: "alpha_nonblocking",
        across: "css",
    },
    Graph {
        title: "Beta graphs: by the ratio of critical to other work",
        metric: "beta",
        across: "ratio",
    },
    Graph {
        title: "To increment a shared counter",
        metric: "increment",
        across: "processes",
    },
];

const BARS: &[Bar] = &[
    Bar {
        metric: "uncontended",
        rows: &[],
        limit: AtMostOrTimes(5.5, 1.1, &["std", "parking_lot", "sem_t"]),
    },
    Bar {
        metric: "contended",
        rows: &["worker", "strong", "cpus 2", "workers 100"],
        limit: AtMost(100.0),
    },
    Bar {
        metric: "contended",
        rows: &["worker", "strong", "cpus 2", "workers 100"],
        limit: Times(1.0 / 3.0, &["go"]),
    },
    // A fair unlock is for those that sleep; with two threads the other one still looks whether the
    // lock is free, and that is no queue.
    Bar {
        metric: "contended",
        rows: &["thread", "strong", "workers 2"],
        limit: Times(1.0, &["sysv"]),
    },
    Bar {
        metric: "contended",
        rows: &["thread", "strong", "workers 10"],
        limit: Times(1.0, &["parking_lot-fair", "sysv"]),
    },
    Bar {
        metric: "contended",
        rows: &["thread", "strong", "workers 100"],
        limit: Times(1.0, &["parking_lot-fair", "sysv"]),
    },
    Bar {
        metric: "contended",
        rows: &["thread", "barging"],
        limit: Times(1.0, &["parking_lot"]),
    },
    Bar {
        metric: "fairness",
        rows: &["worker", "strong", "cpus 2", "workers 100"],
        limit: AtLeast(0.99),
    },
    Bar {
        metric: "hand_over",
        rows: &["worker", "strong", "cpus 1"],
        limit: AtMost(60.0),
    },
    Bar {
        metric: "hand_over",
        rows: &["worker", "strong", "cpus 2"],
        limit: AtMost(130.0),
    },
];

fn bar(report: &Report, row: &Row) -> Vec<Finding> {
    bars::findings(BARS, report, row)
}

/// Calls a function that is generic over the flow and over the lock.
macro_rules! with_lock {
    ($work:ident, $request:expr $(, $more:expr)*) => {
        match $request.side() {
            ("umcg", "worker", "strong", "") => $work::<Workers, Ours<true>>($request $(, $more)*),
            ("umcg", "worker", "barging", "") => {
                $work::<Workers, Ours<false>>($request $(, $more)*)
            }
            ("umcg", "thread", "strong", "") => $work::<Threads, Ours<true>>($request $(, $more)*),
            ("umcg", "thread", "barging", "") => {
                $work::<Threads, Ours<false>>($request $(, $more)*)
            }
            ("umcg", "worker", "strong", "mutex") => {
                $work::<Workers, Mutexes<true>>($request $(, $more)*)
            }
            ("umcg", "worker", "barging", "mutex") => {
                $work::<Workers, Mutexes<false>>($request $(, $more)*)
            }
            ("umcg", "thread", "strong", "mutex") => {
                $work::<Threads, Mutexes<true>>($request $(, $more)*)
            }
            ("umcg", "thread", "barging", "mutex") => {
                $work::<Threads, Mutexes<false>>($request $(, $more)*)
            }
            ("sem_t", ..) => $work::<Threads, SemT>($request $(, $more)*),
            ("pthread", ..) => $work::<Threads, Pthread>($request $(, $more)*),
            ("std", ..) => $work::<Threads, Std>($request $(, $more)*),
            ("parking_lot", ..) => $work::<Threads, ParkingLot<false>>($request $(, $more)*),
            ("parking_lot-fair", ..) => $work::<Threads, ParkingLot<true>>($request $(, $more)*),
            ("sysv", ..) => $work::<Threads, SysV>($request $(, $more)*),
            ("eventfd", ..) => $work::<Threads, EventFd>($request $(, $more)*),
            _ => $request.refuse(),
        }
    };
}

/// The same over semaphores.
macro_rules! with_semaphore {
    ($work:ident, $request:expr) => {
        match $request.side() {
            ("umcg", "worker", "strong", "") => $work::<Workers, Ours<true>>($request),
            ("umcg", "worker", "barging", "") => $work::<Workers, Ours<false>>($request),
            ("umcg", "thread", "strong", "") => $work::<Threads, Ours<true>>($request),
            ("umcg", "thread", "barging", "") => $work::<Threads, Ours<false>>($request),
            ("sem_t", ..) => $work::<Threads, SemT>($request),
            ("sysv", ..) => $work::<Threads, SysV>($request),
            ("eventfd", ..) => $work::<Threads, EventFd>($request),
            _ => $request.refuse(),
        }
    };
}

fn work(request: &Request) -> Result<Answer> {
    if request.case == "tokio" {
        return tasks::sem(request);
    }
    match &*request.work {
        "uncontended" => with_lock!(uncontended, request),
        "contended" => with_lock!(contended, request),
        "hand_over" => with_semaphore!(hand_over, request),
        "alpha" | "beta" => with_lock!(critical_sections, request, true),
        "alpha_nonblocking" => with_lock!(critical_sections, request, false),
        "increment" => increment(request),
        _ => request.refuse(),
    }
}

fn uncontended<F: Flow, L: Lock>(request: &Request) -> Result<Answer> {
    let (flow, lock, budget) = (F::new(1)?, L::new()?, request.budget());
    let join = flow.start(move || measure(budget, |n| (0..n).for_each(|_| lock.with(|| ()))));
    Answer::of(F::join(join)?.nanos())
}

fn hand_over<F: Flow, S: Semaphore>(request: &Request) -> Result<Answer> {
    struct Two<S> {
        here: S,
        there: S,
        stop: AtomicBool,
    }
    let (flow, budget) = (F::new(request.cpus()?)?, request.budget());
    let two = Arc::new(Two {
        here: S::new(0)?,
        there: S::new(0)?,
        stop: AtomicBool::new(false),
    });
    let other = Arc::clone(&two);
    let answering = flow.start(move || {
        loop {
            other.there.down();
            // The data that came with the wakeup are seen.
            if other.stop.load(Relaxed) {
                return;
            }
            other.here.up();
        }
    });
    let asking = flow.start(move || {
        let sample = measure(budget, |n| {
            for _ in 0..n {
                two.there.up();
                two.here.down();
            }
        });
        two.stop.store(true, Relaxed);
        two.there.up();
        sample
    });
    let sample = F::join(asking)?;
    F::join(answering)?;
    Answer::of(sample.nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_papers_sizes_are_all_there() {
        let grid = Grid {
            most_cpus: 2,
            small: false,
        };
        let values = |list: &[Params], key: &str| {
            list.iter()
                .map(|params| params[key].to_string())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(values(&alpha_grid(&grid), "processes"), "10 100 20 5 50");
        assert_eq!(values(&alpha_grid(&grid), "nss"), "100 1000 10000");
        assert_eq!(
            values(&increment_grid(&grid), "processes"),
            "1 10 100 2 20 5 50"
        );
        assert_eq!(alpha_grid(&grid).len(), 60);
        assert_eq!(beta_grid(&grid).len(), 16);
    }
}
