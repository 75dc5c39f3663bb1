//! Many messages at once.

use crate::support::over;
use crate::{large, number_of, until_receivers_wait};
use std::collections::VecDeque;
use std::time::Duration;
use umcg::tube::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError, tube,
};

const SOON: Duration = Duration::from_millis(2);

#[test]
fn as_many_as_there_is_room_for() {
    let (sender, receiver) = tube(100);
    let mut batch: VecDeque<u32> = (0..250).collect();
    batch.rotate_left(50);
    assert_eq!(sender.try_send_batch(&mut batch), Ok(100));
    assert_eq!((batch.len(), batch[0]), (150, 150));
    assert_eq!(
        sender.try_send_batch(&mut batch),
        Err(TrySendError::Full(()))
    );
    assert_eq!(
        sender.send_batch_timeout(&mut batch, SOON),
        Err(SendTimeoutError::Timeout(()))
    );
    assert_eq!(batch.len(), 150);
    let mut received = vec![7];
    assert_eq!(receiver.recv_batch(&mut received, 60), Ok(60));
    assert_eq!(receiver.try_recv_batch(&mut received, 60), Ok(40));
    assert_eq!(received[1..], (50..150).collect::<Vec<_>>());
    assert_eq!(
        receiver.try_recv_batch(&mut received, 60),
        Err(TryRecvError::Empty)
    );
    assert_eq!(
        receiver.recv_batch_timeout(&mut received, 60, SOON),
        Err(RecvTimeoutError::Timeout)
    );
    assert_eq!(
        (receiver.recv_batch(&mut received, 0), received.len()),
        (Ok(0), 101)
    );
    receiver.close();
    assert_eq!(sender.send_batch(&mut batch), Err(SendError(())));
    assert_eq!((batch.len(), batch[0]), (150, 150));
    assert_eq!(receiver.recv_batch(&mut received, 60), Err(RecvError));
    assert_eq!(sender.try_send_batch(&mut VecDeque::new()), Ok(0));
}

#[test]
fn of_large_messages() {
    let (sender, receiver) = tube(10);
    let mut batch: VecDeque<_> = (0..15).map(large).collect();
    assert_eq!(sender.try_send_batch(&mut batch), Ok(10));
    assert_eq!((batch.len(), number_of(&batch[0])), (5, 10));
    let mut received = Vec::new();
    assert_eq!(receiver.recv_batch(&mut received, 4), Ok(4));
    sender.send_batch(&mut batch.drain(..4).collect()).unwrap();
    assert_eq!(receiver.recv_batch(&mut received, 99), Ok(10));
    assert_eq!(
        received.iter().map(number_of).collect::<Vec<_>>(),
        (0..14).collect::<Vec<_>>()
    );
}

/// Batches and single messages between many; those of one sender stay in their order.
#[test]
fn in_a_crowd() {
    const EACH: u64 = 1000;
    over("batches", |runtime, kind| {
        for capacity in [0, 1, 50] {
            let (sender, receiver) = tube(capacity);
            let senders: Vec<_> = (0..4)
                .map(|who| {
                    let sender = sender.clone();
                    kind.spawn_on(runtime, move || {
                        let mut left: VecDeque<u64> = (0..EACH).map(|n| who * EACH + n).collect();
                        while !left.is_empty() {
                            if who % 2 == 0 {
                                let mut some: VecDeque<_> =
                                    left.drain(..left.len().min(37)).collect();
                                sender.send_batch(&mut some).unwrap();
                            } else {
                                sender.send(left.pop_front().unwrap()).unwrap();
                            }
                        }
                    })
                })
                .collect();
            drop(sender);
            let receivers: Vec<_> = (0..3)
                .map(|who| {
                    let receiver = receiver.clone();
                    kind.spawn_on(runtime, move || {
                        let mut messages = Vec::new();
                        loop {
                            if who == 0 {
                                let Ok(message) = receiver.recv() else {
                                    break messages;
                                };
                                messages.push(message);
                            } else if receiver.recv_batch(&mut messages, 1 + 40 * who).is_err() {
                                break messages;
                            }
                        }
                    })
                })
                .collect();
            senders
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            let mut all = Vec::new();
            for receiver in receivers {
                let messages = receiver.join().unwrap();
                for who in 0..4 {
                    let of_one = messages.iter().filter(|message| *message / EACH == who);
                    assert!(of_one.is_sorted());
                }
                all.extend(messages);
            }
            all.sort_unstable();
            assert_eq!(all, (0..4 * EACH).collect::<Vec<_>>());
        }
    });
}

/// A batch goes to those that wait first, and the rest into the tube.
#[test]
fn to_those_that_wait() {
    over("those that wait", |runtime, kind| {
        let (sender, receiver) = tube(2);
        let inside = receiver.clone();
        let worker = kind.spawn_on(runtime, move || inside.recv().unwrap());
        until_receivers_wait(&receiver, 1);
        let mut batch: VecDeque<_> = (0..5).collect();
        assert_eq!(sender.try_send_batch(&mut batch), Ok(3));
        assert_eq!(worker.join().unwrap(), 0);
        assert_eq!(receiver.drain().collect::<Vec<_>>(), [1, 2]);
    });
}
