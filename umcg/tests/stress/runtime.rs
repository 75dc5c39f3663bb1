//! The runtimes of the stress tests that have one.

use crate::harness::{PREEMPTION, Rng};
use std::time::{Duration, Instant};
use umcg::rt::DriverKind;
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority, Weighted};
use umcg::{Builder, Runtime};

#[path = "../rt/kind.rs"]
mod kind;
pub(crate) use kind::Kind;

/// The parameters of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) servers: usize,
    pub(crate) scheduler: u64,
    pub(crate) ring: bool,
    pub(crate) preemption: bool,
    pub(crate) signals: bool,
    pub(crate) roots: u64,
}

impl Shape {
    pub(crate) fn new(rng: &mut Rng) -> Shape {
        Shape {
            servers: rng.pick(&[1, 1, 2, 2, 3, 4, 8]),
            scheduler: rng.below(8),
            ring: rng.one_in(2),
            preemption: PREEMPTION && rng.one_in(3),
            signals: rng.one_in(2),
            roots: 1 + rng.below(12),
        }
    }

    /// A light worker that may be preempted anywhere could not allocate.
    pub(crate) fn kind(&self, rng: &mut Rng) -> Kind {
        if self.preemption || rng.one_in(2) {
            Kind::Full
        } else {
            Kind::Light
        }
    }

    pub(crate) fn builder(&self, rng: &mut Rng) -> Builder<'static> {
        let mut builder = Builder::new().priority(rng.below(256) as u8);
        if rng.one_in(4) {
            builder = builder.server(rng.below(self.servers as u64 + 1) as usize);
        }
        if rng.one_in(4) {
            builder = builder.deadline(Instant::now());
        }
        builder
    }
}

/// The runtime of a round.
pub(crate) fn build(shape: &Shape) -> Runtime {
    let builder = Runtime::builder()
        .servers(shape.servers)
        .name("stress")
        .stack_size(128 << 10);
    let builder = builder.preemption(shape.preemption.then_some(Duration::from_millis(2)));
    let builder = match shape.scheduler {
        1 => builder.scheduler(Fifo::new()),
        2 => builder.scheduler(Priority::new()),
        3 => builder.scheduler(EarliestDeadline::new()),
        4 => builder.scheduler(Weighted::new(&[1, 5, 2])),
        _ => builder,
    };
    let driver = if shape.ring {
        DriverKind::Auto
    } else {
        DriverKind::Epoll
    };
    builder.driver(driver).build().unwrap()
}

/// The kernel threads of the round's runtime.
pub(crate) fn servers() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let ours = |tid: &i32| {
        std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"))
            .is_ok_and(|name| name.starts_with("stress-"))
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .filter(ours)
        .collect()
}

/// The line of a dump if there is a worker that has ended and was not recycled.
pub(crate) const NOT_JOINED: &str = "not joined";
