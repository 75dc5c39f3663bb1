//! Sets that are waited for again and again.

use crate::support::{HOUR, child_succeeds, eventually, flag, is_child, over};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use umcg::JoinError;
use umcg::io::readable;
use umcg::select::{Operation, Set, Waitable, Waiters, after, taking};
use umcg::sync::{Acquiring, Event, Mutex, Semaphore, locking};
use umcg::tube::tube;

fn semaphores(count: usize) -> Arc<Vec<Semaphore>> {
    Arc::new((0..count).map(|_| Semaphore::new(0)).collect())
}

fn set(semaphores: &[Semaphore]) -> Set<Acquiring<'_>> {
    semaphores.iter().map(Semaphore::acquiring).collect()
}

fn wait(set: &mut Set<Acquiring<'_>>) -> usize {
    let index = set.wait();
    set.outcome(index).unwrap();
    index
}

/// Wakeups given while the set is waited for, wakeups given while it is not, and both at once.
#[test]
fn nothing_is_lost_in_a_crowd() {
    const EACH: u64 = 500;
    over("sets in a crowd", |runtime, kind| {
        for count in [1, 3, 40] {
            let (semaphores, taken) = (semaphores(count), Arc::new(AtomicU64::new(0)));
            let body = |n: usize| {
                let (semaphores, taken) = (semaphores.clone(), taken.clone());
                move || {
                    let mut set = set(&semaphores);
                    for turn in 0..EACH {
                        let index = wait(&mut set);
                        taken.fetch_add(1, Relaxed);
                        if turn % 7 == 0 {
                            umcg::yield_now();
                        }
                        semaphores[(index + n + turn as usize % 3) % count]
                            .release(1)
                            .unwrap();
                    }
                }
            };
            let workers: Vec<_> = (0..3).map(|n| kind.spawn_on(runtime, body(n))).collect();
            let threads: Vec<_> = (0..2).map(|n| std::thread::spawn(body(n))).collect();
            semaphores[0].release(2).unwrap();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert_eq!(taken.load(Relaxed), 5 * EACH);
            assert_eq!(semaphores.iter().map(Semaphore::available).sum::<u32>(), 2);
        }
    });
}

/// A waiter for one of them alone is not kept waiting by a set that is idle.
#[test]
fn an_idle_set_is_in_nobodys_way() {
    over("an idle set", |runtime, kind| {
        let semaphores = semaphores(2);
        let inside = semaphores.clone();
        kind.run(runtime, move || {
            let mut set = set(&inside);
            assert_eq!(set.wait_timeout(Duration::from_millis(1)), None);
            let other = inside.clone();
            let waiter = kind.spawn(move || other[1].acquire().unwrap());
            for _ in 0..10 {
                umcg::yield_now();
            }
            inside[1].release(1).unwrap();
            waiter.join().unwrap();
            inside[1].release(2).unwrap();
            inside[1].try_acquire().unwrap();
            assert_eq!((wait(&mut set), set.try_wait()), (1, None));
        });
    });
}

/// Aborted in a wait, it has taken nothing, and is in no queue; with a deadline it can be waited
/// for again.
#[test]
fn late_and_aborted() {
    over("late sets", |runtime, kind| {
        let semaphores = semaphores(3);
        for turn in 0..50 {
            let inside = semaphores.clone();
            let waiter = kind.spawn_on(runtime, move || {
                let mut set = set(&inside);
                assert_eq!(set.wait_timeout(Duration::from_micros(turn)), None);
                assert_eq!(set.wait_timeout(Duration::from_micros(turn)), None);
                inside[0].release(1).unwrap();
                let first = wait(&mut set);
                (first, wait(&mut set))
            });
            std::thread::yield_now();
            waiter.abort();
            match waiter.join() {
                Ok(taken) => panic!("{taken:?}"),
                Err(JoinError::Cancelled) => {}
                Err(error) => panic!("{error}"),
            }
            let left = semaphores.iter().map(Semaphore::available).sum::<u32>();
            assert!(left <= 1);
            semaphores.iter().for_each(|semaphore| {
                semaphore.release(1).unwrap();
                while semaphore.try_acquire().is_ok() {}
            });
        }
    });
}

/// Messages by many tubes, each once and in order.
#[test]
fn messages_in_order() {
    const EACH: usize = 400;
    over("sets of tubes", |runtime, kind| {
        for capacity in [0, 1, 8] {
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..4).map(|_| tube::<usize>(capacity)).unzip();
            let receiver = kind.spawn_on(runtime, move || {
                let mut set: Set<_> = receivers
                    .iter()
                    .map(|receiver| receiver.receiving())
                    .collect();
                let mut next = [0; 4];
                while next.iter().any(|next| *next < EACH) {
                    let index = set.wait();
                    let Ok(message) = set.outcome(index) else {
                        continue;
                    };
                    assert_eq!(message, next[index]);
                    next[index] += 1;
                }
            });
            let senders: Vec<_> = senders
                .into_iter()
                .map(|sender| {
                    kind.spawn_on(runtime, move || {
                        (0..EACH).for_each(|message| sender.send(message).unwrap());
                        sender
                    })
                })
                .collect();
            receiver.join().unwrap();
            senders
                .into_iter()
                .for_each(|sender| drop(sender.join().unwrap()));
        }
    });
}

/// Sends to the receiver, a message after the other.
#[test]
fn the_next_message() {
    over("the next message", |runtime, kind| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| tube::<usize>(0)).unzip();
        let sender = kind.spawn_on(runtime, move || {
            let mut set: Set<_> = senders.iter().map(|sender| sender.sending(0)).collect();
            let mut sent = 0;
            loop {
                let index = set.wait();
                if set.outcome(index).is_err() {
                    return sent;
                }
                sent += 1;
                assert_eq!(set.get_mut(index).replace(sent), None);
            }
        });
        for turn in 0..300 {
            receivers[turn * 7 % 3].recv().unwrap();
        }
        drop(receivers);
        assert_eq!(sender.join().unwrap(), 300);
    });
}

/// Operations that may not stay do not: ends of workers, descriptors, borrowed operations. And
/// times.
#[test]
fn guests_and_times() {
    over("guests", |runtime, kind| {
        kind.run(runtime, move || {
            let mut workers: Vec<_> = (0..4)
                .map(|index| kind.spawn(move || umcg::sleep(Duration::from_micros(index * 100))))
                .collect();
            let mut ends: Set<_> = workers.iter_mut().map(|worker| worker.ending()).collect();
            let first = ends.wait();
            ends.outcome(first);
            assert_eq!(ends.wait_timeout(HOUR), Some(ends.wait()));
            std::mem::forget(ends);
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());

            let semaphore = Semaphore::new(0);
            let mut operation = semaphore.acquiring();
            let mut borrowed = Set::new([&mut operation]);
            assert_eq!(borrowed.wait_timeout(Duration::from_micros(10)), None);
            std::mem::forget(borrowed);
            drop(Box::new(operation));
            semaphore.release(1).unwrap();
            assert_eq!(semaphore.available(), 1);

            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut sockets = Set::new([readable(&near), readable(&far)]);
            for _ in 0..3 {
                assert_eq!(sockets.wait_timeout(Duration::from_micros(10)), None);
                std::io::Write::write_all(&mut &near, &[0]).unwrap();
                assert_eq!(sockets.wait(), 1);
                sockets.outcome(1).unwrap();
                std::io::Read::read_exact(&mut &far, &mut [0]).unwrap();
            }

            let mut times: Set<_> = [HOUR, HOUR].into_iter().map(after).collect();
            assert_eq!(times.try_wait(), None);
            *times.get_mut(1) = after(Duration::from_millis(1));
            assert_eq!((times.wait(), times.wait()), (1, 1));
        });
    });
}

/// Operations of several types, of which one that must not stay comes later in the place of one
/// that may: it is sent away as others are.
#[test]
fn of_several_types() {
    over("boxes", |runtime, kind| {
        kind.run(runtime, move || {
            type Kept<'a> = Box<dyn Operation<Output = ()> + 'a>;
            let event = Event::auto(false);
            let other = Event::auto(true);
            let mut worker = kind.spawn(|| umcg::sleep(Duration::from_micros(300)));
            let gate = Arc::new(Event::auto(false));
            let theirs = gate.clone();
            let mut late = kind.spawn(move || theirs.wait());
            let mut set = Set::new([
                Box::new(event.waiting()) as Kept<'_>,
                Box::new(after(HOUR)),
                Box::new(other.waiting()),
            ]);
            assert_eq!((set.wait(), set.try_wait()), (2, None));
            *set.get_mut(1) = Box::new(worker.ending());
            assert_eq!(set.wait(), 1);
            set.outcome(1);
            event.set();
            *set.get_mut(1) = Box::new(after(HOUR));
            assert_eq!((set.wait(), set.try_wait()), (0, None));
            // It may be forgotten, and the worker joined: its end is in no queue.
            *set.get_mut(1) = Box::new(late.ending());
            assert_eq!(set.wait_timeout(Duration::from_micros(10)), None);
            std::mem::forget(set);
            gate.set();
            late.join().unwrap();
            worker.join().unwrap();
        });
    });
}

#[test]
fn biased_and_fair() {
    let semaphores: Vec<_> = (0..4).map(|_| Semaphore::new(1000)).collect();
    let mut first = set(&semaphores).biased();
    assert!((0..100).all(|_| wait(&mut first) == 0));
    let mut fair = set(&semaphores);
    (0..400).for_each(|_| {
        wait(&mut fair);
    });
    let left: Vec<_> = semaphores.iter().map(Semaphore::available).collect();
    assert!(
        left[1..].iter().all(|left| (850..950).contains(left)),
        "{left:?}"
    );
}

/// Events, of which all that wait are told.
#[test]
fn events() {
    over("sets of events", |runtime, kind| {
        let events: Arc<Vec<Event>> = Arc::new((0..3).map(|_| Event::manual(false)).collect());
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let events = events.clone();
                kind.spawn_on(runtime, move || {
                    let mut set: Set<_> = events.iter().map(Event::waiting).collect();
                    let first = set.wait();
                    assert!(first > 0 && set.try_wait().is_some());
                    events[2].wait();
                    (0..20).filter(|_| set.wait() == 2).count()
                })
            })
            .collect();
        events[1].set();
        events[2].set();
        waiters
            .into_iter()
            .for_each(|waiter| assert!(waiter.join().unwrap() > 2));
    });
}

/// One that is forgotten stays in its queues, in memory that stays too.
#[test]
fn a_forgotten_one() {
    const SELF: &str = "sets::a_forgotten_one";
    if !is_child(SELF) {
        return child_succeeds(SELF);
    }
    let semaphore = Semaphore::new(0);
    let mut forgotten = set(std::slice::from_ref(&semaphore));
    assert_eq!(forgotten.wait_timeout(Duration::from_micros(10)), None);
    std::mem::forget(forgotten);
    semaphore.release(1).unwrap();
    semaphore.try_acquire().unwrap();
}

#[test]
#[should_panic(expected = "nothing to wait for")]
fn an_empty_one() {
    Set::new([] as [umcg::select::Timer; 0]).wait();
}

#[test]
#[should_panic(expected = "no operation 1")]
fn one_too_far() {
    Set::new([after(HOUR)]).get_mut(1);
}

/// An operation that was done, and not asked for, is the result of the next wait.
#[test]
fn what_was_not_asked_for_comes_next() {
    let (sender, receiver) = tube(2);
    (1..=2).for_each(|number| sender.send(number).unwrap());
    let mut set = Set::new([receiver.receiving()]);
    assert_eq!((set.wait(), set.wait(), set.try_wait()), (0, 0, Some(0)));
    assert_eq!(set.outcome(0), Ok(1));
    drop(set);
    assert_eq!(receiver.try_recv(), Ok(2));

    let mailbox = Mailbox {
        letters: vec![2, 1].into(),
        readers: Waiters::new(),
    };
    let mut set = Set::new([taking(&mailbox)]);
    assert_eq!((set.wait(), set.wait(), set.try_wait()), (0, 0, Some(0)));
    assert_eq!(set.outcome(0), 1);
    assert_eq!(mailbox.letters.lock().unwrap().len(), 1);

    let mutex = Mutex::new(3);
    let mut set = Set::new([locking(&mutex)]);
    assert_eq!((set.wait(), set.wait(), set.try_wait()), (0, 0, Some(0)));
    assert_eq!(*set.outcome(0), 3);
    assert!(mutex.try_lock().is_some());
}

struct Mailbox {
    letters: std::sync::Mutex<Vec<u8>>,
    readers: Waiters,
}

impl Waitable for Mailbox {
    type Output = u8;

    fn try_take(&self) -> Option<u8> {
        self.letters.lock().unwrap().pop()
    }

    fn waiters(&self) -> &Waiters {
        &self.readers
    }
}

/// A message that was sent cannot be sent once more. A worker that tries it panics, and is the same
/// worker after that: an abort finds it where it waits next.
#[test]
fn a_wait_that_panics_leaves_nothing_behind() {
    over("a wait that panics", |runtime, kind| {
        let asleep = flag();
        let told = asleep.clone();
        let worker = kind.spawn_on(runtime, move || {
            let (sender, receiver) = tube(2);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let mut set = Set::new([sender.sending(1)]);
                set.wait();
                set.wait()
            }));
            assert!(panicked.is_err());
            assert_eq!(receiver.try_recv(), Ok(1));
            told.store(true, SeqCst);
            umcg::sleep(HOUR);
        });
        eventually("it sleeps", || asleep.load(SeqCst));
        worker.abort();
        assert!(matches!(worker.join(), Err(JoinError::Cancelled)));
    });
}

/// A forgotten set stays where it stood, and is in no other waiter's way when the object goes.
#[test]
fn objects_outlive_forgotten_sets() {
    let semaphore = Semaphore::new(0);
    let event = Event::auto(false);
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    let mut set = Set::new([semaphore.acquiring()]);
    assert_eq!(
        (set.try_wait(), set.wait_timeout(Duration::from_millis(1))),
        (None, None)
    );
    forget(set);
    let mut set = Set::new([event.waiting()]);
    assert_eq!(set.wait_timeout(Duration::from_millis(1)), None);
    forget(set);
    let mut set = Set::new([locking(&mutex)]);
    assert_eq!(set.wait_timeout(Duration::from_millis(1)), None);
    forget(set);
    let (sender, receiver) = tube::<u8>(0);
    let mut set = Set::new([receiver.receiving()]);
    assert_eq!(set.wait_timeout(Duration::from_millis(1)), None);
    forget(set);
    // Some are dropped unused, others are used before.
    drop((semaphore, event));
    drop(guard);
    drop(mutex.lock());
    assert!(sender.try_send(1).is_err());
}
