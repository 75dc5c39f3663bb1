//! The work of a runtime in each of the benches. Every method does its work once and returns how
//! long that took. How often it is called is decided in one place for all of them
//! ([`super::request`]), and the work stands in one place for all that have stacks
//! ([`super::stackful`]).

use anyhow::Result;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A runtime that was started in this process.
pub(super) trait Side {
    /// This many workers, each of which yields this many times.
    fn yields(&self, workers: usize, each: u64) -> Result<Duration>;

    /// A token goes round this many workers; each waits for it and hands it on. The time is that of
    /// the hops alone.
    fn ring(&self, workers: usize, hops: u64) -> Result<Duration>;

    /// One worker makes another, which does nothing, and joins it; again and again.
    fn spawn_join(&self, times: u64) -> Result<Duration>;

    /// A tree of workers, ten children each, that adds up the numbers of its leaves.
    fn skynet(&self, leaves: u64) -> Result<Duration>;

    /// This many workers that sleep, all at once.
    fn sleepers(&self, workers: u64, nap: Duration) -> Result<Duration>;

    /// Fibonacci by fork and join: a worker for every addition, none is too small.
    fn fib(&self, n: u64) -> Result<Duration>;

    /// Echoes the bytes that come in on TCP, beside this many workers that do nothing but
    /// [`compute`]. Prints the port, and returns only if it fails.
    fn serve(&self, batch: usize, ready: Ready) -> Result<()>;
}

/// Told the port as soon as connections are taken.
pub(super) type Ready = Box<dyn FnOnce(u16) + Send>;

/// The largest message that is read in one piece.
pub(super) const BUFFER: usize = 1024;

/// A worker of the batch load computes for this long before it gives way to others by itself.
const CHUNK: Duration = Duration::from_millis(20);

/// The part of a skynet below one node: the number of the first leaf, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Subtree {
    pub(super) first: u64,
    pub(super) leaves: u64,
}

/// How many children a node has.
pub(super) const CHILDREN: usize = 10;

impl Subtree {
    pub(super) fn child(self, index: usize) -> Self {
        let leaves = self.leaves / CHILDREN as u64;
        Self {
            first: self.first + index as u64 * leaves,
            leaves,
        }
    }

    /// The sum of the whole tree.
    pub(super) fn expected(leaves: u64) -> u64 {
        leaves * (leaves - 1) / 2
    }
}

/// The result of `fib`.
pub(super) fn fibonacci(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Work that no compiler shortens.
pub(crate) fn compute(steps: u64) {
    let mut x = black_box(88_172_645_463_325_252_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How many steps take a [`CHUNK`] on a processor of one's own.
pub(super) fn chunk() -> u64 {
    const TRY: u64 = 1 << 20;
    let took = (0..3).map(|_| {
        let start = Instant::now();
        compute(TRY);
        start.elapsed()
    });
    let fastest = took.min().unwrap_or(CHUNK).as_secs_f64();
    (TRY as f64 * CHUNK.as_secs_f64() / fastest) as u64
}
