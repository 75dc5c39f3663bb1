//! Once-only initialisation.

use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{Counted, HOUR, counter, flag};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::Elapsed;
use umcg::sync::{LazyLock, Once, OnceLock};

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn once() {
    everywhere("once", |place| {
        let (once, calls) = (Arc::new(Once::new()), counter());
        let parties = place.crowd(3, |n| {
            let (once, calls) = (once.clone(), calls.clone());
            move || {
                if n % 4 == 3 {
                    once.wait();
                } else {
                    once.call_once(|| {
                        umcg::sleep(SHORT);
                        calls.fetch_add(1, Relaxed);
                    });
                }
                assert_eq!(calls.load(Relaxed), 1);
                assert!(once.is_completed());
            }
        });
        join_all(parties);
        once.call_once(|| unreachable!());
        once.try_call_once(|| Err(())).unwrap();
    });
}

/// A caller that unwinds has not done it: the next waiter does it, in the order in which they came.
#[test]
fn the_next_one_does_it() {
    everywhere("next", |place| {
        let (once, calls) = (Arc::new(Once::new()), counter());
        let begun = flag();
        let (inside, has_begun) = (once.clone(), begun.clone());
        let first = place.worker(move || {
            inside.call_once(|| {
                has_begun.store(true, Relaxed);
                umcg::park();
            });
        });
        crate::support::eventually("it has begun", || begun.load(Relaxed));
        let mut parties = Vec::new();
        for n in 0..5 {
            let (inside, calls) = (once.clone(), calls.clone());
            let party = move || match n {
                // It waits only, and has to wait to the end.
                0 => inside.wait(),
                1 => inside.call_once(|| {
                    assert_eq!(calls.fetch_add(1, Relaxed), 0);
                    panic!("expected");
                }),
                2 => assert_eq!(
                    inside.try_call_once(|| Err(calls.fetch_add(1, Relaxed))),
                    Err(1)
                ),
                3 => inside.call_once(|| assert_eq!(calls.fetch_add(1, Relaxed), 2)),
                _ => inside.call_once(|| unreachable!()),
            };
            parties.push(place.start(SORTS[n % 3], move || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(party));
                assert_eq!(result.is_err(), n == 1);
            }));
            until_waiting(&*once, n + 1);
        }
        first.abort();
        assert!(first.join().is_err());
        join_all(parties);
        assert_eq!(calls.load(Relaxed), 3);
    });
}

#[test]
fn deadlines_and_aborts() {
    everywhere("deadlines", |place| {
        let once = Arc::new(Once::new());
        let start = Instant::now();
        assert_eq!(once.wait_timeout(SHORT), Err(Elapsed));
        assert!(start.elapsed() >= SHORT);
        for sort in [Sort::Worker, Sort::Blocking] {
            let inside = once.clone();
            let Party::Worker(worker) = place.start(sort, move || inside.wait()) else {
                unreachable!()
            };
            until_waiting(&*once, 1);
            abort(worker);
        }
        let inside = once.clone();
        let waits = place.worker(move || inside.wait_timeout(HOUR));
        until_waiting(&*once, 1);
        once.call_once(|| {});
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert_eq!(once.wait_deadline(start), Ok(()));
    });
}

/// All get the same value, which is dropped once.
#[test]
fn one_value_for_all() {
    everywhere("value", |place| {
        let (drops, calls) = (counter(), counter());
        let value = Arc::new(OnceLock::new());
        let parties = place.crowd(2, |n| {
            let (value, calls, drops) = (value.clone(), calls.clone(), drops.clone());
            move || {
                let made: &(usize, Counted) = match n {
                    0 => value.wait(),
                    1 => value.wait_timeout(HOUR).unwrap(),
                    _ => value.get_or_init(|| {
                        umcg::sleep(SHORT);
                        calls.fetch_add(1, Relaxed);
                        (7, Counted(drops))
                    }),
                };
                assert_eq!(made.0, 7);
                std::ptr::from_ref(made).addr()
            }
        });
        let mut addresses = join_all(parties);
        addresses.dedup();
        assert_eq!(addresses.len(), 1);
        assert_eq!(calls.load(Relaxed), 1);
        drop(value);
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn shapes_of_values() {
    static VALUE: OnceLock<String> = OnceLock::new();
    assert_eq!(VALUE.get(), None);
    assert_eq!(VALUE.wait_deadline(Instant::now()), Err(Elapsed));
    assert_eq!(VALUE.get_or_try_init(|| Err(5)), Err(5));
    assert_eq!(VALUE.set("one".to_owned()), Ok(()));
    assert_eq!(VALUE.set("two".to_owned()), Err("two".to_owned()));
    assert_eq!(
        VALUE.try_insert("two".to_owned()),
        Err((&"one".to_owned(), "two".to_owned()))
    );
    assert_eq!(VALUE.get().unwrap(), "one");
    let mut other = OnceLock::from(1);
    assert_eq!(other.clone(), other);
    *other.get_mut().unwrap() += 1;
    assert_eq!(other.take(), Some(2));
    assert!(other.get().is_none() && other.get_mut().is_none() && other.take().is_none());
    assert_eq!(other.get_or_init(|| 3), &3);
    assert_eq!(other.into_inner(), Some(3));
    assert_eq!(format!("{:?}", OnceLock::<u8>::default()), "OnceLock(None)");
}

/// A value that could not be made is made by the next.
#[test]
fn lazily() {
    static ONE: LazyLock<u32> = LazyLock::new(|| 1);
    assert_eq!(LazyLock::get(&ONE), None);
    assert_eq!(*ONE + *ONE, 2);
    crate::support::silence_what_is_expected();
    let calls = counter();
    let inside = calls.clone();
    let third = LazyLock::new(move || {
        let call = inside.fetch_add(1, Relaxed);
        assert!(call == 2, "expected");
        call
    });
    for _ in 0..2 {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| *third)).is_err());
    }
    assert_eq!((*third, *third), (2, 2));
    assert_eq!(LazyLock::into_inner(third).ok(), Some(2));
    assert!(LazyLock::into_inner(LazyLock::<u8>::new(|| 1)).is_err());
}
