//! The same work on the real runtime, with as many servers as there are CPUs, and fewer.
//!
//! Workers compute until the clock says so: on a machine that others use too, time that these take
//! counts as work. The plain thread that makes bursts has no CPU to itself if there is a server for
//! each; the one that sends messages needs one, so `echo` has a row for fewer servers only.

use super::{MEASURED, OF_MEASURED, OF_MEASURED_ECHO, SERVERS, params};
use crate::harness::{Case, cpu};
use anyhow::{Context, Result, anyhow};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::*, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use umcg::{Handle, JoinHandle, Runtime, park, spawn, tube};
use umcg_sim::Workload;
use umcg_sim::amounts::*;

/// Times in nanoseconds: the work of all workers, and how long it took.
struct Done {
    work: u64,
    time: Duration,
}

pub(super) fn cases(workload: Workload) -> Result<Vec<Case>> {
    let all = cpu::allowed()?;
    let most = match workload {
        Workload::Echo => all.len() - 1,
        _ => all.len(),
    };
    let servers = [1].into_iter().chain(SERVERS);
    let case = |servers: usize| Case {
        name: MEASURED,
        params: params(workload, servers, 1),
        metrics: match workload {
            Workload::Echo => OF_MEASURED_ECHO,
            _ => OF_MEASURED,
        },
        cpu: all[0],
        length: 0,
        turn: {
            let cpus = all[..servers].to_vec();
            let all = all.clone();
            Box::new(move |_| turn(workload, &cpus, &all))
        },
    };
    Ok(servers
        .take_while(|servers| *servers <= most)
        .map(case)
        .collect())
}

/// One time the whole work, in a runtime of its own.
fn turn(workload: Workload, cpus: &[usize], all: &[usize]) -> Result<Vec<f64>> {
    cpu::spread(cpus)?;
    let runtime = Runtime::builder()
        .servers(cpus.len())
        .stack_size(STACK)
        .build()?;
    cpu::spread(all)?;
    let servers = cpus.len() as u64;
    let done = match workload {
        Workload::Echo => return echo(&runtime, cpus.len(), all[cpus.len()]),
        Workload::ForkJoin => fork_join(&runtime, LEAVES * servers),
        Workload::Pipeline => pipeline(&runtime, cpus.len()),
        Workload::PingPong => ping_pong(&runtime, cpus.len()),
        Workload::Bursts => bursts(&runtime, WORKERS * servers),
    }?;
    let bound = done.work as f64 / servers as f64;
    let time = done.time.as_nanos() as f64;
    Ok(vec![bound / time, time / 1e6])
}

const STACK: usize = 64 << 10;

fn compute(nanoseconds: u64) {
    let until = Instant::now() + Duration::from_nanos(nanoseconds);
    while Instant::now() < until {}
}

fn join<T>(worker: JoinHandle<T>) -> Result<T> {
    worker.join().map_err(|error| anyhow!("{error}"))
}

fn fork_join(runtime: &Runtime, leaves: u64) -> Result<Done> {
    fn node(leaves: u64) {
        if leaves == 1 {
            return compute(LEAF);
        }
        compute(NODE);
        let half = leaves / 2;
        let others = [half, leaves - half].map(|leaves| spawn(move || node(leaves)));
        others
            .into_iter()
            .for_each(|other| other.join().expect("no panic"));
        compute(NODE);
    }
    let start = Instant::now();
    join(runtime.spawn(move || node(leaves)))?;
    Ok(Done {
        work: leaves * LEAF + (leaves - 1) * 2 * NODE,
        time: start.elapsed(),
    })
}

fn pipeline(runtime: &Runtime, servers: usize) -> Result<Done> {
    let stages = STAGES * servers;
    let mut from: Option<tube::Receiver<u64>> = None;
    let mut workers = Vec::new();
    let start = Instant::now();
    for stage in 0..stages {
        let is_last = stage + 1 == stages || (stage + 1) % ROW == 0;
        let (to, next) = tube::tube(ROOM);
        let received = std::mem::replace(&mut from, Some(next).filter(|_| !is_last));
        workers.push(runtime.spawn(move || {
            for item in 0..ITEMS {
                let item = received
                    .as_ref()
                    .map_or(item, |from| from.recv().expect("an item for each turn"));
                compute(STAGE);
                if !is_last {
                    to.send(item).expect("a next stage");
                }
            }
        }));
    }
    workers.into_iter().try_for_each(join)?;
    Ok(Done {
        work: ITEMS * stages as u64 * STAGE,
        time: start.elapsed(),
    })
}

fn ping_pong(runtime: &Runtime, servers: usize) -> Result<Done> {
    let pairs = PAIRS * servers;
    let player = |balls: &Arc<[Ball; 2]>, index: usize| {
        let balls = Arc::clone(balls);
        runtime.spawn(move || {
            balls[index].player.get_or_init(Handle::current);
            for round in 0..ROUNDS {
                if index == 1 || round > 0 {
                    balls[index].catch();
                }
                compute(STEP);
                balls[1 - index].throw();
            }
        })
    };
    let start = Instant::now();
    let pair = |_| {
        let balls = Arc::default();
        [player(&balls, 0), player(&balls, 1)]
    };
    let workers: Vec<JoinHandle<()>> = (0..pairs).flat_map(pair).collect();
    workers.into_iter().try_for_each(join)?;
    Ok(Done {
        work: 2 * ROUNDS * pairs as u64 * STEP,
        time: start.elapsed(),
    })
}

/// What one of a pair waits for.
#[derive(Default)]
struct Ball {
    player: OnceLock<Handle>,
    thrown: AtomicU64,
    caught: AtomicU64,
}

impl Ball {
    fn throw(&self) {
        // ORDERING(scale-ball.1): SeqCst, pairs with scale-ball.2: either the player sees the ball
        // before it parks, or its handle is seen here.
        self.thrown.fetch_add(1, SeqCst);
        if let Some(player) = self.player.get() {
            player.unpark();
        }
    }

    fn catch(&self) {
        let caught = self.caught.fetch_add(1, Relaxed);
        // ORDERING(scale-ball.2): SeqCst, pairs with scale-ball.1.
        fence(SeqCst);
        while self.thrown.load(Relaxed) == caught {
            park();
        }
    }
}

fn bursts(runtime: &Runtime, count: u64) -> Result<Done> {
    let mut time = Duration::ZERO;
    for _ in 0..BURSTS {
        let start = Instant::now();
        let workers: Vec<JoinHandle<()>> = (0..count)
            .map(|_| runtime.spawn(|| compute(WORK)))
            .collect();
        workers.into_iter().try_for_each(join)?;
        time += start.elapsed();
        std::thread::sleep(Duration::from_nanos(PAUSE));
    }
    Ok(Done {
        work: BURSTS * count * WORK,
        time,
    })
}

/// A message on its way: its connection, and when it is due.
type Due = (Duration, usize);

/// Messages of eight bytes: when they are due. The plain thread that sends them has a CPU.
fn echo(runtime: &Runtime, servers: usize, cpu: usize) -> Result<Vec<f64>> {
    let start = Instant::now();
    let (next, dues) = channel();
    let mut ends = Vec::new();
    let mut workers = Vec::new();
    for index in 0..CONNECTIONS * servers {
        let (ours, theirs) = UnixStream::pair().context("a connection")?;
        ends.push(ours);
        let next = next.clone();
        let seed = index as u64 + 1;
        workers.push(runtime.spawn(move || connection(theirs.into(), index, seed, start, &next)));
    }
    drop(next);
    cpu::pin(cpu)?;
    send(&ends, &dues, start)?;
    let mut latencies = Vec::new();
    for worker in workers {
        latencies.extend(join(worker)?);
    }
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    Ok(vec![p99.as_nanos() as f64 / 1e3])
}

/// Answers messages, and says when the next one is due. Returns how late each answer was.
fn connection(
    mut stream: umcg::net::unix::UnixStream,
    index: usize,
    seed: u64,
    start: Instant,
    next: &Sender<Due>,
) -> Vec<Duration> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut wait = || {
        // Xorshift (Marsaglia, "Xorshift RNGs", 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::from_nanos((-(1.0 - uniform).ln() * THINK as f64) as u64)
    };
    let mut latencies = Vec::new();
    let mut bytes = [0; 8];
    for _ in 0..MESSAGES {
        let due = start.elapsed() + wait();
        if next.send((due, index)).is_err() || stream.read_exact(&mut bytes).is_err() {
            break;
        }
        compute(SERVICE);
        latencies.push(start.elapsed().saturating_sub(due));
    }
    latencies
}

/// Sends messages when they are due, until no connection wants one.
fn send(ends: &[UnixStream], dues: &Receiver<Due>, start: Instant) -> Result<()> {
    let mut coming: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
    let mut is_open = true;
    while is_open || !coming.is_empty() {
        match dues.try_recv() {
            Ok(due) => coming.push(Reverse(due)),
            Err(TryRecvError::Disconnected) => is_open = false,
            Err(TryRecvError::Empty) => {}
        }
        let now = start.elapsed();
        while coming.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            if let Some(Reverse((_, index))) = coming.pop() {
                (&ends[index]).write_all(&[0; 8])?;
            }
        }
    }
    Ok(())
}
