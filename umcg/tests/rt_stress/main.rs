//! Stress of the runtime: workers of both kinds do everything at once, and every value, guard and end is accounted for.
//!
//! The variables are those of `tests/stress`: `UMCG_STRESS_SECONDS`, `UMCG_STRESS_SEED`, `UMCG_STRESS_PATIENCE`. A round takes its shape (servers, scheduler,
//! driver, kinds, preemption, signals) and all choices in it from its seed. The kernel's scheduling is not in the seed, so a failure may take a
//! few runs to come again.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the light workers here keep nothing across a switch that they must not")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "as above")]

#[allow(dead_code, reason = "shared with the stress of servers")]
#[path = "../stress/harness.rs"]
mod harness;
mod works;
mod world;

use harness::{Noise, Rng, SIGNALS, Signals, Watchdog};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::Runtime;
use umcg::rt::DriverKind;
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority, Weighted};
use world::{Shape, World};

fn build(shape: &Shape) -> Runtime {
    let builder = Runtime::builder().servers(shape.servers).name("stress").stack_size(128 << 10);
    let builder = builder.preemption(shape.preemption.then_some(Duration::from_millis(2)));
    let builder = match shape.scheduler {
        1 => builder.scheduler(Fifo::new()),
        2 => builder.scheduler(Priority::new()),
        3 => builder.scheduler(EarliestDeadline::new()),
        4 => builder.scheduler(Weighted::new(&[1, 5, 2])),
        _ => builder,
    };
    let driver = if shape.ring { DriverKind::Auto } else { DriverKind::Epoll };
    builder.driver(driver).build().unwrap()
}

/// The kernel threads of the round's runtime.
fn servers() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let ours =
        |tid: &i32| std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).is_ok_and(|name| name.starts_with("stress-"));
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).filter(ours).collect()
}

/// What a dump says if there is a worker that has ended and was not recycled.
const NOT_JOINED: &str = "not joined";

fn round(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let shape = Shape::new(&mut rng);
    let runtime = Arc::new(build(&shape));
    let world = Arc::new(World::new(seed, shape, runtime.clone()));
    let _watchdog = Watchdog::start("rt_stress", seed, world.clone());
    let noise = Noise { signals: SIGNALS && shape.signals, ticks: SIGNALS && shape.preemption && shape.signals };
    let signals = Signals::start(seed, noise, Arc::new(Mutex::new(servers())));
    let storms: Vec<_> =
        (0..2).map(|n| (world.clone(), n)).map(|(world, n)| std::thread::spawn(move || world.storm(n))).collect();
    let roots: Vec<_> = (0..shape.roots)
        .map(|n| {
            let inside = world.clone();
            let mut rng = Rng::new(seed, 1000 + n);
            let kind = world.kind(&mut rng);
            kind.spawn_on(&runtime, move || works::tree(&inside, rng, 5))
        })
        .collect();
    let sum: u64 = roots.into_iter().map(|root| root.join().unwrap()).sum();
    assert_eq!(sum, world.expected.load(Relaxed), "the sum of all trees");
    while runtime.workers() > 0 {
        std::thread::sleep(Duration::from_micros(200));
    }
    while runtime.dump().contains(NOT_JOINED) {
        // The last to end are just being recycled; the watchdog sees to it that this ends.
        std::thread::yield_now();
    }
    world.over.store(true, Relaxed);
    storms.into_iter().for_each(|storm| storm.join().unwrap());
    drop(signals);
    assert_eq!(world.made.load(Relaxed), world.dropped.load(Relaxed), "guards made and dropped");
    world.forget_runtime();
    let runtime = Arc::try_unwrap(runtime).unwrap_or_else(|_| panic!("the watchdog lets go of it"));
    match rng.below(2) {
        0 => drop(runtime),
        _ => assert_eq!(runtime.shutdown_timeout(Duration::from_secs(60)), Ok(())),
    }
    harness::progress();
}

#[test]
fn everything_at_once() {
    harness::rounds("rt_stress", round);
}
