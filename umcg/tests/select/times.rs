//! Times, and not waiting at all.

use crate::support::{HOUR, over};
use std::time::{Duration, Instant};
use umcg::select::{Select, after, at};
use umcg::sync::Semaphore;

const SOON: Duration = Duration::from_millis(3);

#[test]
fn a_time_comes_first() {
    over("a time", |runtime, kind| {
        kind.run(runtime, || {
            let (never, begun) = (Semaphore::new(0), Instant::now());
            umcg::select! {
                _ = never.acquiring() => unreachable!(),
                () = after(HOUR) => unreachable!(),
                () = after(SOON) => assert!(begun.elapsed() >= SOON),
            }
            umcg::select! {
                () = at(begun) => {}
                () = after(HOUR) => unreachable!(),
            }
        });
    });
}

#[test]
fn the_semaphore_comes_first() {
    over("a semaphore", |runtime, kind| {
        kind.run(runtime, move || {
            let semaphore = std::sync::Arc::new(Semaphore::new(0));
            let inside = semaphore.clone();
            let giver = kind.spawn(move || {
                umcg::sleep(SOON);
                inside.release(1).unwrap();
            });
            umcg::select! {
                () = after(HOUR) => unreachable!(),
                taken = semaphore.acquiring() => taken.unwrap(),
            }
            giver.join().unwrap();
        });
    });
}

#[test]
fn not_at_all() {
    let semaphore = Semaphore::new(0);
    let look = || {
        umcg::select! {
            taken = semaphore.acquiring() => taken.is_ok(),
            () = after(HOUR) => unreachable!(),
            default => false,
        }
    };
    assert!(!look());
    semaphore.release(1).unwrap();
    assert!(look());
    assert!(!look());
}

#[test]
fn deadlines() {
    let semaphore = Semaphore::new(0);
    let mut operations = [semaphore.acquiring(), semaphore.acquiring()];
    let begun = Instant::now();
    assert_eq!(Select::new().wait_timeout(&mut operations, SOON), None);
    assert_eq!(
        Select::new().wait_deadline(&mut operations, begun + SOON),
        None
    );
    assert!(begun.elapsed() >= SOON);
    semaphore.release(1).unwrap();
    assert!(Select::new().wait_timeout(&mut operations, SOON).is_some());
    assert_eq!(semaphore.available(), 0);
}

#[test]
#[should_panic(expected = "nothing to wait for")]
fn nothing_at_all() {
    Select::new().wait(&mut [] as &mut [umcg::select::Timer]);
}
