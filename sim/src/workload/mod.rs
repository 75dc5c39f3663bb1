//! What the workers of a simulation do.
//!
//! The amount of work grows with the servers, so each has as much to do however many there are.

pub mod amounts;
mod bursts;
mod echo;
mod fork_join;
mod ping_pong;
mod pipeline;

use crate::machine::{self, Cause};
use crate::rt::engine::runtime::{RuntimeState, add};
use crate::rt::task::{self, Leaves, Pool, Program, Task};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// A tree of workers: each makes two more and waits for them; the leaves compute.
    ForkJoin,
    /// Stages that hand items on through channels with room for eight.
    Pipeline,
    /// Connections that answer messages, which come some time after the last answer.
    Echo,
    /// Pairs of workers that wake each other in turn, and compute for a moment in between.
    PingPong,
    /// A plain thread makes many workers at once, waits for all of them, and makes more.
    Bursts,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 5] = [
        Workload::ForkJoin,
        Workload::Pipeline,
        Workload::Echo,
        Workload::PingPong,
        Workload::Bursts,
    ];

    /// As `umcg bench scale` names it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::ForkJoin => "fork-join",
            Workload::Pipeline => "pipeline",
            Workload::Echo => "echo",
            Workload::PingPong => "ping-pong",
            Workload::Bursts => "bursts",
        }
    }

    pub(crate) fn has_sources(self) -> bool {
        self == Workload::Echo
    }

    /// Begins, on a plain thread. Returns when there is nothing more to begin.
    pub(crate) fn begin(self, world: &Rc<World>) {
        match self {
            Workload::ForkJoin => fork_join::begin(world),
            Workload::Pipeline => pipeline::begin(world),
            Workload::Echo => echo::begin(world),
            Workload::PingPong => ping_pong::begin(world),
            Workload::Bursts => bursts::begin(world),
        }
    }
}

/// What the workers of a simulation share.
pub(crate) struct World {
    pub(crate) shared: &'static RuntimeState,
    pub(crate) pool: Pool,
    pub(crate) servers: usize,
    /// The size of the work, in percent of the usual one.
    size: u64,
    /// When the part of the work began that is under way, and the time of all parts before.
    began: Cell<u64>,
    time: Cell<u64>,
    pub(crate) is_done: Cell<bool>,
    /// Pieces of work that are to be done, and those that were.
    pub(crate) expected: Cell<u64>,
    pub(crate) done: Cell<u64>,
    /// The work in nanoseconds.
    pub(crate) work: Cell<u64>,
    pub(crate) made: Cell<u64>,
    pub(crate) ended: Cell<u64>,
    /// How long each answer took.
    pub(crate) latencies: RefCell<Vec<u64>>,
}

impl World {
    pub(crate) fn new(shared: &'static RuntimeState, servers: usize, size: u64) -> World {
        World {
            shared,
            pool: Pool::default(),
            servers,
            size,
            began: Cell::new(machine::BEGIN),
            time: Cell::new(0),
            is_done: Cell::new(false),
            expected: Cell::new(0),
            done: Cell::new(0),
            work: Cell::new(0),
            made: Cell::new(0),
            ended: Cell::new(0),
            latencies: RefCell::default(),
        }
    }

    /// So much, for the size of this simulation; one at least.
    fn sized(&self, amount: u64) -> u64 {
        (amount * self.size / 100).max(1)
    }

    /// The caller computes for about this time, a tenth more or less.
    fn compute(&self, nanoseconds: u64) {
        let spread = nanoseconds / 5;
        let time = nanoseconds - spread / 2 + machine::random() % (spread + 1);
        add(&self.work, time);
        machine::spend(Cause::Work, |_| time);
    }

    fn make(&self, program: impl Program + 'static) -> &'static Task {
        add(&self.made, 1);
        self.pool.make(self.shared, program)
    }

    fn spawn(&self, program: impl Program + 'static) {
        task::begin(self.make(program));
    }

    /// A worker has ended.
    fn end(&self, task: &'static Task) -> Leaves {
        add(&self.ended, 1);
        self.pool.recycle(task);
        Leaves::Ends
    }

    /// A piece of work is done. True if it was the last one.
    fn note_done(&self) -> bool {
        add(&self.done, 1);
        self.done == self.expected
    }

    /// A part of the work begins.
    fn begin_part(&self) {
        self.began.set(machine::now());
    }

    fn end_part(&self) {
        add(&self.time, machine::now() - self.began.get());
    }

    /// All work is done.
    fn finish(&self) {
        self.end_part();
        self.is_done.set(true);
        self.shared.end();
    }

    /// The time of all parts, the one that is under way included.
    pub(crate) fn time(&self) -> u64 {
        self.time.get()
    }
}
