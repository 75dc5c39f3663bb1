//! The experiments of `umcg bench rt`: their metrics, how these come of a child's figures, and the
//! tables that show them.

use super::request::{Figures, Request, Work};
use crate::harness::{Column, Metric, Section, higher, lower};

/// The work of a bench, and how its figures become those of its metrics.
pub(super) struct Bench {
    pub(super) metrics: &'static [Metric],
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// The child's own figures.
    Work {
        work: Work,
        size: fn(Size) -> u64,
        values: fn(&Figures, &Request) -> Vec<f64>,
    },
    /// As many connections as can be.
    Echo,
    /// Beside batch load.
    Urgent,
}

/// Small sizes are for tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Full,
    Small,
}

impl Size {
    pub(super) fn pick<T>(self, full: T, small: T) -> T {
        if self == Self::Full { full } else { small }
    }
}

fn each(figures: &Figures) -> f64 {
    figures.nanos as f64 / figures.operations as f64
}

pub(super) const BENCHES: &[Bench] = &[
    Bench {
        metrics: &[lower("yield", "ns")],
        // Of a server's time: they all are at it.
        kind: Kind::Work {
            work: Work::Yield,
            size: |_| 16,
            values: |f, r| vec![each(f) * r.servers as f64],
        },
    },
    Bench {
        metrics: &[lower("hand_over", "ns")],
        // There and back are two hops.
        kind: Kind::Work {
            work: Work::Ring,
            size: |_| 2,
            values: |f, _| vec![2.0 * each(f)],
        },
    },
    Bench {
        metrics: &[lower("ring", "ns")],
        kind: Kind::Work {
            work: Work::Ring,
            size: |size| size.pick(503, 53),
            values: |f, _| vec![each(f)],
        },
    },
    Bench {
        metrics: &[lower("spawn_join", "ns")],
        kind: Kind::Work {
            work: Work::SpawnJoin,
            size: |_| 1,
            values: |f, _| vec![each(f)],
        },
    },
    Bench {
        metrics: &[lower("skynet", "ms"), lower("skynet_memory", "MB")],
        kind: Kind::Work {
            work: Work::Skynet,
            size: |size| size.pick(1_000_000, 1000),
            values: |f, _| vec![each(f) / 1e6, f.peak as f64 / 1e6],
        },
    },
    Bench {
        metrics: &[lower("sleepers", "s"), lower("sleepers_memory", "bytes")],
        kind: Kind::Work {
            work: Work::Sleepers,
            size: |size| size.pick(1_000_000, 1000),
            values: |f, r| {
                vec![
                    each(f) / 1e9,
                    f.peak.saturating_sub(f.before) as f64 / r.size as f64,
                ]
            },
        },
    },
    Bench {
        metrics: &[lower("fib", "ms")],
        kind: Kind::Work {
            work: Work::Fib,
            size: |size| size.pick(27, 10),
            values: |f, _| vec![each(f) / 1e6],
        },
    },
    Bench {
        metrics: &[
            lower("echo_cpu", "us"),
            higher("echo_rate", "1/s"),
            lower("echo_p99", "us"),
        ],
        kind: Kind::Echo,
    },
    Bench {
        metrics: &[lower("urgent_p99", "us")],
        kind: Kind::Urgent,
    },
];

const PEERS: &[&str] = &["tokio", "may", "go", "threads"];

const fn section(
    title: &'static str,
    metric: &'static str,
    heading: &'static str,
    references: &'static [&'static str],
) -> Section {
    const NONE: &[(&str, Column)] = &[];
    Section {
        title,
        metric,
        heading,
        columns: NONE,
        bar: None,
        references,
    }
}

pub(super) const SECTIONS: &[Section] = &[
    section(
        "Yield: 16 workers a server; of a server's time",
        "yield",
        "ns",
        PEERS,
    ),
    section(
        "Hand-over between two workers, there and back",
        "hand_over",
        "ns",
        PEERS,
    ),
    section("Ring of 503 workers, a hop", "ring", "ns", PEERS),
    section("Spawn and join", "spawn_join", "ns", PEERS),
    section("Skynet: a tree of 1,111,111 workers", "skynet", "ms", PEERS),
    section(
        "Skynet: the most memory that was resident",
        "skynet_memory",
        "MB",
        PEERS,
    ),
    section(
        "1,000,000 workers that sleep for a second, altogether",
        "sleepers",
        "s",
        PEERS,
    ),
    section(
        "Sleepers: memory resident for each",
        "sleepers_memory",
        "bytes",
        PEERS,
    ),
    section(
        "Fork and join: fib(27), a worker for every addition",
        "fib",
        "ms",
        PEERS,
    ),
    section(
        "Echo: CPU time of the server for a request",
        "echo_cpu",
        "us",
        &["epoll-c", "tokio", "go"],
    ),
    section(
        "Echo: requests a second",
        "echo_rate",
        "1/s",
        &["epoll-c", "tokio", "go"],
    ),
    section(
        "Echo: 99th percentile of the delay",
        "echo_p99",
        "us",
        &["epoll-c", "tokio", "go"],
    ),
    section(
        "Urgent requests beside batch load: 99th percentile of the delay",
        "urgent_p99",
        "us",
        PEERS,
    ),
];

/// All but those that take minutes: a million sleepers; trees of workers on one server, and those
/// of all sides; and echo on more servers than one, whose load then has no CPU of its own.
pub(super) const USUAL: &[&str] = &[
    "yield",
    "hand_over",
    "ring",
    "spawn_join",
    "skynet servers=2 light",
    "skynet servers=2 tokio",
    "skynet servers=2 go",
    "skynet_memory servers=2 light",
    "skynet_memory servers=2 tokio",
    "skynet_memory servers=2 go",
    "fib servers=2",
    "echo_cpu servers=1",
    "echo_rate servers=1",
    "echo_p99 servers=1",
    "urgent_p99",
];

/// The metrics of this bench.
pub(super) fn metrics() -> impl Iterator<Item = &'static Metric> {
    BENCHES.iter().flat_map(|bench| bench.metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_section() {
        let shown: Vec<&str> = SECTIONS.iter().map(|section| section.metric).collect();
        assert_eq!(
            metrics().map(|metric| metric.name).collect::<Vec<_>>(),
            shown
        );
    }
}
