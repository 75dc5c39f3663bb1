//! Mutexes.

use crate::parties::{Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, eventually, flag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use umcg::Elapsed;
use umcg::select::Select;
use umcg::sync::{
    ArcMutexGuard, MappedMutexGuard, Mutex, MutexGuard, RawMutex, Semaphore, locking,
};

const SHORT: Duration = Duration::from_millis(2);

fn both<T>(make: impl Fn() -> T) -> [Arc<Mutex<T>>; 2] {
    [
        Arc::new(Mutex::new(make())),
        Arc::new(Mutex::from_raw(RawMutex::fair(), make())),
    ]
}

/// To see the waiters.
pub(crate) fn raw<T>(mutex: &Mutex<T>) -> &RawMutex {
    // SAFETY: to unlock it is unsafe again, and no user of it here does.
    unsafe { mutex.raw() }
}

/// A value in two halves, which are the same unless two are in there at once.
#[derive(Default)]
struct Halves(u64, u64);

impl Halves {
    fn add(&mut self, inside: impl FnOnce()) {
        assert_eq!(self.0, self.1);
        self.0 += 1;
        inside();
        self.1 += 1;
    }

    #[track_caller]
    fn expect(&self, count: u64) {
        assert_eq!((self.0, self.1), (count, count));
    }
}

#[test]
fn one_at_a_time() {
    everywhere("mutex", |place| {
        for mutex in both(Halves::default) {
            let parties = place.crowd(3, |n| {
                let mutex = mutex.clone();
                move || {
                    for turn in 0..200 {
                        match (turn + n) % 40 {
                            0 => mutex.lock().add(umcg::yield_now),
                            1 => mutex.lock().add(|| umcg::sleep(Duration::from_micros(20))),
                            2 => {
                                while mutex
                                    .try_lock()
                                    .map(|mut halves| halves.add(|| {}))
                                    .is_none()
                                {
                                    umcg::yield_now();
                                }
                            }
                            3 => mutex.try_lock_for(HOUR).unwrap().add(|| {}),
                            _ => mutex.lock().add(|| {}),
                        }
                    }
                }
            });
            join_all(parties);
            mutex.lock().expect(9 * 200);
            assert!(!mutex.is_locked());
        }
    });
}

/// The longest waiter is next: of a fair one always, of a barging one if no other caller comes in
/// between.
#[test]
fn in_order() {
    everywhere("order", |place| {
        for mutex in both(Vec::new) {
            let guard = mutex.lock();
            let mut parties = Vec::new();
            for n in 0..6 {
                let inside = mutex.clone();
                parties.push(place.start(
                    [Sort::Worker, Sort::Thread, Sort::Blocking][n % 3],
                    move || inside.lock().push(n),
                ));
                until_waiting(raw(&mutex), n + 1);
            }
            drop(guard);
            join_all(parties);
            assert_eq!(*mutex.lock(), [0, 1, 2, 3, 4, 5]);
        }
    });
}

/// A fair one cannot be locked by a later caller; a barging one can.
#[test]
fn overtaking() {
    everywhere("overtaking", |place| {
        for (mutex, is_fair) in both(|| ()).into_iter().zip([false, true]) {
            let (asked, answer) = (flag(), flag());
            let guard = mutex.lock();
            let (inside, has_asked, go_on) = (mutex.clone(), asked.clone(), answer.clone());
            let waiter = place.start(Sort::Thread, move || {
                let guard = inside.lock();
                has_asked.store(true, Release);
                while !go_on.load(Acquire) {
                    std::thread::yield_now();
                }
                drop(guard);
            });
            until_waiting(raw(&mutex), 1);
            if is_fair {
                drop(guard);
                assert!(
                    mutex.try_lock().is_none(),
                    "it was handed on before it could be taken"
                );
            } else {
                // By hand-over on request.
                MutexGuard::unlock_fair(guard);
                assert!(mutex.try_lock().is_none(), "it was handed on");
            }
            eventually("it goes on", || asked.load(Acquire));
            answer.store(true, Release);
            waiter.join();
        }
    });
}

/// A thread that takes it again and again does not keep it from others for ever.
#[test]
fn nobody_starves() {
    everywhere("starving", |place| {
        for mutex in both(|| 0u64) {
            let over = flag();
            let (hog, seen) = (mutex.clone(), over.clone());
            let hog = place.start(Sort::Thread, move || {
                let mut turns = 0u64;
                while !seen.load(Relaxed) {
                    *hog.lock() += 1;
                    turns += 1;
                }
                turns
            });
            let patient = place.crowd(1, |_| {
                let mutex = mutex.clone();
                move || {
                    for _ in 0..50 {
                        *mutex.lock() += 1;
                    }
                }
            });
            join_all(patient);
            over.store(true, Relaxed);
            let turns = hog.join();
            assert_eq!(*mutex.lock(), turns + 150);
        }
    });
}

#[test]
fn deadlines() {
    everywhere("deadlines", |place| {
        for mutex in both(|| ()) {
            let guard = mutex.lock();
            let parties = place.crowd(1, |_| {
                let mutex = mutex.clone();
                move || {
                    let start = Instant::now();
                    assert!(mutex.try_lock_for(SHORT).is_none());
                    assert!(start.elapsed() >= SHORT);
                    assert!(mutex.try_lock_until(start).is_none());
                    assert!(mutex.try_lock_for(Duration::ZERO).is_none());
                }
            });
            join_all(parties);
            until_waiting(raw(&mutex), 0);
            drop(guard);
            assert!(mutex.try_lock_for(Duration::ZERO).is_some());
        }
    });
}

/// A waiter that gives up leaves the others as they stood.
#[test]
fn who_gives_up_makes_way() {
    everywhere("giving up", |place| {
        for mutex in both(Vec::new) {
            let guard = mutex.lock();
            let mut parties = Vec::new();
            let mut leaving = Vec::new();
            for n in 0..6 {
                let inside = mutex.clone();
                if n % 2 == 0 {
                    leaving.push(place.worker(move || drop(inside.try_lock_for(HOUR))));
                } else {
                    parties.push(place.start(Sort::Thread, move || inside.lock().push(n)));
                }
                until_waiting(raw(&mutex), n + 1);
            }
            leaving.into_iter().for_each(abort);
            until_waiting(raw(&mutex), 3);
            drop(guard);
            join_all(parties);
            assert_eq!(*mutex.lock(), [1, 3, 5]);
        }
    });
}

/// `lock` waits to the end, and the worker unwinds after it; the timed forms are cut short.
#[test]
fn aborts() {
    everywhere("aborts", |place| {
        for mutex in both(|| 0) {
            let guard = mutex.lock();
            let inside = mutex.clone();
            let to_the_end = place.worker(move || {
                *inside.lock() += 1;
                umcg::park();
                unreachable!("it was aborted");
            });
            until_waiting(raw(&mutex), 1);
            for sort in [Sort::Worker, Sort::Blocking] {
                let inside = mutex.clone();
                let party = place.start(sort, move || inside.try_lock_for(Duration::MAX).is_some());
                let crate::parties::Party::Worker(worker) = party else {
                    unreachable!()
                };
                until_waiting(raw(&mutex), 2);
                abort(worker);
                until_waiting(raw(&mutex), 1);
            }
            to_the_end.abort();
            umcg::sleep(SHORT);
            assert!(!to_the_end.is_finished(), "it waits to the end");
            drop(guard);
            abort(to_the_end);
            assert_eq!(*mutex.lock(), 1);
            let inside = mutex.clone();
            let guard = mutex.lock();
            let late = place
                .worker(move || umcg::timeout(SHORT, || drop(inside.try_lock_for(Duration::MAX))));
            assert_eq!(late.join().unwrap(), Err(Elapsed));
            drop(guard);
        }
    });
}

/// A guard whose mutex is unlocked for a while has it again when it is used, even if its worker is
/// aborted meanwhile.
#[test]
fn an_aborted_guard_is_still_a_guard() {
    everywhere("unlocked", |place| {
        for mutex in both(Halves::default) {
            let (inside, unlocked, go_on) = (mutex.clone(), flag(), flag());
            let (is_unlocked, may_go_on) = (unlocked.clone(), go_on.clone());
            let worker = place.worker(move || {
                let mut guard = inside.lock();
                MutexGuard::unlocked(&mut guard, || {
                    is_unlocked.store(true, Release);
                    while !may_go_on.load(Acquire) {
                        std::thread::yield_now();
                    }
                });
                guard.add(|| {});
                MutexGuard::bump(&mut guard);
                guard.add(umcg::park);
            });
            eventually("it is unlocked", || unlocked.load(Acquire));
            let mut guard = mutex.lock();
            worker.abort();
            guard.add(|| {
                go_on.store(true, Release);
                until_waiting(raw(&mutex), 1);
                umcg::sleep(SHORT);
            });
            drop(guard);
            abort(worker);
            let halves = mutex.lock();
            assert_eq!((halves.0, halves.1), (3, 2));
        }
    });
}

#[test]
fn no_poison() {
    everywhere("poison", |place| {
        for mutex in both(|| 1) {
            let inside = mutex.clone();
            let panics = place.worker(move || {
                let mut value = inside.lock();
                *value += 1;
                panic!("expected");
            });
            assert!(panics.join().is_err());
            assert_eq!(*mutex.lock(), 2);
            let (inside, is_locked) = (mutex.clone(), flag());
            let locked = is_locked.clone();
            let worker = place.worker(move || {
                let _guard = inside.lock();
                locked.store(true, Release);
                umcg::park();
            });
            eventually("it has the mutex", || is_locked.load(Acquire));
            abort(worker);
            assert!(mutex.try_lock().is_some());
        }
    });
}

/// A guard moves with its worker, and can be given away.
#[test]
fn guards_are_sent() {
    everywhere("sent", |place| {
        for mutex in both(|| 0) {
            let guard = mutex.lock_arc();
            let inside = mutex.clone();
            let waiter = place.worker(move || *inside.lock() += 1);
            until_waiting(raw(&mutex), 1);
            let unlocks = place.start(Sort::Thread, move || {
                let mut guard: ArcMutexGuard<i32> = guard;
                *guard += 1;
                umcg::sleep(SHORT);
            });
            unlocks.join();
            waiter.join().unwrap();
            assert_eq!(*mutex.lock(), 2);
        }
    });
}

/// Beside other things: in its turn, and given back if it is not wanted any more.
#[test]
fn selected() {
    everywhere("selected", |place| {
        for mutex in both(|| 0) {
            let guard = mutex.lock();
            let (inside, other) = (mutex.clone(), Arc::new(Mutex::new(())));
            let busy = other.lock();
            let second = other.clone();
            let may_end = Arc::new(Semaphore::new(0));
            let ending = may_end.clone();
            let waiter = place.worker(move || {
                umcg::select! {
                    _ = locking(&second) => unreachable!(),
                    mut guard = locking(&inside) => {
                        *guard += 1;
                        ending.acquire().unwrap();
                    }
                }
            });
            until_waiting(raw(&mutex), 1);
            until_waiting(raw(&other), 1);
            drop(guard);
            // It was handed the mutex.
            assert!(mutex.try_lock().is_none());
            may_end.release(1).unwrap();
            waiter.join().unwrap();
            until_waiting(raw(&other), 0);
            drop(busy);
            let mut operation = locking(&*mutex);
            assert_eq!(Select::new().try_wait(&mut [&mut operation]), Some(0));
            assert!(mutex.is_locked());
            drop(operation);
            assert_eq!(*mutex.lock(), 1);
            let guard = mutex.lock();
            let mut operation = locking(&*mutex);
            assert_eq!(
                Select::new().wait_timeout(&mut [&mut operation], SHORT),
                None
            );
            drop(guard);
        }
    });
}

/// Every operation on it at once, with aborts: no waiter is stranded, and nothing is counted twice.
#[test]
fn a_crowd_with_aborts() {
    everywhere("crowd", |place| {
        for mutex in both(Halves::default) {
            let done = Arc::new(AtomicU64::new(0));
            let stop = flag();
            let body = |n: usize| {
                let (mutex, done, stop) = (mutex.clone(), done.clone(), stop.clone());
                move || crowd_member(&mutex, &done, &stop, n)
            };
            place.crowd_with_aborts(&stop, body);
            mutex.lock().expect(done.load(Relaxed));
        }
    });
}

fn crowd_member(mutex: &Mutex<Halves>, done: &AtomicU64, stop: &AtomicBool, n: usize) {
    let mut turn = n;
    while !stop.load(Relaxed) {
        turn += 1;
        let guard = match turn % 4 {
            0 => mutex.try_lock(),
            1 => mutex.try_lock_for(Duration::from_micros(50)),
            2 => mutex.try_lock_for(Duration::MAX),
            _ => Some(mutex.lock()),
        };
        if let Some(mut halves) = guard {
            // Counted in there: an abort comes before or after.
            halves.add(|| {
                done.fetch_add(1, Relaxed);
            });
        }
        if turn % 16 == 0 {
            umcg::yield_now();
        }
    }
}

#[test]
fn shapes() {
    static IN_A_STATIC: Mutex<u8> = Mutex::new(7);
    static FAIR: Mutex<u8> = Mutex::from_raw(RawMutex::fair(), 8);
    assert_eq!(*IN_A_STATIC.lock() + *FAIR.lock(), 15);
    let mut mutex = Mutex::new((1, 2));
    mutex.get_mut().0 = 3;
    let mapped: MappedMutexGuard<'_, i32> = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    assert!(mutex.try_lock().is_none());
    assert_eq!(*mapped, 2);
    drop(mapped);
    assert_eq!(mutex.into_inner(), (3, 2));
    assert_eq!(*Mutex::<u8>::default().lock(), 0);
    let slice: &Mutex<[u8]> = &Mutex::new([1, 2, 3]);
    assert_eq!(slice.lock().len(), 3);
}
