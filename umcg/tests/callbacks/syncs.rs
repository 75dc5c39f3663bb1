//! `sync`: the operations that are given a closure, and the objects that have a value. Semaphores,
//! events, barriers, wait groups, and locks as such run nothing of the program's. `selects` waits
//! for them beside objects that do.

use crate::ledger::Thing;
use crate::rows::{self, Row, World};
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};
use umcg::sync::{
    Condvar, LazyLock, MappedMutexGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex,
    MutexGuard, Once, OnceLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, WaitGroup,
};

const SHORT: Duration = Duration::from_millis(1);

const ROWS: &[Row] = &[
    ("Once::call_once", |w| {
        let once = Once::new();
        let done = w.forgive(|| once.call_once(|| w.call())).is_some();
        assert_eq!(once.is_completed(), done);
        once.call_once(|| {});
        assert!(once.is_completed());
    }),
    ("Once::try_call_once", |w| {
        let once = Once::new();
        w.forgive(|| {
            once.try_call_once(|| {
                Err::<(), _>({
                    w.call();
                    w.thing()
                })
            })
            .is_err()
        });
        assert!(!once.is_completed());
        once.call_once(|| {});
    }),
    ("OnceLock::get_or_init", |w| {
        let lock = OnceLock::new();
        w.forgive(|| {
            lock.get_or_init(|| {
                let thing = w.thing();
                w.call();
                thing
            });
        });
        lock.get_or_init(|| w.thing());
        assert!(lock.get().is_some());
    }),
    ("OnceLock::get_or_try_init", |w| {
        let lock = OnceLock::<Thing>::new();
        w.forgive(|| {
            let _ = lock.get_or_try_init(|| {
                w.call();
                Err(w.thing())
            });
        });
        assert!(lock.get().is_none() && lock.set(w.thing()).is_ok());
    }),
    ("OnceLock::set, try_insert", |w| {
        let lock = OnceLock::from(w.thing());
        w.forgive(|| {
            drop(lock.set(w.thing()));
            let _ = lock.try_insert(w.thing());
        });
        assert!(lock.get().is_some());
    }),
    ("OnceLock::take, into_inner, drop", |w| {
        let (mut first, second, third) = (
            OnceLock::from(w.thing()),
            OnceLock::from(w.thing()),
            OnceLock::from(w.thing()),
        );
        w.forgive(|| drop(first.take()));
        assert!(first.get().is_none() && first.set(w.thing()).is_ok());
        w.forgive(|| drop(second.into_inner()));
        w.forgive(|| drop(third));
    }),
    ("LazyLock::force", |w| {
        let lock = LazyLock::new(|| {
            let thing = w.thing();
            w.call();
            thing
        });
        w.forgive(|| {
            LazyLock::force(&lock);
        });
        assert!(
            LazyLock::get(&lock).is_some() || {
                LazyLock::force(&lock);
                true
            }
        );
        w.forgive(|| drop(LazyLock::into_inner(lock)));
    }),
    ("Condvar::wait_while", |w| {
        let (condvar, mutex) = (Condvar::new(), Mutex::new(0));
        w.forgive(|| {
            let mut guard = mutex.lock();
            condvar.wait_while(&mut guard, |count| {
                *count += 1;
                w.call();
                false
            });
        });
        assert_eq!(*mutex.try_lock().expect("it is unlocked"), 1);
        assert!(!condvar.notify_one());
    }),
    ("Condvar::wait_while_timeout", |w| {
        let (condvar, mutex) = (Condvar::new(), Mutex::new(w.thing()));
        w.forgive(|| {
            let mut guard = mutex.lock();
            condvar.wait_while_timeout(
                &mut guard,
                |_| {
                    w.call();
                    true
                },
                SHORT,
            )
        });
        assert!(mutex.try_lock().is_some() && condvar.notify_all() == 0);
    }),
    ("Condvar::wait_while_deadline", |w| {
        let (condvar, mutex, looks) = (Condvar::new(), Mutex::new(()), Cell::new(0));
        w.forgive(|| {
            let mut guard = mutex.lock();
            let is_so = |_: &mut ()| {
                looks.set(looks.get() + 1);
                if looks.get() == 2 {
                    w.call();
                }
                true
            };
            condvar.wait_while_deadline(&mut guard, is_so, Instant::now() + SHORT)
        });
        assert!(mutex.try_lock().is_some() && condvar.notify_all() == 0);
    }),
    ("MutexGuard::map, try_map", |w| {
        let mutex = Mutex::new(w.thing());
        w.forgive(|| {
            drop(MutexGuard::map(mutex.lock(), |thing| {
                w.call();
                thing
            }))
        });
        w.forgive(|| {
            drop(MutexGuard::try_map(mutex.lock(), |_| {
                w.call();
                None::<&mut Thing>
            }))
        });
        assert!(mutex.try_lock().is_some());
    }),
    ("MutexGuard::unlocked", |w| {
        let mutex = Mutex::new(w.thing());
        w.forgive(|| {
            let mut guard = mutex.lock();
            MutexGuard::unlocked(&mut guard, || {
                assert!(mutex.try_lock().is_some());
                w.call();
            });
        });
        assert!(mutex.try_lock().is_some());
    }),
    ("MutexGuard::unlocked_fair", |w| {
        let mutex = Mutex::new(w.thing());
        w.forgive(|| {
            let mut guard = mutex.lock();
            MutexGuard::unlocked_fair(&mut guard, || {
                assert!(mutex.try_lock().is_some());
                w.call();
            });
        });
        assert!(mutex.try_lock().is_some());
    }),
    ("a guard of a mutex, a value of one", |w| {
        let mutex = Mutex::new(Some(w.thing()));
        w.forgive(|| *mutex.lock() = None);
        *mutex.lock() = Some(w.thing());
        w.forgive(|| drop(mutex.into_inner()));
        let other = Mutex::new(w.thing());
        w.forgive(|| drop(other));
    }),
    ("RwLock: map, a value", |w| {
        let lock = RwLock::new(Some(w.thing()));
        w.forgive(|| {
            drop(RwLockReadGuard::map(lock.read(), |thing| {
                w.call();
                thing
            }))
        });
        w.forgive(|| {
            drop(RwLockWriteGuard::map(lock.write(), |thing| {
                w.call();
                thing
            }))
        });
        w.forgive(|| *lock.write() = None);
        assert!(lock.try_write().is_some());
        *lock.write() = Some(w.thing());
        w.forgive(|| drop(lock));
    }),
    ("RwLockReadGuard::try_map, unlocked, unlocked_fair", |w| {
        let lock = RwLock::new(w.thing());
        let free = || {
            assert!(lock.try_write().is_some());
            w.call();
        };
        w.forgive(|| {
            drop(RwLockReadGuard::try_map(lock.read(), |_| {
                w.call();
                None::<&Thing>
            }))
        });
        w.forgive(|| RwLockReadGuard::unlocked(&mut lock.read(), free));
        w.forgive(|| RwLockReadGuard::unlocked_fair(&mut lock.read(), free));
        assert!(lock.try_write().is_some());
    }),
    ("RwLockWriteGuard::try_map, unlocked, unlocked_fair", |w| {
        let lock = RwLock::new(w.thing());
        let free = || {
            assert!(lock.try_write().is_some());
            w.call();
        };
        w.forgive(|| {
            drop(RwLockWriteGuard::try_map(lock.write(), |_| {
                w.call();
                None::<&mut Thing>
            }))
        });
        w.forgive(|| RwLockWriteGuard::unlocked(&mut lock.write(), free));
        w.forgive(|| RwLockWriteGuard::unlocked_fair(&mut lock.write(), free));
        assert!(lock.try_write().is_some());
    }),
    ("RwLockUpgradableReadGuard: unlocked, with_upgraded", |w| {
        let lock = RwLock::new(w.thing());
        let free = || {
            assert!(lock.try_write().is_some());
            w.call();
        };
        let alone = |_: &mut Thing| {
            assert!(lock.try_read().is_none());
            w.call();
        };
        w.forgive(|| RwLockUpgradableReadGuard::unlocked(&mut lock.upgradable_read(), free));
        w.forgive(|| RwLockUpgradableReadGuard::unlocked_fair(&mut lock.upgradable_read(), free));
        w.forgive(|| lock.upgradable_read().with_upgraded(alone));
        w.forgive(|| lock.upgradable_read().try_with_upgraded(alone));
        w.forgive(|| lock.upgradable_read().try_with_upgraded_for(SHORT, alone));
        w.forgive(|| {
            lock.upgradable_read()
                .try_with_upgraded_until(Instant::now() + SHORT, alone)
        });
        assert!(lock.try_write().is_some());
    }),
    ("mapped guards: map, try_map", |w| {
        let (mutex, lock) = (Mutex::new((w.thing(), ())), RwLock::new((w.thing(), ())));
        w.forgive(|| {
            let mapped = MutexGuard::map(mutex.lock(), |both| &mut both.0);
            let mapped = MappedMutexGuard::map(mapped, |thing| {
                w.call();
                thing
            });
            drop(MappedMutexGuard::try_map(mapped, |_| None::<&mut ()>));
        });
        w.forgive(|| {
            let mapped = RwLockReadGuard::map(lock.read(), |both| &both.0);
            drop(MappedRwLockReadGuard::try_map(mapped, |_| {
                w.call();
                None::<&()>
            }));
        });
        w.forgive(|| {
            let mapped = RwLockWriteGuard::map(lock.write(), |both| &mut both.0);
            drop(MappedRwLockWriteGuard::try_map(mapped, |_| {
                w.call();
                None::<&mut ()>
            }));
        });
        assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
    }),
    ("Debug of what has a value", |w| {
        struct Shown<'a>(&'a World);
        impl fmt::Debug for Shown<'_> {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.call();
                Ok(())
            }
        }
        let (mutex, lock) = (Mutex::new(Shown(w)), RwLock::new(Shown(w)));
        w.forgive(|| format!("{mutex:?}"));
        w.forgive(|| format!("{lock:?}"));
        w.forgive(|| format!("{:?} {:?}", mutex.lock(), lock.read()));
        w.forgive(|| format!("{:?}", OnceLock::from(Shown(w))));
        assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
    }),
    ("WaitGroup, left by unwinding", |w| {
        let group = WaitGroup::new();
        w.forgive(|| {
            let _doing = group.enter();
            w.call();
        });
        assert_eq!(group.count(), 0);
        group.wait_timeout(SHORT).unwrap();
    }),
];

#[test]
fn closures_and_values() {
    rows::all("closures and values", ROWS);
}
