//! Stress of the runtime: workers of both kinds do everything at once, and every value, guard and
//! end is accounted for.
//!
//! The variables are those of `tests/stress`: `UMCG_STRESS_SECONDS`, `UMCG_STRESS_SEED`,
//! `UMCG_STRESS_PATIENCE`. A round takes its shape (servers, scheduler, driver, kinds, preemption,
//! signals) and all choices in it from its seed. The kernel's scheduling is not in the seed, so a
//! failure may take a few runs to come again.

#[allow(dead_code, reason = "shared with the stress of servers")]
#[path = "../stress/harness.rs"]
mod harness;
#[allow(dead_code, reason = "shared with the stress of synchronisation")]
#[path = "../stress/runtime.rs"]
mod runtime;
mod works;
mod world;

use harness::{Noise, Rng, SIGNALS, Signals, Watchdog};
use runtime::{NOT_JOINED, Shape, build, servers};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::World;

fn round(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let shape = Shape::new(&mut rng);
    let runtime = Arc::new(build(&shape));
    let world = Arc::new(World::new(seed, shape, runtime.clone()));
    let _watchdog = Watchdog::start("rt_stress", seed, world.clone());
    let noise = Noise {
        signals: SIGNALS && shape.signals,
        ticks: SIGNALS && shape.preemption && shape.signals,
    };
    let signals = Signals::start(seed, noise, Arc::new(Mutex::new(servers())));
    let storms: Vec<_> = (0..2)
        .map(|n| (world.clone(), n))
        .map(|(world, n)| std::thread::spawn(move || world.storm(n)))
        .collect();
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
    assert_eq!(
        world.made.load(Relaxed),
        world.dropped.load(Relaxed),
        "guards made and dropped"
    );
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
