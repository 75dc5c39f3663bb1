//! Sleep: never too short.

use crate::support::{
    Counted, HOUR, KINDS, Kind, counter, eventually, flag, over, over_servers, with,
};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::{Builder, Runtime};

#[test]
fn never_early() {
    over("sleep", |runtime, kind| {
        let test = || {
            for micros in [0, 1, 2, 10, 100, 1000, 5000] {
                let (start, length) = (Instant::now(), Duration::from_micros(micros));
                umcg::sleep(length);
                assert!(
                    start.elapsed() >= length,
                    "{length:?}: {:?}",
                    start.elapsed()
                );
                let until = Instant::now() + length;
                umcg::sleep_until(until);
                assert!(Instant::now() >= until);
            }
            umcg::sleep_until(Instant::now() - Duration::from_secs(1));
        };
        kind.run(runtime, move || {
            test();
            umcg::blocking(test);
        });
        test();
    });
}

#[test]
fn ten_thousand_at_once() {
    over_servers("sleepers", |runtime| {
        let woken = counter();
        let start = Instant::now();
        let sleepers: Vec<_> = (0..10_000u64)
            .map(|n| {
                let woken = woken.clone();
                // A sleep that begins earlier may end earlier or later than the others.
                let length = Duration::from_micros(20_000 + n * 7919 % 30_011);
                let kind = if n % 20 == 0 { Kind::Full } else { Kind::Light };
                kind.spawn_on(runtime, move || {
                    let start = Instant::now();
                    umcg::sleep(length);
                    assert!(start.elapsed() >= length);
                    woken.fetch_add(1, Relaxed);
                })
            })
            .collect();
        sleepers
            .into_iter()
            .for_each(|sleeper| sleeper.join().unwrap());
        assert_eq!(woken.load(Relaxed), 10_000);
        assert!(start.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn many_are_cancelled() {
    over("cancelled sleepers", |runtime, kind| {
        let drops = counter();
        let sleepers: Vec<_> = (0..1000)
            .map(|n| {
                let owned = Counted(drops.clone());
                kind.spawn_on(runtime, move || {
                    let _owned = owned;
                    umcg::sleep(if n % 2 == 0 {
                        HOUR
                    } else {
                        Duration::from_millis(n % 10)
                    });
                })
            })
            .collect();
        sleepers.iter().step_by(2).for_each(umcg::JoinHandle::abort);
        for (n, sleeper) in sleepers.into_iter().enumerate() {
            assert_eq!(sleeper.join().is_err(), n % 2 == 0);
        }
        assert_eq!(drops.load(Relaxed), 1000);
    });
}

/// A worker sleeps on another server than where it began to: its deadline is taken back there.
#[test]
fn deadlines_are_left_behind() {
    over("deadlines", |runtime, kind| {
        let workers: Vec<_> = (0..200)
            .map(|_| {
                kind.spawn_on(runtime, || {
                    for _ in 0..20 {
                        umcg::Handle::current().unpark();
                        umcg::park_timeout(HOUR);
                        umcg::yield_now();
                        umcg::park_timeout(Duration::from_micros(30));
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        eventually("no deadline is left", || {
            runtime.dump().contains(" 0 deadlines")
        });
    });
}

/// While a server is busy, deadlines of its workers pass too.
#[test]
fn deadlines_pass_while_others_compute() {
    over("busy deadlines", |runtime, kind| {
        kind.run(runtime, move || {
            let start = Instant::now();
            let sleeper = kind.spawn(|| umcg::sleep(Duration::from_millis(5)));
            while !sleeper.is_finished() {
                umcg::yield_now();
                assert!(start.elapsed() < Duration::from_secs(100));
            }
        });
    });
}

/// Those of a server that computes too, though all have slept for so long that no thread looks
/// after servers any more.
#[test]
fn deadlines_pass_while_their_server_computes_after_a_rest() {
    const REST: Duration = Duration::from_millis(300);
    for kind in KINDS {
        with("deadlines after a rest", 2, Runtime::builder(), |runtime| {
            let (go, passed) = (flag(), flag());
            let (told, seen) = (go.clone(), passed.clone());
            let worker = kind.build_on(runtime, &Builder::new().server(0), move || {
                // It runs next on this server, and its deadline is kept there.
                let sleeper = kind.spawn(move || {
                    umcg::sleep(2 * REST);
                    passed.store(true, Relaxed);
                });
                while !told.load(Relaxed) {
                    umcg::park();
                }
                let start = Instant::now();
                while !seen.load(Relaxed) && start.elapsed() < Duration::from_secs(100) {
                    std::hint::spin_loop();
                }
                let in_time = seen.load(Relaxed);
                sleeper.join().unwrap();
                in_time
            });
            let worker = worker.unwrap();
            std::thread::sleep(REST);
            go.store(true, Relaxed);
            worker.handle().unpark();
            assert!(worker.join().unwrap());
        });
    }
}
