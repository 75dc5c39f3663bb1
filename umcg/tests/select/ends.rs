//! Ends of workers.

use crate::support::{HOUR, over};
use std::sync::Arc;
use std::time::Duration;
use umcg::select::{Select, after};
use umcg::sync::Semaphore;

/// Of many the first that ends, then the next: each once.
#[test]
fn one_after_the_other() {
    over("ends", |runtime, kind| {
        kind.run(runtime, move || {
            let gates: Vec<_> = (0..6).map(|_| Arc::new(Semaphore::new(0))).collect();
            let mut workers: Vec<_> = gates
                .iter()
                .enumerate()
                .map(|(index, gate)| {
                    let gate = gate.clone();
                    (
                        index,
                        kind.spawn(move || gate.acquire().map(|()| index).unwrap()),
                    )
                })
                .collect();
            for gate in [3, 0, 5, 1, 2, 4] {
                gates[gate].release(1).unwrap();
                let mut operations: Vec<_> = workers
                    .iter_mut()
                    .map(|(_, worker)| worker.ending())
                    .collect();
                let ended = Select::new().wait(&mut operations);
                drop(operations);
                let (index, worker) = workers.remove(ended);
                assert_eq!((index, worker.join().unwrap()), (gate, gate));
            }
        });
    });
}

/// Ends that race with other things, and with the waiter going away.
#[test]
fn ends_and_wakeups_at_once() {
    over("ends and wakeups", |runtime, kind| {
        let semaphore = Arc::new(Semaphore::new(0));
        let body = || {
            let semaphore = semaphore.clone();
            move || {
                let mut taken = 0;
                for turn in 0..300 {
                    let inside = semaphore.clone();
                    let mut worker = kind.spawn(move || {
                        if turn % 2 == 0 {
                            inside.release(1).unwrap();
                        }
                        umcg::yield_now();
                    });
                    let mut ended = false;
                    while !ended {
                        umcg::select! {
                            () = worker.ending() => ended = true,
                            wakeup = semaphore.acquiring() => { wakeup.unwrap(); taken += 1; }
                            () = after(HOUR) => unreachable!(),
                        }
                    }
                    worker.join().unwrap();
                }
                taken
            }
        };
        let waiters: Vec<_> = (0..4).map(|_| kind.spawn_on(runtime, body())).collect();
        let taken: u32 = waiters
            .into_iter()
            .map(|waiter| waiter.join().unwrap())
            .sum();
        assert_eq!(taken + semaphore.available(), 600);
    });
}

/// From a thread; one that panics, one that is aborted; a wait that is over before.
#[test]
fn however_it_ends() {
    over("however", |runtime, kind| {
        let mut panics = kind.spawn_on(runtime, || std::panic::resume_unwind(Box::new(())));
        let mut sleeps = kind.spawn_on(runtime, || umcg::sleep(HOUR));
        umcg::select! {
            () = sleeps.ending() => unreachable!(),
            () = panics.ending() => assert!(panics.is_finished()),
        }
        assert!(panics.join().is_err());
        assert_eq!(
            Select::new().wait_timeout(&mut [sleeps.ending()], Duration::from_millis(2)),
            None
        );
        assert_eq!(Select::new().try_wait(&mut [sleeps.ending()]), None);
        sleeps.abort();
        assert_eq!(Select::new().wait(&mut [sleeps.ending()]), 0);
        assert!(sleeps.join().is_err());
    });
}
