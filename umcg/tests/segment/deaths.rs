//! Processes that are killed. Gifts that they had not taken go to others; unfinished work is
//! reported.

use crate::parties::Party;
use crate::support::{KINDS, child_succeeds, eventually, is_child, with};
use crate::{LONG, Process, Random, role_in, start};
use std::time::{Duration, Instant};
use umcg::Runtime;
use umcg::segment::{ByteTube, Event, Fault, Segment, Semaphore, WaitError, acquire_any};

/// Everything there is.
struct World {
    semaphores: [Semaphore; 2],
    event: Event,
    tube: ByteTube,
}

impl World {
    fn of(segment: &Segment) -> World {
        World {
            semaphores: ["a", "b"].map(|name| segment.semaphore(name, 0).unwrap()),
            event: segment.auto_event("e", false).unwrap(),
            tube: segment.tube_bytes("t", 8, 2).unwrap(),
        }
    }
}

/// The ways to wait.
const WAYS: [&str; 5] = ["acquire", "any", "event", "receive", "send"];

impl World {
    fn wait(&self, way: &str) {
        let [a, b] = &self.semaphores;
        match way {
            "acquire" => a.acquire().unwrap(),
            "any" => drop(acquire_any(&[b, a]).unwrap()),
            "event" => self.event.wait().unwrap(),
            "receive" => self.tube.recv(&mut [0; 8]).unwrap(),
            _ => self.tube.send(&[1; 8]).unwrap(),
        }
    }

    /// So that `wait` waits.
    fn prepare(&self, way: &str) {
        if way == "send" {
            (0..2).for_each(|_| self.tube.send(&[0; 8]).unwrap());
        }
    }

    fn waiters(&self, way: &str) -> usize {
        match way {
            "acquire" | "any" => self.semaphores[0].waiters().unwrap(),
            "event" => self.event.waiters().unwrap(),
            "receive" => self.tube.waiters().unwrap().0,
            _ => self.tube.waiters().unwrap().1,
        }
    }

    /// The data of one waiter.
    fn give(&self, way: &str) {
        match way {
            "acquire" | "any" => self.semaphores[0].release(1).unwrap(),
            "event" => self.event.set().unwrap(),
            "receive" => self.tube.send(&[9; 8]).unwrap(),
            _ => self.tube.recv(&mut [0; 8]).unwrap(),
        }
    }
}

/// A waiter that was given something, but stands still, and dies; the waiter behind it gets that.
#[test]
fn given_and_not_taken() {
    const TEST: &str = "deaths::given_and_not_taken";
    if let Some((segment, way)) = role_in(TEST) {
        return World::of(&segment).wait(&way);
    }
    with("given and not taken", 2, Runtime::builder(), |runtime| {
        for (number, way) in WAYS.iter().enumerate() {
            for stops in [true, false] {
                let segment = Segment::create().unwrap();
                let world = World::of(&segment);
                world.prepare(way);
                let victim = start(TEST, &segment, way);
                eventually("it waits", || world.waiters(way) == 1);
                let own = World::of(&segment);
                let next = Party::start(number, KINDS[number % 2], runtime, move || own.wait(way));
                eventually("both wait", || world.waiters(way) == 2);
                if stops {
                    victim.stop();
                    world.give(way);
                    assert_eq!(world.waiters(way), 1, "the first has it");
                    victim.kill();
                } else {
                    victim.kill();
                    world.give(way);
                }
                next.join();
                assert_eq!(
                    (world.waiters(way), world.semaphores[0].available()),
                    (0, 0),
                    "{way}"
                );
                assert!(*way != "receive" || world.tube.is_empty());
            }
        }
    });
}

/// A waiter that dies behind others, or before them, is not in their way; and its place is freed
/// for others.
#[test]
fn order_over_deaths() {
    const TEST: &str = "deaths::order_over_deaths";
    if let Some((segment, _)) = role_in(TEST) {
        let [there, done] = ["there", "done"].map(|name| segment.semaphore(name, 0).unwrap());
        there.acquire().unwrap();
        return done.release(1).unwrap();
    }
    let segment = Segment::options().processes(6).waiters(8).create().unwrap();
    let [there, done] = ["there", "done"].map(|name| segment.semaphore(name, 0).unwrap());
    for round in 0..3 {
        let mut all: Vec<Option<Process>> = Vec::new();
        for number in 0..5 {
            all.push(Some(start(TEST, &segment, "")));
            eventually("it waits", || there.waiters() == Ok(number + 1));
        }
        let (dead, alive): (Vec<_>, Vec<_>) = (0..5).partition(|number| (number + round) % 3 == 0);
        dead.iter()
            .for_each(|number| all[*number].take().unwrap().kill());
        for number in alive {
            there.release(1).unwrap();
            done.acquire_timeout(LONG).unwrap();
            all[number].take().unwrap().ends_well();
        }
        // The last of them may be dead, and found only now.
        assert_eq!(
            there.acquire_timeout(Duration::from_millis(150)),
            Err(WaitError::TimedOut)
        );
        eventually("the dead are buried", || {
            there.acquire_timeout(Duration::from_millis(2)).is_err() && there.waiters() == Ok(0)
        });
    }
}

/// A process that dies within an inner lock: all waiters are told, and all later callers.
#[test]
fn dead_objects() {
    const TEST: &str = "deaths::dead_objects";
    if let Some((segment, _)) = role_in(TEST) {
        let tube = segment.tube_bytes("large", 256 << 10, 1).unwrap();
        let mut message = vec![0; 256 << 10];
        loop {
            tube.try_send(&message).unwrap();
            tube.try_recv(&mut message).unwrap();
        }
    }
    with("dead objects", 2, Runtime::builder(), |runtime| {
        // That it dies there is likely, as it is there nearly always; but not certain.
        for _ in 0..50 {
            let segment = Segment::create().unwrap();
            let tube = segment.tube_bytes("large", 256 << 10, 1).unwrap();
            let busy = start(TEST, &segment, "");
            eventually("it has begun", || !tube.is_empty());
            let start = |number: usize| {
                let tube = tube.clone();
                let body = move || {
                    let mut message = vec![0; 256 << 10];
                    if number % 2 == 0 {
                        tube.recv(&mut message)
                    } else {
                        tube.send(&message).and_then(|()| tube.send(&message))
                    }
                };
                Party::start(number, KINDS[number % 2], runtime, body)
            };
            busy.kill();
            let parties: Vec<_> = (0..4).map(start).collect();
            std::thread::sleep(Duration::from_millis(2));
            let fault = tube.waiters().err();
            if fault.is_none() {
                let _ = tube.close();
                for party in parties {
                    let _ = party.join();
                }
                continue;
            }
            assert_eq!(
                (fault, tube.fault(), tube.close()),
                (Some(Fault::Dead), Some(Fault::Dead), Err(Fault::Dead))
            );
            for party in parties {
                assert_eq!(party.join(), Err(Fault::Dead.into()));
            }
            // Other objects are not concerned.
            return segment.semaphore("s", 1).unwrap().acquire().unwrap();
        }
        panic!("it never died in the lock");
    });
}

/// The work of one of the processes that are killed at random: a little of everything, for ever.
fn live(segment: &Segment) {
    let mut random = Random::new(std::process::id().into());
    let (world, wakeups) = (World::of(segment), segment.semaphore("wakeups", 0).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut random = Random::new(random.below(u64::MAX));
            let (world, wakeups) = (&world, &wakeups);
            scope.spawn(move || {
                loop {
                    let soon = Instant::now() + Duration::from_micros(random.below(3000));
                    let [a, b] = &world.semaphores;
                    match random.below(8) {
                        0 => drop(wakeups.acquire_deadline(soon)),
                        1 => drop(wakeups.release(1)),
                        2 => drop(a.acquire_deadline(soon)),
                        3 => drop(umcg::segment::acquire_any_deadline(&[a, b], soon)),
                        4 => drop([a, b].map(|semaphore| semaphore.release(1))),
                        5 => drop(
                            world
                                .event
                                .wait_deadline(soon)
                                .and_then(|()| Ok(world.event.set()?)),
                        ),
                        6 => drop(world.tube.send_deadline(&[5; 8], soon)),
                        _ => drop(world.tube.recv_deadline(&mut [0; 8], soon)),
                    }
                }
            });
        }
    });
}

/// For seconds processes come, and are killed at any point of their work. No process is left
/// hanging: each object works, or reports that it is dead.
#[test]
fn killed_at_random() {
    const TEST: &str = "deaths::killed_at_random";
    if let Some((segment, _)) = role_in(TEST) {
        return live(&segment);
    }
    let mut random = Random::new(std::process::id().into());
    for _ in 0..4 {
        let segment = Segment::options()
            .processes(12)
            .waiters(64)
            .create()
            .unwrap();
        let world = World::of(&segment);
        let mut others: Vec<_> = (0..3).map(|_| start(TEST, &segment, "")).collect();
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(20 + random.below(50)));
            others
                .swap_remove(random.below(others.len() as u64) as usize)
                .kill();
            others.push(start(TEST, &segment, ""));
        }
        others.into_iter().for_each(Process::kill);
        for way in WAYS {
            works_or_says_why_not(&world, way);
        }
    }
}

/// With no other process alive: a wakeup that is given is had.
fn works_or_says_why_not(world: &World, way: &str) {
    let [a, b] = &world.semaphores;
    let ended = Instant::now() + LONG;
    let fault = match way {
        "acquire" => a
            .release(1)
            .map_err(drop)
            .and_then(|()| a.acquire_deadline(ended).map_err(drop))
            .err()
            .and(a.fault()),
        "any" => b
            .release(1)
            .map_err(drop)
            .and_then(|()| {
                umcg::segment::acquire_any_deadline(&[a, b], ended)
                    .map(drop)
                    .map_err(drop)
            })
            .err()
            .and(a.fault().or(b.fault())),
        "event" => world
            .event
            .set()
            .map_err(drop)
            .and_then(|()| world.event.wait_deadline(ended).map_err(drop))
            .err()
            .and(world.event.fault()),
        _ => {
            // A wakeup that was promised to a dead process is had as soon as that is buried.
            let message =
                || world.tube.is_empty() || world.tube.recv_deadline(&mut [0; 8], ended).is_ok();
            let drained = (0..3).all(|_| message())
                && (world.tube.is_empty() || world.tube.fault().is_some());
            let filled = (0..2).all(|_| world.tube.send_deadline(&[0; 8], ended).is_ok());
            let full = world.tube.try_send(&[0; 8]).is_err();
            (!drained || !filled || !full).then(|| world.tube.fault().expect("it works"))
        }
    };
    assert!(
        matches!(fault, None | Some(Fault::Dead)),
        "{way}: {fault:?}"
    );
    if fault.is_none() && Instant::now() > ended {
        panic!("{way}: took too long");
    }
}

/// Wakeups that are given while processes that wait for them are killed: each is taken by a process
/// that lives, was taken by one that was killed afterwards, or is still there.
#[test]
fn sums_over_deaths() {
    const TEST: &str = "deaths::sums_over_deaths";
    if let Some((segment, role)) = role_in(TEST) {
        let there = segment.semaphore("there", 0).unwrap();
        let had = segment.semaphore(&format!("had {role}"), 0).unwrap();
        while there.acquire().is_ok() {
            had.release(1).unwrap();
        }
        return;
    }
    let mut random = Random::new(u64::from(std::process::id()) * 77);
    let segment = Segment::create().unwrap();
    let there = segment.semaphore("there", 0).unwrap();
    let (mut given, mut kills, mut names) = (0, 0, 0);
    let mut others = Vec::new();
    while kills < 30 {
        while others.len() < 4 {
            others.push(start(TEST, &segment, &names.to_string()));
            names += 1;
        }
        eventually("some wait", || {
            there.fault().is_some() || there.waiters().is_ok_and(|waiters| waiters >= 2)
        });
        for _ in 0..1 + random.below(3) {
            given += u32::from(there.release(1).is_ok());
        }
        others.swap_remove(random.below(4) as usize).kill();
        kills += 1;
    }
    if there.fault().is_some() {
        return crate::support::say("the semaphore died");
    }
    // The processes that live have everything in the end, with the gifts to the dead ones.
    eventually("all is had", || there.available() == 0);
    std::thread::sleep(Duration::from_millis(1500));
    others.into_iter().for_each(Process::kill);
    let had: u32 = (0..names)
        .map(|name| {
            segment
                .semaphore(&format!("had {name}"), 0)
                .unwrap()
                .available()
        })
        .sum();
    assert!(
        had <= given && given - had <= kills,
        "{given} given, {had} had, {kills} killed"
    );
    crate::support::say(&format!("{given} given, {had} had, {kills} killed"));
}

/// A wait with a worker in a process whose only other party dies with everything.
#[test]
fn the_last_one() {
    const TEST: &str = "deaths::the_last_one";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    with("the last one", 1, Runtime::builder(), |runtime| {
        for kind in KINDS {
            let segment = Segment::create().unwrap();
            let semaphore = segment.semaphore("s", 0).unwrap();
            let waiter = kind.spawn_on(runtime, move || {
                semaphore.acquire_timeout(Duration::from_millis(300))
            });
            let busy = kind.spawn_on(runtime, || 7);
            assert_eq!(busy.join().unwrap(), 7, "the server is free");
            assert_eq!(waiter.join().unwrap(), Err(WaitError::TimedOut));
        }
    });
}
