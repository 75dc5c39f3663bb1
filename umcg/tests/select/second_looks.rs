//! A worker gives way to the others before it enters the queues of many things: once.

use crate::support::flag;
use std::sync::atomic::Ordering::*;
use umcg::select::Select;
use umcg::tube::{TrySendError, tube};
use umcg::{Runtime, spawn, yield_now};

/// A hand-over needs a receiver that stands in the queue. So it shows when the receiver enters.
#[test]
fn a_wait_enters_its_queues_after_one_turn_of_the_others() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let turns = runtime.spawn(|| {
        let (sender, receiver) = tube(0);
        let (_silent, other) = tube::<usize>(0);
        let waits = flag();
        let begins = waits.clone();
        let waiter = spawn(move || {
            begins.store(true, Relaxed);
            Select::new().wait(&mut [receiver.receiving(), other.receiving()])
        });
        while !waits.load(Relaxed) {
            yield_now();
        }
        let mut turns = 1;
        while let Err(TrySendError::Full(_)) = sender.try_send(7) {
            yield_now();
            turns += 1;
        }
        assert_eq!(waiter.join().unwrap(), 0);
        turns
    });
    assert_eq!(turns.join().unwrap(), 2);
}
