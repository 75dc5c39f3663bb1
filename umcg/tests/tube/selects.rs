//! Tubes beside other things.

use crate::support::{Counted, HOUR, counter, over};
use crate::{large, number_of, until_receivers_wait, until_senders_wait};
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use umcg::select::{Operation, Select, after};
use umcg::sync::Semaphore;
use umcg::tube::{RecvError, SendError, tube};

#[test]
fn whichever_is_ready() {
    let (full, _full) = tube(0);
    let (sender, receiver) = tube(1);
    let (empty, semaphore) = (tube::<u8>(1), Semaphore::new(0));
    for _ in 0..10 {
        umcg::select! {
            _ = full.sending(1) => unreachable!(),
            _ = empty.1.receiving() => unreachable!(),
            sent = sender.sending(2) => sent.unwrap(),
            _ = semaphore.acquiring() => unreachable!(),
        }
        umcg::select! {
            _ = empty.1.receiving() => unreachable!(),
            received = receiver.receiving() => assert_eq!(received, Ok(2)),
            () = after(HOUR) => unreachable!(),
        }
        umcg::select! {
            _ = receiver.receiving() => unreachable!(),
            default => {}
        }
    }
    full.close();
    empty.0.close();
    umcg::select! {
        sent = full.sending(1) => assert_eq!(sent, Err(SendError(1))),
    }
    umcg::select! {
        received = empty.1.receiving() => assert_eq!(received, Err(RecvError)),
    }
}

/// A message that was not sent is kept or dropped, and one that was not asked for comes next.
#[test]
fn messages_of_operations() {
    let drops = counter();
    let ((sender, receiver), (full, _empty)) = (tube(2), tube(0));
    let mut operations = [
        full.sending(Counted(drops.clone())),
        sender.sending(Counted(drops.clone())),
    ];
    assert_eq!(Select::new().wait(&mut operations), 1);
    operations[1].outcome().unwrap();
    let [first, second] = operations;
    assert!(second.into_inner().is_none());
    drop(first);
    assert_eq!(drops.load(SeqCst), 1);
    let mut sending = sender.sending(Counted(drops.clone()));
    drop(sending.replace(Counted(drops.clone())));
    assert_eq!(drops.load(SeqCst), 2);
    Select::new().wait(&mut [&mut sending]);
    assert!(sending.replace(Counted(drops.clone())).is_none());
    assert_eq!(Select::new().try_wait(&mut [&mut sending]), None);
    drop(sending);
    assert_eq!(drops.load(SeqCst), 3);

    let mut receiving = receiver.receiving();
    assert_eq!(Select::new().try_wait(&mut [&mut receiving]), Some(0));
    assert_eq!(receiver.len(), 1);
    assert_eq!(Select::new().wait(&mut [&mut receiving]), 0);
    assert_eq!(receiver.len(), 1, "what was received before comes first");
    drop(receiving.outcome());
    assert_eq!(Select::new().wait(&mut [&mut receiving]), 0);
    drop(receiving);
    assert_eq!((drops.load(SeqCst), receiver.len()), (5, 0));
}

#[test]
#[should_panic(expected = "was sent already")]
fn a_message_is_sent_once() {
    let (sender, _receiver) = tube(5);
    let mut sending = sender.sending(1);
    Select::new().wait(&mut [&mut sending]);
    Select::new().wait(&mut [&mut sending]);
}

#[test]
fn a_wait_is_served() {
    over("a wait", |runtime, kind| {
        for capacity in [0, 1] {
            let ((sender, receiver), (other, others)) = (tube(capacity), tube(capacity));
            (0..capacity).for_each(|_| other.send(large(1)).unwrap());
            let (inside, outside) = (receiver.clone(), other.clone());
            let worker = kind.spawn_on(runtime, move || {
                umcg::select! {
                    received = inside.receiving() => received.map(|message| number_of(&message)),
                    _ = outside.sending(large(2)) => Ok(0),
                }
            });
            until_receivers_wait(&receiver, 1);
            until_senders_wait(&other, 1);
            sender.send(large(5)).unwrap();
            assert_eq!(worker.join().unwrap(), Ok(5));
            assert!(sender.is_empty() && others.len() == capacity);
            assert!(capacity == 1 || others.try_recv().is_err());
        }
    });
}

/// Pairs that meet by select on both sides, in tubes of any capacity; every message once, none but
/// those.
#[test]
fn both_sides_select() {
    const EACH: u64 = 300;
    over("both sides", |runtime, kind| {
        for capacity in [0, 1] {
            let tubes = [tube::<u64>(capacity), tube::<u64>(capacity)];
            let workers: Vec<_> = (0..4)
                .map(|who| {
                    let ((s0, r0), (s1, r1)) = (tubes[0].clone(), tubes[1].clone());
                    kind.spawn_on(runtime, move || {
                        let (mut sent, mut received) = (0u64, 0u64);
                        for n in 1..=EACH {
                            // Half of them send into the one and receive from the other, half the
                            // other way.
                            let (sender, receiver) =
                                if who % 2 == 0 { (&s0, &r1) } else { (&s1, &r0) };
                            umcg::select! {
                                done = sender.sending(n) => { done.unwrap(); sent += n; }
                                message = receiver.receiving() => received += message.unwrap(),
                                () = after(Duration::from_millis(5)) => {}
                            }
                        }
                        (sent, received)
                    })
                })
                .collect();
            let all = workers.into_iter().map(|worker| worker.join().unwrap());
            let (sent, received) = all.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            let left: u64 = tubes
                .iter()
                .flat_map(|(_, receiver)| receiver.try_iter())
                .sum();
            assert_eq!(sent, received + left);
        }
    });
}

/// Receivers that wait for any of many tubes, and threads among them.
#[test]
fn any_of_many() {
    over("any of many", |runtime, kind| {
        let tubes: Vec<_> = (0..12).map(|n| tube::<u64>(n % 3)).collect();
        let receivers: Vec<_> = tubes.iter().map(|(_, receiver)| receiver.clone()).collect();
        let receive = move || {
            let mut operations: Vec<_> = receivers
                .iter()
                .map(|receiver| receiver.receiving())
                .collect();
            let mut sum = 0;
            while !operations.is_empty() {
                let index = Select::new().wait(&mut operations);
                match operations[index].outcome() {
                    Ok(message) => sum += message,
                    Err(RecvError) => drop(operations.swap_remove(index)),
                }
            }
            sum
        };
        let thread = std::thread::spawn(receive.clone());
        let workers: Vec<_> = (0..3)
            .map(|_| kind.spawn_on(runtime, receive.clone()))
            .collect();
        let senders: Vec<_> = tubes
            .into_iter()
            .map(|(sender, _)| {
                kind.spawn_on(runtime, move || {
                    (1..=100).for_each(|n| sender.send(n).unwrap())
                })
            })
            .collect();
        drop(receive);
        senders
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let sum: u64 = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum();
        assert_eq!(sum + thread.join().unwrap(), 12 * 5050);
    });
}
