//! An answer about several things at once is true of one moment, whatever moves between them
//! meanwhile.

use crate::support::{eventually, flag};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};
use umcg::nt;
use umcg::segment::{self, Segment};
use umcg::select::{Select, Set};
use umcg::sync::{Event, Object, Semaphore, try_acquire_any, try_wait_any, wait_any};
use umcg::tube::tube;

/// For how long each is tried; less if a fault is found.
const FOR: Duration = Duration::from_millis(700);

/// While one thing moves between two by `step`, of which at every moment one has it, `looks` finds
/// it.
#[track_caller]
fn found_at_every_moment(what: &str, step: impl Fn(usize) + Sync, mut looks: impl FnMut() -> bool) {
    let over = flag();
    let missed = thread::scope(|scope| {
        scope.spawn(|| {
            (0..)
                .take_while(|_| !over.load(Relaxed))
                .for_each(|turn| step(turn % 2))
        });
        let start = Instant::now();
        let mut missed = 0;
        while start.elapsed() < FOR && missed == 0 {
            missed += usize::from(!looks());
        }
        over.store(true, Relaxed);
        missed
    });
    assert_eq!(missed, 0, "{what}: one was there at every moment");
}

#[test]
fn one_of_two_events_is_set_at_every_moment() {
    let events = [Event::manual(true), Event::manual(false)];
    let step = |from: usize| {
        events[1 - from].set();
        events[from].reset();
    };
    found_at_every_moment("Select", step, || {
        Select::new()
            .try_wait(&mut [events[0].waiting(), events[1].waiting()])
            .is_some()
    });
    found_at_every_moment("Select, biased", step, || {
        Select::new()
            .biased()
            .try_wait(&mut [events[1].waiting(), events[0].waiting()])
            .is_some()
    });
    found_at_every_moment("select!", step, || {
        umcg::select! {
            () = events[0].waiting() => true,
            () = events[1].waiting() => true,
            default => false,
        }
    });
    let mut set = Set::new([events[0].waiting(), events[1].waiting()]);
    found_at_every_moment("Set", step, || set.try_wait().is_some());
    found_at_every_moment("try_wait_any", step, || {
        try_wait_any(&[&events[0], &events[1]]).is_ok()
    });
    found_at_every_moment("Select, when the deadline has passed", step, || {
        Select::new()
            .wait_deadline(
                &mut [events[0].waiting(), events[1].waiting()],
                Instant::now(),
            )
            .is_some()
    });
}

#[test]
fn one_of_two_events_of_nt_is_set_at_every_moment() {
    let events = [nt::Event::manual(true), nt::Event::manual(false)];
    let both = [events[0].as_handle(), events[1].as_handle()];
    let step = |from: usize| {
        events[1 - from].set();
        events[from].reset();
    };
    found_at_every_moment("try_wait", step, || nt::Wait::any(&both).try_wait().is_ok());
    found_at_every_moment("a deadline that has passed", step, || {
        nt::Wait::any(&both).wait_deadline(Instant::now()).is_ok()
    });
}

/// Two objects of a segment are looked at together only by a waiter that stands in their queues.
#[test]
fn one_of_two_semaphores_of_a_segment_has_a_wakeup_at_every_moment() {
    let segment = Segment::create().unwrap();
    let semaphores = [
        segment.semaphore("a", 1).unwrap(),
        segment.semaphore("b", 0).unwrap(),
    ];
    let from = AtomicUsize::new(0);
    let step = |_| {
        let from = from.fetch_xor(1, Relaxed);
        semaphores[1 - from].release(1).unwrap();
        semaphores[from].acquire().unwrap();
    };
    found_at_every_moment("a deadline that has passed", step, || {
        let found =
            segment::acquire_any_deadline(&[&semaphores[0], &semaphores[1]], Instant::now());
        found
            .map(|index| semaphores[index].release(1).unwrap())
            .is_ok()
    });
}

/// A wakeup is given to the one before it is taken from the other. A caller that finds it puts it
/// back.
#[test]
fn one_of_two_semaphores_has_a_wakeup_at_every_moment() {
    for one in [Semaphore::new, Semaphore::barging] as [fn(u32) -> Semaphore; 2] {
        let semaphores = [one(1), Semaphore::new(0)];
        let step = |from: usize| {
            semaphores[1 - from].release(1).unwrap();
            semaphores[from].acquire().unwrap();
        };
        let put_back = |index: Option<usize>| {
            index
                .map(|index| semaphores[index].release(1).unwrap())
                .is_some()
        };
        let from = AtomicUsize::new(0);
        let step = |_| step(from.fetch_xor(1, Relaxed));
        found_at_every_moment("try_acquire_any", step, || {
            put_back(try_acquire_any(&[&semaphores[0], &semaphores[1]]).ok())
        });
        found_at_every_moment("Select", step, || {
            put_back(
                Select::new().try_wait(&mut [semaphores[0].acquiring(), semaphores[1].acquiring()]),
            )
        });
    }
}

/// A message is sent to the one tube before it is received from the other.
#[test]
fn one_of_two_tubes_has_a_message_at_every_moment() {
    for capacity in [1, 2] {
        let tubes = [tube::<u8>(capacity), tube::<u8>(capacity)];
        tubes[0].0.send(1).unwrap();
        let from = AtomicUsize::new(0);
        let step = |_| {
            let from = from.fetch_xor(1, Relaxed);
            tubes[1 - from].0.send(1).unwrap();
            tubes[from].1.recv().unwrap();
        };
        found_at_every_moment("select!", step, || {
            umcg::select! {
                message = tubes[0].1.receiving() => {
                    tubes[0].0.send(message.unwrap()).unwrap();
                    true
                }
                message = tubes[1].1.receiving() => {
                    tubes[1].0.send(message.unwrap()).unwrap();
                    true
                }
                default => false,
            }
        });
    }
}

/// The lowest is set before the last, and no other caller takes it: so it is found first.
#[test]
fn the_lowest_of_those_that_are_there() {
    const MANY: usize = 2048;
    let events: Vec<Event> = (0..MANY).map(|_| Event::auto(false)).collect();
    let objects: Vec<&dyn Object> = events.iter().map(|event| event as _).collect();
    let (turn, over) = (AtomicUsize::new(0), flag());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut seen = 0;
            while !over.load(Relaxed) {
                if turn.load(Acquire) == seen {
                    thread::yield_now();
                    continue;
                }
                seen += 1;
                (0..(seen * 37) % 4000).for_each(|_| std::hint::spin_loop());
                events[0].set();
                events[MANY - 1].set();
                while events[0].is_set() && !over.load(Relaxed) {
                    thread::yield_now();
                }
            }
        });
        let start = Instant::now();
        let mut wrong = 0;
        while start.elapsed() < 3 * FOR && wrong == 0 {
            turn.fetch_add(1, Release);
            let first = wait_any(&objects).unwrap();
            wrong += usize::from(first != 0);
            events[if first == 0 { MANY - 1 } else { 0 }].wait();
        }
        over.store(true, Relaxed);
        assert_eq!(
            wrong, 0,
            "the last was taken, though the first was there before it"
        );
    });
}

/// A caller that looks at two tubes without room stands in their queues for a moment. A send to it
/// in that moment succeeds.
#[test]
fn who_only_looks_may_be_served() {
    let tubes = [tube::<usize>(0), tube::<usize>(0)];
    let over = flag();
    let (sent, received) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Relaxed) {
                for (sender, _) in &tubes {
                    sent += usize::from(sender.try_send(1).is_ok());
                }
            }
            sent
        });
        let start = Instant::now();
        let mut received = 0;
        while start.elapsed() < FOR {
            umcg::select! {
                message = tubes[0].1.receiving() => received += message.unwrap(),
                message = tubes[1].1.receiving() => received += message.unwrap(),
                default => {}
            }
        }
        over.store(true, Relaxed);
        (sender.join().unwrap(), received)
    });
    assert_eq!(sent, received);
    eventually("nobody stands there", || {
        tubes.iter().all(|(sender, _)| sender.try_send(1).is_err())
    });
}
