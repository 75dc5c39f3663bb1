//! Locks that many may read, or one write.

use crate::parties::{Party, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, counter, eventually, flag};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::sync::{
    ArcRwLockReadGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, RawRwLock, RwLock,
    RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};

const SHORT: Duration = Duration::from_millis(2);

/// To see the waiters.
fn raw<T>(lock: &RwLock<T>) -> &RawRwLock {
    // SAFETY: to unlock it is unsafe again, and no user of it here does.
    unsafe { lock.raw() }
}

fn lock<T>(value: T) -> Arc<RwLock<T>> {
    Arc::new(RwLock::new(value))
}

/// A value in two halves, which are the same unless a writer is just writing it.
fn write(halves: &mut (u64, u64), pauses: bool) -> u64 {
    assert_eq!(halves.0, halves.1);
    halves.0 += 1;
    if pauses {
        umcg::yield_now();
    }
    halves.1 += 1;
    1
}

fn read(halves: &(u64, u64)) -> u64 {
    assert_eq!(halves.0, halves.1);
    0
}

/// Some way to read or write; how often it has written.
fn one_way(halves: &RwLock<(u64, u64)>, turn: usize) -> u64 {
    match turn % 10 {
        0 => write(&mut halves.write(), turn % 20 == 0),
        1 => {
            let upgradable = halves.upgradable_read();
            read(&upgradable);
            write(&mut RwLockUpgradableReadGuard::upgrade(upgradable), false)
        }
        2 => {
            let mut guard = halves.write();
            write(&mut guard, false) + read(&RwLockWriteGuard::downgrade(guard))
        }
        3 => match RwLockUpgradableReadGuard::try_upgrade(halves.upgradable_read()) {
            Ok(mut guard) => {
                write(&mut guard, true) + read(&RwLockWriteGuard::downgrade_to_upgradable(guard))
            }
            Err(upgradable) => read(&upgradable),
        },
        4 => halves
            .try_write_for(Duration::from_micros(50))
            .map_or(0, |mut guard| write(&mut guard, false)),
        5 => read(&RwLockUpgradableReadGuard::downgrade(
            halves.upgradable_read(),
        )),
        6 => {
            let outer = halves.read();
            read(&halves.read_recursive()) + read(&outer)
        }
        _ => read(&halves.read()),
    }
}

/// A writer is alone, in every way to become one; readers see its changes.
#[test]
fn a_writer_is_alone() {
    everywhere("writers", |place| {
        let halves = lock((0u64, 0u64));
        let parties = place.crowd(3, |n| {
            let halves = halves.clone();
            move || (0..200).map(|turn| one_way(&halves, turn + n)).sum::<u64>()
        });
        let written: u64 = join_all(parties).into_iter().sum();
        assert_eq!(*halves.read(), (written, written));
        assert!(!halves.is_locked());
    });
}

/// Readers are in there together: each waits for the others.
#[test]
fn readers_are_not_alone() {
    everywhere("readers", |place| {
        let (shared, inside) = (lock(()), counter());
        let parties = place.crowd(2, |_| {
            let (shared, inside) = (shared.clone(), inside.clone());
            move || {
                let _guard = shared.read();
                inside.fetch_add(1, AcqRel);
                eventually("all are in there", || inside.load(Acquire) == 6);
            }
        });
        join_all(parties);
    });
}

/// A writer that waits holds off those that come after it.
#[test]
fn a_waiting_writer_is_not_overtaken() {
    everywhere("overtaking", |place| {
        let value = lock(0);
        let reader = value.read();
        let inside = value.clone();
        let writer = place.start(Sort::Thread, move || *inside.write() = 1);
        until_waiting(raw(&value), 1);
        assert!(value.try_read().is_none());
        assert!(value.try_read_for(SHORT).is_none());
        assert!(value.try_upgradable_read().is_none());
        assert_eq!(*value.try_read_recursive().unwrap(), 0);
        assert_eq!(*value.read_recursive(), 0);
        drop(reader);
        writer.join();
        assert_eq!(*value.read(), 1);
    });
}

/// In the order in which they came, neighbouring readers together.
#[test]
fn in_order() {
    everywhere("order", |place| {
        let (value, log) = (lock(()), Arc::new(Mutex::new(Vec::new())));
        let guard = value.write();
        let mut parties = Vec::new();
        for (n, what) in "RRWRWWRR".chars().enumerate() {
            let (value, log) = (value.clone(), log.clone());
            let object = value.clone();
            parties.push(place.start(
                [Sort::Worker, Sort::Thread, Sort::Blocking][n % 3],
                move || {
                    if what == 'W' {
                        let _guard = value.write();
                        log.lock().push(what);
                    } else {
                        let _guard = value.read();
                        log.lock().push(what);
                    }
                },
            ));
            until_waiting(raw(&object), n + 1);
        }
        drop(guard);
        join_all(parties);
        assert_eq!(log.lock().iter().collect::<String>(), "RRWRWWRR");
    });
}

/// The first readers of a queue get the lock together, not one by one.
#[test]
fn readers_go_in_batches() {
    everywhere("batches", |place| {
        let (value, inside) = (lock(()), counter());
        let guard = value.write();
        let parties: Vec<_> = (0..3)
            .map(|n| {
                let (value, inside) = (value.clone(), inside.clone());
                let object = value.clone();
                let party =
                    place.start([Sort::Worker, Sort::Thread, Sort::Blocking][n], move || {
                        let _guard = value.read();
                        inside.fetch_add(1, AcqRel);
                        eventually("the batch is in there", || inside.load(Acquire) == 3);
                    });
                until_waiting(raw(&object), n + 1);
                party
            })
            .collect();
        drop(guard);
        join_all(parties);
    });
}

#[test]
fn upgrades() {
    everywhere("upgrades", |place| {
        let value = lock(0);
        let upgradable = value.upgradable_read();
        let reader = value.read();
        assert!(value.try_upgradable_read().is_none());
        assert!(value.try_write().is_none());
        let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap_err();
        let upgradable = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, SHORT).unwrap_err();
        // A writer waits, and a reader that upgrades comes before it.
        let inside = value.clone();
        let writer = place.start(Sort::Thread, move || {
            let mut value = inside.write();
            assert_eq!(std::mem::replace(&mut *value, 2), 1);
        });
        until_waiting(raw(&value), 1);
        let inside = value.clone();
        let drops = place.worker(move || {
            until_waiting(raw(&inside), 2);
            // SAFETY: in place of the main flow's read guard, which that forgets.
            unsafe { inside.force_unlock_read() };
        });
        std::mem::forget(reader);
        let mut guard = RwLockUpgradableReadGuard::upgrade(upgradable);
        assert_eq!(std::mem::replace(&mut *guard, 1), 0);
        drops.join().unwrap();
        drop(guard);
        writer.join();
        assert_eq!(*value.read(), 2);
        // Down, step by step.
        let guard = RwLockWriteGuard::downgrade_to_upgradable(value.write());
        assert!(value.try_read().is_some() && value.try_upgradable_read().is_none());
        let guard = RwLockUpgradableReadGuard::downgrade(guard);
        assert!(value.try_upgradable_read().is_some() && value.try_write().is_none());
        drop(guard);
        assert!(value.try_write().is_some());
    });
}

/// One that waits for the upgradable lock gets it also while others read.
#[test]
fn an_upgradable_one_waits_for_the_other_only() {
    everywhere("upgradable", |place| {
        let value = lock(());
        let (reader, upgradable) = (value.read(), value.upgradable_read());
        let inside = value.clone();
        let waiter = place.start(Sort::Thread, move || drop(inside.upgradable_read()));
        until_waiting(raw(&value), 1);
        drop(upgradable);
        waiter.join();
        drop(reader);
    });
}

/// A waiter that gives up lets in those that it kept out.
#[test]
fn who_gives_up_makes_way() {
    everywhere("giving up", |place| {
        let value = lock(());
        let reader = value.read();
        let inside = value.clone();
        let writer = place.worker(move || drop(inside.try_write_for(HOUR)));
        until_waiting(raw(&value), 1);
        let inside = value.clone();
        let behind = place.start(Sort::Thread, move || drop(inside.read()));
        until_waiting(raw(&value), 2);
        abort(writer);
        behind.join();
        for _ in 0..5 {
            // It may come while the writer waits, or after.
            let inside = value.clone();
            let behind = place.start(Sort::Thread, move || drop(inside.read()));
            let start = Instant::now();
            assert!(value.try_write_for(SHORT).is_none());
            assert!(start.elapsed() >= SHORT);
            behind.join();
        }
        drop(reader);
        // One that upgrades stays upgradable.
        let (reader, upgradable) = (value.read(), value.upgradable_read());
        let upgradable =
            RwLockUpgradableReadGuard::try_upgrade_until(upgradable, Instant::now()).unwrap_err();
        assert!(value.try_read().is_some() && value.try_upgradable_read().is_none());
        drop((reader, upgradable));
        assert!(!value.is_locked());
    });
}

/// `read`, `write` and so on wait to the end, and the worker unwinds after it.
#[test]
fn aborts() {
    everywhere("aborts", |place| {
        let value = lock(0);
        let guard = value.write();
        let mut workers = Vec::new();
        for n in 0..3 {
            let inside = value.clone();
            workers.push(place.worker(move || {
                match n {
                    0 => *inside.write() += 1,
                    1 => drop(inside.read()),
                    _ => *RwLockUpgradableReadGuard::upgrade(inside.upgradable_read()) += 1,
                }
                umcg::park();
                unreachable!("it was aborted");
            }));
            until_waiting(raw(&value), n + 1);
        }
        for (n, sort) in [Sort::Worker, Sort::Blocking].into_iter().enumerate() {
            let inside = value.clone();
            let party = place.start(sort, move || match n {
                0 => drop(inside.try_read_for(Duration::MAX)),
                _ => drop(inside.try_upgradable_read_for(Duration::MAX)),
            });
            let Party::Worker(worker) = party else {
                unreachable!()
            };
            until_waiting(raw(&value), 4);
            abort(worker);
            until_waiting(raw(&value), 3);
        }
        workers.iter().for_each(umcg::JoinHandle::abort);
        umcg::sleep(SHORT);
        assert!(
            !workers.iter().any(umcg::JoinHandle::is_finished),
            "they wait to the end"
        );
        drop(guard);
        workers.into_iter().for_each(abort);
        assert_eq!(*value.read(), 2);
    });
}

/// Every operation at once, with aborts: no waiter is stranded, and a writer is alone.
#[test]
fn a_crowd_with_aborts() {
    everywhere("crowd", |place| {
        let (halves, done, stop) = (lock((0u64, 0u64)), counter(), flag());
        let body = |n: usize| {
            let (halves, done, stop) = (halves.clone(), done.clone(), stop.clone());
            move || {
                let write = |halves: &mut (u64, u64)| {
                    assert_eq!(halves.0, halves.1);
                    halves.0 += 1;
                    done.fetch_add(1, Relaxed);
                    halves.1 += 1;
                };
                let mut turn = n;
                while !stop.load(Relaxed) {
                    turn += 1;
                    match turn % 6 {
                        0 => write(&mut halves.write()),
                        1 => {
                            halves
                                .try_write_for(Duration::MAX)
                                .as_deref_mut()
                                .map(write);
                        }
                        2 => {
                            halves
                                .try_write_for(Duration::from_micros(50))
                                .as_deref_mut()
                                .map(write);
                        }
                        3 => write(&mut RwLockUpgradableReadGuard::upgrade(
                            halves.upgradable_read(),
                        )),
                        4 => drop(halves.try_read_for(Duration::MAX)),
                        _ => drop(halves.read()),
                    }
                    if turn % 16 == 0 {
                        umcg::yield_now();
                    }
                }
            }
        };
        place.crowd_with_aborts(&stop, body);
        let count = done.load(Relaxed) as u64;
        assert_eq!(*halves.read(), (count, count));
    });
}

#[test]
fn shapes() {
    static IN_A_STATIC: RwLock<u8> = RwLock::new(7);
    *IN_A_STATIC.write() += 1;
    assert_eq!(*IN_A_STATIC.read(), 8);
    let mut pair = RwLock::new((1, 2));
    pair.get_mut().0 = 3;
    let mapped: MappedRwLockReadGuard<'_, i32> = RwLockReadGuard::map(pair.read(), |pair| &pair.1);
    assert!(pair.try_write().is_none() && pair.try_read().is_some());
    drop(mapped);
    let mut mapped: MappedRwLockWriteGuard<'_, i32> =
        RwLockWriteGuard::map(pair.write(), |pair| &mut pair.1);
    *mapped = 4;
    assert!(pair.is_locked_exclusive());
    drop(mapped);
    assert_eq!(pair.into_inner(), (3, 4));
    let shared = Arc::new(RwLock::<u8>::default());
    let guard: ArcRwLockReadGuard<u8> = shared.read_arc();
    assert_eq!(std::thread::spawn(move || *guard).join().unwrap(), 0);
    assert!(shared.try_write_arc().is_some());
}
