//! Timers: set when their time has come, not before.

use crate::parties::{SORTS, Sort, everywhere, until_waiting, waiters};
use crate::support::{HOUR, eventually};
use crate::{LATE, TAKEN, poll};
use std::time::{Duration, Instant};
use umcg::nt::{Event, Timer, Wait, Woken};

const SHORT: Duration = Duration::from_millis(2);

fn soon() -> Instant {
    Instant::now() + SHORT
}

#[test]
fn one_shot() {
    everywhere("one shot", |place| {
        for is_manual in [false, true] {
            for sort in SORTS {
                let timer = Timer::new(is_manual);
                let other = Event::auto(false);
                let party = place.start(sort, move || {
                    assert!(timer.due().is_none() && !timer.cancel());
                    for n in 0..3 {
                        let due = soon();
                        assert!(!timer.set(due, None).unwrap());
                        let (is_set, armed) = (timer.is_set(), timer.due());
                        assert!(
                            Instant::now() >= due
                                || (!is_set
                                    && armed.is_some_and(|at| at.duration_since(due) < SHORT))
                        );
                        let list = [other.as_handle(), timer.as_handle()];
                        let woken = match n {
                            0 => Wait::any(&list[1..]).wait(),
                            1 => Wait::any(&list).wait_timeout(HOUR),
                            _ => {
                                other.set();
                                Wait::all(&list).wait()
                            }
                        };
                        assert_eq!(woken, Ok(Woken::Object(usize::from(n == 1))));
                        assert!(Instant::now() >= due);
                        assert!(timer.due().is_none());
                        assert_eq!(
                            poll(timer.as_handle()),
                            if is_manual { TAKEN } else { LATE }
                        );
                    }
                });
                party.join();
            }
        }
    });
}

/// It is set once in each period, as far as it is taken; never before its time.
#[test]
fn periodic() {
    everywhere("periodic", |place| {
        let timer = Timer::new(false);
        let inside = timer.clone();
        let party = place.start(Sort::Worker, move || {
            let start = soon();
            inside.set(start, Some(SHORT)).unwrap();
            for n in 0..5 {
                assert_eq!(Wait::any(&[inside.as_handle()]).wait(), TAKEN);
                assert!(Instant::now() >= start + SHORT * n);
            }
        });
        party.join();
        // Several that are not taken count as one.
        std::thread::sleep(SHORT * 4);
        assert!(timer.cancel() && !timer.cancel());
        assert_eq!(
            (
                timer.is_set(),
                poll(timer.as_handle()),
                poll(timer.as_handle())
            ),
            (true, TAKEN, LATE)
        );
        // From the past: now, and then each period, none left out.
        timer.set(Instant::now() - HOUR, Some(HOUR)).unwrap();
        assert_eq!(
            (poll(timer.as_handle()), poll(timer.as_handle())),
            (TAKEN, LATE)
        );
        assert!(
            timer
                .due()
                .is_some_and(|due| (HOUR / 2..=HOUR).contains(&due.duration_since(Instant::now())))
        );
    });
}

/// Setting it again starts it again; cancelling leaves it set or not; the last handle disarms it.
#[test]
fn set_again() {
    everywhere("set again", |place| {
        let timer = Timer::new(true);
        timer.set(Instant::now(), None).unwrap();
        assert!(timer.is_set() && !timer.cancel() && timer.is_set());
        assert!(!timer.set(Instant::now() + HOUR, None).unwrap() && !timer.is_set());
        let inside = timer.clone();
        let party = place.start(SORTS[0], move || Wait::any(&[inside.as_handle()]).wait());
        until_waiting(&*timer, 1);
        assert!(timer.set(soon(), None).unwrap(), "it was armed");
        assert_eq!(party.join(), TAKEN);
        for _ in 0..100 {
            let gone = Timer::new(false);
            gone.set(
                Instant::now() + Duration::from_micros(50),
                Some(Duration::from_micros(10)),
            )
            .unwrap();
            std::thread::sleep(Duration::from_micros(60));
        }
        assert_eq!(waiters(&*timer), 0);
    });
}

/// A manual one lets all through, another one lets one through. A timer that is due is found by a
/// caller that looks, whether or not the thread of timers was fast enough.
#[test]
fn all_or_one() {
    everywhere("all or one", |place| {
        for is_manual in [true, false] {
            let timer = Timer::new(is_manual);
            let parties: Vec<_> = (0..3)
                .map(|n| {
                    let inside = timer.clone();
                    place.start(SORTS[n], move || Wait::any(&[inside.as_handle()]).wait())
                })
                .collect();
            until_waiting(&*timer, 3);
            timer.set(soon(), None).unwrap();
            if !is_manual {
                for left in [2, 1] {
                    eventually("one goes on", || waiters(&*timer) == left);
                    timer.set(soon(), None).unwrap();
                }
            }
            parties
                .into_iter()
                .for_each(|party| assert_eq!(party.join(), TAKEN));
            assert_eq!(timer.is_set(), is_manual);
            let due = Instant::now() + Duration::from_micros(20);
            timer.set(due, None).unwrap();
            while Instant::now() < due {}
            assert_eq!(poll(timer.as_handle()), TAKEN);
        }
    });
}
