//! A worker gives way to the others before it enters the queues of many things: once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg::select::{Operation, Select};
use umcg::tube::{TrySendError, tube};
use umcg::{Runtime, spawn, yield_now};

/// A worker does so again after 63 waits at the latest.
const WAITS: usize = 200;

/// A hand-over needs a receiver that stands in the queue. So it shows when the receiver enters: at
/// once, or after one turn of the other worker.
#[test]
fn a_wait_enters_its_queues_after_one_turn_of_the_others() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let turns = runtime.spawn(|| {
        let (sender, receiver) = tube(0);
        let (_silent, other) = tube::<usize>(0);
        let begun = Arc::new(AtomicUsize::new(0));
        let waits = begun.clone();
        let waiter = spawn(move || {
            for wait in 1..=WAITS {
                waits.store(wait, Relaxed);
                let mut both = [receiver.receiving(), other.receiving()];
                assert_eq!(Select::new().wait(&mut both), 0);
                assert_eq!(both[0].outcome(), Ok(wait));
            }
        });
        let turns = (1..=WAITS).map(|wait| {
            while begun.load(Relaxed) < wait {
                yield_now();
            }
            let mut turns = 1;
            while let Err(TrySendError::Full(_)) = sender.try_send(wait) {
                yield_now();
                turns += 1;
            }
            turns
        });
        let turns: Vec<_> = turns.collect();
        waiter.join().unwrap();
        turns
    });
    let turns = turns.join().unwrap();
    assert!(turns.contains(&2), "no wait has given way: {turns:?}");
    assert!(turns.iter().all(|turns| *turns <= 2), "{turns:?}");
}
