//! Workers that are asked to end, and deadlines, while others send and receive.

use crate::support::{Counted, Kind, counter, over};
use crate::{Large, large, number_of, until_receivers_wait, until_senders_wait};
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use umcg::tube::{RecvTimeoutError, SendTimeoutError, tube};
use umcg::{JoinError, Runtime};

/// A send that is cancelled has sent nothing, and drops its message.
#[test]
fn a_cancelled_sender_sends_nothing() {
    over("cancelled sender", |runtime, kind| {
        let (sender, receiver) = tube(1);
        sender.send(None).unwrap();
        let drops = counter();
        let (inside, message) = (sender.clone(), Some(Counted(drops.clone())));
        let worker = kind.spawn_on(runtime, move || inside.send(message).unwrap());
        until_senders_wait(&sender, 1);
        worker.abort();
        assert!(matches!(worker.join(), Err(JoinError::Cancelled)));
        assert_eq!(drops.load(SeqCst), 1);
        assert!(receiver.recv().unwrap().is_none());
        assert!(receiver.try_recv().is_err());
    });
}

#[test]
fn a_cancelled_receiver_takes_nothing() {
    over("cancelled receiver", |runtime, kind| {
        let (sender, receiver) = tube(1);
        let inside = receiver.clone();
        let worker = kind.spawn_on(runtime, move || inside.recv().unwrap());
        until_receivers_wait(&receiver, 1);
        worker.abort();
        assert!(matches!(worker.join(), Err(JoinError::Cancelled)));
        sender.send(5).unwrap();
        assert_eq!(receiver.try_recv(), Ok(5));
    });
}

/// Each message is received by one or is still there, whichever party is asked to end while it is
/// on its way.
fn aborted_at_any_time(runtime: &Runtime, kind: Kind, capacity: usize, receives_async: bool) {
    for turn in 0..if receives_async { 20 } else { 60 } {
        let (sender, receiver) = tube::<Counted>(capacity);
        let (drops, sent, received) = (counter(), counter(), counter());
        let send = || {
            let (sender, drops, sent) = (sender.clone(), drops.clone(), sent.clone());
            kind.spawn_on(runtime, move || {
                while sender.send(Counted(drops.clone())).is_ok() {
                    sent.fetch_add(1, SeqCst);
                }
            })
        };
        let receive = || {
            let (receiver, received) = (receiver.clone(), received.clone());
            kind.spawn_on(runtime, move || {
                let next = || {
                    if receives_async {
                        umcg::block_on(receiver.recv_async())
                    } else {
                        receiver.recv()
                    }
                };
                std::iter::from_fn(|| next().ok()).for_each(|message| {
                    std::mem::forget(message);
                    received.fetch_add(1, SeqCst);
                });
            })
        };
        let senders: Vec<_> = (0..3).map(|_| send()).collect();
        let receivers: Vec<_> = (0..3).map(|_| receive()).collect();
        for _ in 0..turn {
            std::thread::yield_now();
        }
        let all: Vec<_> = senders.into_iter().chain(receivers).collect();
        let number = if turn % 2 == 0 { 6 } else { 2 };
        (0..number).for_each(|n| all[(turn + 5 * n) % 6].abort());
        std::thread::yield_now();
        receiver.close();
        all.into_iter().for_each(|worker| drop(worker.join()));
        let left = receiver.try_iter().map(std::mem::forget).count();
        assert_eq!(
            received.load(SeqCst) + left,
            sent.load(SeqCst),
            "turn {turn}"
        );
    }
}

#[test]
fn nothing_is_lost_by_an_abort() {
    over("aborts", |runtime, kind| {
        for capacity in [0, 1, 5] {
            aborted_at_any_time(runtime, kind, capacity, false);
        }
    });
}

/// A worker that is unwound drops its future, which may have been given a message by then.
#[test]
fn nothing_is_lost_by_an_abort_of_a_future() {
    over("aborts of futures", |runtime, kind| {
        for capacity in [0, 2] {
            aborted_at_any_time(runtime, kind, capacity, true);
        }
    });
}

/// The same with deadlines about as long as the waits.
#[test]
fn nothing_is_lost_by_a_deadline() {
    const SHORT: Duration = Duration::from_micros(20);
    over("deadlines", |runtime, kind| {
        for capacity in [0, 2] {
            let (sender, receiver) = tube::<Large>(capacity);
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let sender = sender.clone();
                    kind.spawn_on(runtime, move || {
                        let mut sent = 0;
                        for n in 0..200 {
                            match sender.send_timeout(large(n), SHORT) {
                                Ok(()) => sent += n,
                                Err(SendTimeoutError::Timeout(message)) => {
                                    assert_eq!(number_of(&message), n)
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                        sent
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let receiver = receiver.clone();
                    kind.spawn_on(runtime, move || {
                        let mut received = 0;
                        loop {
                            match receiver.recv_timeout(SHORT) {
                                Ok(message) => received += number_of(&message),
                                Err(RecvTimeoutError::Timeout) => umcg::yield_now(),
                                Err(RecvTimeoutError::Disconnected) => break received,
                            }
                        }
                    })
                })
                .collect();
            let sent: u64 = senders
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum();
            sender.close();
            assert_eq!(
                receivers
                    .into_iter()
                    .map(|worker| worker.join().unwrap())
                    .sum::<u64>(),
                sent
            );
        }
    });
}
