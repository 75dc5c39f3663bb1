//! The bodies of workers.

use crate::harness::{Rng, spin};
use crate::world::World;
use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use umcg::{Handle, JoinError};

umcg::worker_local! {
    static MINE: Cell<u64> = Cell::new(0);
}

fn short(rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(200))
}

/// Does a few things, and returns the sum of the numbers that it and its children were given to
/// return.
pub(crate) fn tree(world: &Arc<World>, mut rng: Rng, depth: u32) -> u64 {
    let _guard = world.guard();
    world.leave_stale(Handle::current());
    let mine = rng.below(1000);
    world.expected.fetch_add(mine, Relaxed);
    let mark = rng.next();
    MINE.with(|own| assert_eq!(own.replace(mark), 0, "a new worker's own"));
    let mut sum = mine;
    for _ in 0..1 + rng.below(5) {
        sum += one(world, &mut rng, depth);
        world.done();
    }
    assert_eq!(MINE.with(Cell::get), mark, "a worker's own value");
    sum
}

fn one(world: &Arc<World>, rng: &mut Rng, depth: u32) -> u64 {
    match rng.below(16) {
        0..=2 if depth > 0 => children(world, rng, depth),
        3 if depth > 0 => scope(world, rng, depth),
        4 => asks(world),
        5 => victims(world, rng),
        6 => panics(world, rng),
        7 => times_out(world, rng),
        8 => sockets(world, rng),
        9 => detached(world, rng),
        _ => wait(world, rng),
    }
}

/// Some way of waiting, which may be cut.
fn wait(world: &World, rng: &mut Rng) -> u64 {
    match rng.below(9) {
        0 => umcg::sleep(short(rng)),
        1 => umcg::blocking(|| std::thread::sleep(short(rng) / 2)),
        2 => {
            umcg::park_timeout(short(rng));
        }
        3 => {
            if let Some(other) = world.anybody(rng) {
                other.unpark();
            }
        }
        4 => {
            // No thread has to wake us then.
            Handle::current().unpark();
            umcg::hand_over(world.anybody(rng).unwrap_or_else(Handle::current));
        }
        5 => {
            world.answer_one();
        }
        6 => {
            spin(rng, 20_000);
            umcg::rt::checkpoint();
        }
        _ => (0..rng.below(20)).for_each(|_| umcg::yield_now()),
    }
    0
}

fn fork(rng: &mut Rng) -> Rng {
    Rng::new(rng.next(), 1)
}

fn children(world: &Arc<World>, rng: &mut Rng, depth: u32) -> u64 {
    let children: Vec<_> = (0..rng.below(4))
        .map(|_| {
            let (inside, theirs) = (world.clone(), fork(rng));
            world
                .kind(rng)
                .build(&world.builder(rng), move || {
                    tree(&inside, theirs, depth - 1)
                })
                .unwrap()
        })
        .collect();
    if rng.one_in(2) {
        wait(world, rng);
    }
    let mut sum = 0;
    for child in children {
        sum += match rng.below(8) {
            0 => umcg::blocking(|| child.join().unwrap()),
            1 | 2 => join_by_looking(child, rng),
            _ => child.join().unwrap(),
        };
    }
    sum
}

fn join_by_looking(mut child: umcg::JoinHandle<u64>, rng: &mut Rng) -> u64 {
    loop {
        child = match child.join_timeout(short(rng)) {
            Ok(value) => break value.unwrap(),
            Err(child) => child,
        };
        umcg::yield_now();
        child = match child.try_join() {
            Ok(value) => break value.unwrap(),
            Err(child) => child,
        };
    }
}

fn scope(world: &Arc<World>, rng: &mut Rng, depth: u32) -> u64 {
    let sum = AtomicU64::new(0);
    let mut more = 0;
    umcg::scope(|scope| {
        for _ in 0..rng.below(4) {
            let theirs = fork(rng);
            let inner = &sum;
            let child = world.kind(rng).spawn_in(scope, move || {
                inner.fetch_add(tree(world, theirs, depth - 1), Relaxed);
                5
            });
            if rng.one_in(3) {
                more += child.join().unwrap();
            }
        }
        wait(world, rng);
    });
    assert_eq!(more % 5, 0);
    sum.into_inner()
}

/// Parks until one of many has set the flag.
fn asks(world: &World) -> u64 {
    let flag = world.ask();
    while !flag.load(Acquire) {
        umcg::park();
    }
    0
}

/// Workers that are aborted at some moment. They own guards, and children in scopes.
fn victims(world: &Arc<World>, rng: &mut Rng) -> u64 {
    let victims: Vec<_> = (0..1 + rng.below(3))
        .map(|_| {
            let (guards, inside, mut theirs) =
                ([world.guard(), world.guard()], world.clone(), fork(rng));
            let value = rng.next();
            let body = move || {
                let guards = guards;
                for _ in 0..theirs.below(20) {
                    wait(&inside, &mut theirs);
                    if theirs.one_in(4) {
                        let guard = inside.guard();
                        let mut end = 0;
                        umcg::scope(|scope| {
                            inside.kind(&mut theirs).spawn_in(scope, || {
                                umcg::yield_now();
                                let _guard = guard;
                                end = 1;
                            });
                            umcg::yield_now();
                        });
                        assert_eq!(end, 1);
                    }
                }
                (value, guards)
            };
            (
                value,
                world.kind(rng).build(&world.builder(rng), body).unwrap(),
            )
        })
        .collect();
    for (value, victim) in victims {
        wait(world, rng);
        if rng.one_in(5) {
            continue; // detached
        }
        (0..rng.below(3)).for_each(|_| victim.abort());
        match victim.join() {
            Ok((returned, _)) => assert_eq!(returned, value),
            Err(JoinError::Cancelled) => {}
            Err(error) => error.resume_unwind(),
        }
    }
    0
}

fn panics(world: &Arc<World>, rng: &mut Rng) -> u64 {
    let (guard, value, inside, mut theirs) = (world.guard(), rng.next(), world.clone(), fork(rng));
    let child = world.kind(rng).build(&world.builder(rng), move || -> u64 {
        let _guard = guard;
        wait(&inside, &mut theirs);
        let guard = inside.guard();
        std::panic::resume_unwind(Box::new((value, guard)))
    });
    match child.unwrap().join() {
        Err(JoinError::Panicked(payload)) => assert_eq!(
            payload
                .downcast_ref::<(u64, crate::world::Guard)>()
                .unwrap()
                .0,
            value
        ),
        other => panic!("{other:?}"),
    }
    0
}

fn times_out(world: &Arc<World>, rng: &mut Rng) -> u64 {
    let (outer, inner) = (short(rng), short(rng));
    let _ = umcg::timeout(outer, || {
        let _guard = world.guard();
        wait(world, rng);
        let _ = umcg::timeout(inner, || {
            let _guard = world.guard();
            for _ in 0..5 {
                wait(world, rng);
            }
        });
        wait(world, rng);
    });
    umcg::rt::checkpoint(); // nothing of it is left
    0
}

fn sockets(world: &Arc<World>, rng: &mut Rng) -> u64 {
    let (mut one, mut other) = umcg::net::unix::UnixStream::pair().unwrap();
    let rounds = rng.below(5);
    let echo = world.kind(rng).build(&world.builder(rng), move || {
        let mut bytes = [0; 8];
        for _ in 0..rounds {
            other.read_exact(&mut bytes).unwrap();
            other.write_all(&bytes).unwrap();
        }
    });
    for _ in 0..rounds {
        let (sent, mut bytes) = (rng.next().to_le_bytes(), [0; 8]);
        one.write_all(&sent).unwrap();
        let (outer, inner) = (short(rng), short(rng));
        let _ = umcg::timeout(outer, || umcg::sleep(inner));
        one.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, sent);
    }
    echo.unwrap().join().unwrap();
    0
}

fn detached(world: &Arc<World>, rng: &mut Rng) -> u64 {
    let (guard, inside, mut theirs) = (world.guard(), world.clone(), fork(rng));
    let detached = world.kind(rng).build(&world.builder(rng), move || {
        wait(&inside, &mut theirs);
        (guard, inside.guard())
    });
    drop(detached.unwrap());
    0
}
