//! Calls that wait, in every place: in a worker, where one blocks in the kernel, in sections that
//! are not cut short, in a plain thread, and in each of these within the other.

use crate::support::{HOUR, Kind, eventually, flag, over};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::{Elapsed, Handle, blocking, shielded, timeout};

const SHORT: Duration = Duration::from_millis(2);

/// Whether waits are cut short.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Yes,
    No,
}

type Place = fn(&dyn Fn(Cut));

const PLACES: [(&str, Place); 9] = [
    ("plainly", |f| f(Cut::Yes)),
    ("blocking", |f| blocking(|| f(Cut::Yes))),
    ("blocking, twice", |f| blocking(|| blocking(|| f(Cut::Yes)))),
    ("shielded", |f| shielded(|| f(Cut::No))),
    ("shielded within blocking", |f| {
        blocking(|| shielded(|| f(Cut::No)))
    }),
    ("blocking within shielded", |f| {
        shielded(|| blocking(|| f(Cut::No)))
    }),
    ("in time", |f| timeout(HOUR, || f(Cut::Yes)).unwrap()),
    ("in time within blocking", |f| {
        blocking(|| timeout(HOUR, || f(Cut::Yes)).unwrap())
    }),
    ("in a future", |f| umcg::block_on(async { f(Cut::Yes) })),
];

/// In each place, in a worker and in a plain thread.
fn anywhere(name: &'static str, test: fn(Kind, Cut)) {
    over(name, move |runtime, kind| {
        for (place, within) in PLACES {
            let tried = move || {
                let me = Handle::current();
                within(&|cut| {
                    assert_eq!(Handle::current(), me, "{place}");
                    test(kind, cut);
                });
                assert_eq!(Handle::current(), me, "{place}");
            };
            kind.run(runtime, tried);
            tried();
        }
    });
}

#[test]
fn sleeps_and_yields() {
    anywhere("sleeps anywhere", |_, _| {
        let start = Instant::now();
        umcg::sleep(SHORT);
        umcg::sleep_until(start + 2 * SHORT);
        assert!(start.elapsed() >= 2 * SHORT);
        umcg::yield_now();
        umcg::rt::checkpoint();
    });
}

#[test]
fn parks() {
    anywhere("parks anywhere", |kind, _| {
        let me = Handle::current();
        me.unpark();
        umcg::park();
        while umcg::park_timeout(SHORT / 4) {}
        assert!(!umcg::park_deadline(Instant::now()));
        let unparked = flag();
        let sets = unparked.clone();
        let wakes = kind.spawn(move || {
            umcg::sleep(SHORT / 4);
            sets.store(true, Relaxed);
            me.unpark();
        });
        while !unparked.load(Relaxed) {
            umcg::park();
        }
        wakes.join().unwrap();
        umcg::hand_over(me);
    });
}

#[test]
fn spawns_and_joins() {
    anywhere("spawns anywhere", |kind, _| {
        for child in [Kind::Full, Kind::Light, kind] {
            assert_eq!(
                child
                    .spawn(|| (umcg::sleep(SHORT / 4), 5).1)
                    .join()
                    .unwrap(),
                5
            );
            let over = flag();
            let seen = over.clone();
            let waits = child.spawn(move || eventually("it may end", || seen.load(Relaxed)));
            let waits = waits
                .join_timeout(SHORT / 4)
                .unwrap_err()
                .try_join()
                .unwrap_err();
            over.store(true, Relaxed);
            waits.join_timeout(HOUR).unwrap().unwrap();
        }
        let mut sum = [0; 3];
        umcg::scope(|scope| {
            for (n, place) in sum.iter_mut().enumerate() {
                scope.spawn(move || *place = (umcg::yield_now(), n).1);
            }
        });
        assert_eq!(sum, [0, 1, 2]);
        assert_eq!(umcg::block_on(async { 6 }), 6);
    });
}

/// Where waits are not cut short those of a time limit within are not either: work that has been
/// begun is done.
#[test]
fn time_limits() {
    anywhere("timeouts anywhere", |kind, cut| {
        assert_eq!(timeout(HOUR, || kind.spawn(|| 3).join().unwrap()), Ok(3));
        let waits: [fn(); 4] = [
            || umcg::sleep(3 * SHORT),
            || blocking(|| umcg::sleep(3 * SHORT)),
            || while umcg::park_timeout(3 * SHORT) {},
            || drop(umcg::spawn(|| umcg::sleep(3 * SHORT)).join()),
        ];
        for waits in waits {
            let start = Instant::now();
            let limited = timeout(SHORT, || {
                waits();
                start.elapsed()
            });
            match (limited, cut) {
                (Err(Elapsed), Cut::Yes) => assert!(start.elapsed() >= SHORT),
                (Ok(waited), Cut::No) => assert!(waited >= 3 * SHORT),
                // It reached the wait late, when all was over, which happens on a busy machine.
                (Ok(waited), Cut::Yes) => assert!(waited >= 3 * SHORT),
                (Err(Elapsed), Cut::No) => panic!("a wait was cut short"),
            }
        }
        // That is over.
        umcg::rt::checkpoint();
        umcg::sleep(SHORT / 4);
        if cut == Cut::Yes {
            assert_eq!(timeout(SHORT, || umcg::sleep(HOUR)), Err(Elapsed));
        }
    });
}
