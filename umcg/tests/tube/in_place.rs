//! Messages that are written where they will lie, and read where they lie.

use crate::support::{Counted, counter, over};
use crate::{Large, large, number_of, until_receivers_wait, until_senders_wait};
use std::sync::atomic::Ordering::*;
use umcg::tube::{RecvError, SendError, Sender, TryRecvError, TrySendError, tube};

#[test]
fn written_and_read_in_place() {
    let (sender, receiver) = tube::<Large>(2);
    let mut first = sender.reserve().unwrap().write(large(1));
    let second = sender.try_reserve().unwrap();
    assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Full(()));
    assert!(sender.try_send(large(9)).unwrap_err().is_full());
    first[7] = 1;
    let lies_at = std::ptr::from_ref(&*first);
    assert_eq!(receiver.try_recv_ref().unwrap_err(), TryRecvError::Empty);
    first.commit().unwrap();
    let received = receiver.recv_ref().unwrap();
    assert_eq!(
        (number_of(&received), std::ptr::from_ref(&*received)),
        (1, lies_at)
    );
    // Its place is taken as long as it is read.
    assert!(sender.try_send(large(9)).unwrap_err().is_full());
    second.send(large(2)).unwrap();
    drop(received);
    sender.try_send(large(3)).unwrap();
    assert_eq!(number_of(&receiver.recv_ref().unwrap().into_inner()), 2);
    assert_eq!(number_of(&receiver.recv().unwrap()), 3);
}

/// Messages have the order in which they are committed.
#[test]
fn in_the_order_of_commits() {
    let (sender, receiver) = tube::<u64>(4);
    let (first, second) = (sender.reserve().unwrap(), sender.reserve().unwrap());
    sender.send(1).unwrap();
    second.send(2).unwrap();
    sender.send(3).unwrap();
    first.send(4).unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// Too large for a guard, and not large.
#[test]
fn in_places_of_their_own() {
    let drops = counter();
    let message = |number| ([number; 100], Counted(drops.clone()));
    for capacity in [1, 2] {
        let (sender, receiver) = tube(capacity);
        let mut first = sender.reserve().unwrap().write(message(1));
        first.0[99] = 2;
        first.commit().unwrap();
        let received = receiver.recv_ref().unwrap();
        assert!(received.0[..99].iter().all(|word| *word == 1));
        assert_eq!(received.0[99], 2);
        drop(received);
        drop(sender.reserve().unwrap());
        (0..capacity).for_each(|_| sender.try_reserve().unwrap().send(message(3)).unwrap());
        assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Full(()));
        assert_eq!(receiver.recv_ref().unwrap().into_inner().0, [3; 100]);
        let reserved = sender.reserve().unwrap();
        receiver.close();
        assert_eq!(
            reserved.send(message(4)).unwrap_err().into_inner().0,
            [4; 100]
        );
    }
    assert_eq!(drops.load(SeqCst), 3 + 4);
}

#[test]
fn room_that_is_not_used_is_given_back() {
    let drops = counter();
    let (sender, receiver) = tube(1);
    drop(sender.reserve().unwrap());
    drop(sender.reserve().unwrap().write(Counted(drops.clone())));
    assert_eq!(drops.load(SeqCst), 1);
    sender
        .try_reserve()
        .unwrap()
        .send(Counted(drops.clone()))
        .unwrap();
    drop(receiver.recv_ref().unwrap());
    assert_eq!(drops.load(SeqCst), 2);
    sender.send(Counted(drops.clone())).unwrap();
    let message = receiver.recv_ref().unwrap().into_inner();
    assert_eq!(drops.load(SeqCst), 2);
    drop(message);
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn closed_meanwhile() {
    let drops = counter();
    let (sender, receiver) = tube(3);
    let (small, large_sender) = (sender.reserve().unwrap(), tube::<Large>(3));
    let reserved = large_sender.0.reserve().unwrap();
    receiver.close();
    large_sender.1.close();
    drop(small.send(Counted(drops.clone())).unwrap_err().into_inner());
    assert_eq!(drops.load(SeqCst), 1);
    assert_eq!(reserved.send(large(6)), Err(SendError(large(6))));
    assert_eq!(sender.reserve().unwrap_err(), SendError(()));
    assert_eq!(receiver.recv_ref().err(), Some(RecvError));
}

#[test]
#[should_panic(expected = "has no room")]
fn no_room_at_all() {
    let (sender, _receiver) = tube::<u8>(0);
    let _ = sender.reserve();
}

/// A drop that panics gives the place back all the same.
#[test]
fn drops_that_panic() {
    struct Bad(#[allow(dead_code, reason = "large")] [u64; 150]);
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("expected");
        }
    }
    crate::support::silence_what_is_expected();
    let (sender, receiver) = tube(1);
    let panics =
        |f: &dyn Fn()| assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err());
    panics(&|| drop(sender.reserve().unwrap().write(Bad([1; 150]))));
    sender
        .send(Bad([2; 150]))
        .map_err(|error| std::mem::forget(error.0))
        .unwrap();
    panics(&|| drop(receiver.recv_ref().unwrap()));
    assert!(sender.try_reserve().is_ok());
}

/// In one of three ways.
fn send_in_place(sender: &Sender<Large>, n: u64) {
    match n % 3 {
        0 => sender.reserve().unwrap().send(large(n)).unwrap(),
        1 => {
            drop(sender.reserve().unwrap());
            sender.reserve().unwrap().write(large(n)).commit().unwrap();
        }
        _ => {
            let reserved = sender.reserve().unwrap();
            umcg::yield_now();
            reserved.send(large(n)).unwrap();
        }
    }
}

/// Every way of sending and of receiving at once, in little room.
#[test]
fn all_ways_at_once() {
    const EACH: u64 = 200;
    over("all ways", |runtime, kind| {
        for capacity in [1, 3] {
            let (sender, receiver) = tube::<Large>(capacity);
            let senders: Vec<_> = (0..4)
                .map(|who| {
                    let sender = sender.clone();
                    kind.spawn_on(runtime, move || {
                        for n in 0..EACH {
                            match who {
                                0 | 1 => sender.send(large(n)).unwrap(),
                                _ => send_in_place(&sender, n),
                            }
                        }
                    })
                })
                .collect();
            drop(sender);
            let receivers: Vec<_> = (0..4)
                .map(|who| {
                    let receiver = receiver.clone();
                    kind.spawn_on(runtime, move || {
                        let (mut count, mut sum) = (0, 0);
                        loop {
                            if who < 2 {
                                let Ok(message) = receiver.recv() else {
                                    break (count, sum);
                                };
                                sum += number_of(&message);
                            } else {
                                let Ok(message) = receiver.recv_ref() else {
                                    break (count, sum);
                                };
                                sum += number_of(&message);
                                if count % 5 == 0 {
                                    umcg::yield_now();
                                }
                                assert!(number_of(&message) < EACH);
                            }
                            count += 1;
                        }
                    })
                })
                .collect();
            senders
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            let taken = receivers.into_iter().map(|worker| worker.join().unwrap());
            let (count, sum) = taken.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            assert_eq!((count, sum), (4 * EACH, 4 * (0..EACH).sum::<u64>()));
        }
    });
}

/// One waits for room, and the other for a message in place: each is served by the party that gives
/// that back.
#[test]
fn waits_in_place() {
    over("waits in place", |runtime, kind| {
        let (sender, receiver) = tube::<Large>(1);
        let inside = receiver.clone();
        let reader = kind.spawn_on(runtime, move || number_of(&inside.recv_ref().unwrap()));
        until_receivers_wait(&receiver, 1);
        let reserved = sender.reserve().unwrap();
        let inside = sender.clone();
        let reserver = kind.spawn_on(runtime, move || {
            inside.reserve().unwrap().send(large(2)).unwrap()
        });
        until_senders_wait(&sender, 1);
        reserved.send(large(1)).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
        assert_eq!(number_of(&receiver.recv_ref().unwrap()), 2);
        reserver.join().unwrap();
        // From hand to hand, where there is no place.
        let (sender, receiver) = tube::<Large>(0);
        let reader = kind.spawn_on(runtime, move || number_of(&receiver.recv_ref().unwrap()));
        sender.send(large(3)).unwrap();
        assert_eq!(reader.join().unwrap(), 3);
    });
}
