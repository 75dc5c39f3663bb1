//! Stress of synchronisation: workers of both kinds and kernel threads wait for the same things in
//! every way, with deadlines, aborts, closes and signals. Takings and gifts are added up, messages
//! are counted and their order is looked at, and at odd moments every party stops where it stands:
//! then none may be waiting for something that is there.
//!
//! The variables are those of `tests/stress`: `UMCG_STRESS_SECONDS`, `UMCG_STRESS_SEED`,
//! `UMCG_STRESS_PATIENCE`. All choices of a round come from its seed, but not the kernel's, so a
//! failure may take a few runs to come again.

#[allow(dead_code, reason = "shared with the stress of servers")]
#[path = "../stress/harness.rs"]
mod harness;
mod ledger;
mod locks;
mod messages;
mod party;
#[allow(dead_code, reason = "shared with the stress of the runtime")]
#[path = "../stress/runtime.rs"]
mod runtime;
mod select;
mod takings;
mod words;
mod world;

use harness::{Noise, Rng, SIGNALS, Signals, Watchdog};
use party::Joined;
use runtime::{NOT_JOINED, Shape, build, servers};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::sync::WaitGroup;
use world::World;

/// All parties of a round.
fn start(
    world: &Arc<World>,
    rng: &mut Rng,
    tids: &Arc<Mutex<Vec<i32>>>,
) -> (Vec<Joined>, Arc<WaitGroup>) {
    let group = Arc::new(WaitGroup::new());
    let mut bodies = messages::bodies(world, rng);
    while bodies.len() < world.intents.len() {
        bodies.push((Box::new(party::anything), rng.one_in(3)));
    }
    let parties = bodies
        .into_iter()
        .enumerate()
        .map(|(number, (body, may_be_cut))| {
            let doing = WaitGroup::enter_arc(&group);
            let all = move |party| {
                let _doing = doing;
                body(party);
            };
            Joined::start(world, number, rng, tids, (all, may_be_cut))
        });
    (parties.collect(), group)
}

/// Disturbs all parties for a while.
fn storm(world: &World, rng: &mut Rng, parties: &[Joined]) {
    for _ in 0..5 + rng.below(40) {
        std::thread::sleep(Duration::from_micros(rng.below(400)));
        match rng.below(8) {
            0 => world.freeze(),
            1 | 2 => parties[rng.below(parties.len() as u64) as usize].abort(),
            3 if rng.one_in(16) => world.takings.close_one(rng),
            4 if rng.one_in(16) => world.messages.close_one(rng),
            _ => world.locks.move_gate(rng),
        }
    }
    world.locks.open_gate();
}

fn round(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let shape = Shape::new(&mut rng);
    let runtime = Arc::new(build(&shape));
    let world = Arc::new(World::new(seed, shape, &mut rng, runtime.clone()));
    let _watchdog = Watchdog::start("sync_stress", seed, world.clone());
    let noise = Noise {
        signals: SIGNALS && shape.signals,
        ticks: SIGNALS && shape.preemption && shape.signals,
    };
    let tids = Arc::new(Mutex::new(servers()));
    let signals = Signals::start(seed, noise, tids.clone());
    let (parties, group) = start(&world, &mut rng, &tids);
    storm(&world, &mut rng, &parties);
    group.wait();
    parties.into_iter().for_each(Joined::join);
    while runtime.workers() > 0 || runtime.dump().contains(NOT_JOINED) {
        // The last to end are just being recycled; the watchdog sees to it that this ends.
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(signals);
    world.check();
    world.forget_runtime();
    let runtime = Arc::try_unwrap(runtime).unwrap_or_else(|_| panic!("the watchdog lets go of it"));
    drop(runtime);
    harness::progress();
}

#[test]
fn everything_at_once() {
    harness::rounds("sync_stress", round);
}
