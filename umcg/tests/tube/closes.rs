//! The end of a tube.

use crate::support::{Counted, counter, over};
use crate::{large, number_of, until_receivers_wait, until_senders_wait};
use std::sync::atomic::Ordering::*;
use umcg::tube::{RecvError, SendError, TryRecvError, TrySendError, tube};

/// Those that wait are told, and have their messages back.
#[test]
fn those_that_wait_are_told() {
    over("told", |runtime, kind| {
        for capacity in [0, 1] {
            let (sender, receiver) = tube(capacity);
            (0..capacity).for_each(|n| sender.send(n).unwrap());
            let inside = sender.clone();
            let worker = kind.spawn_on(runtime, move || inside.send(77));
            until_senders_wait(&sender, 1);
            receiver.close();
            assert_eq!(worker.join().unwrap(), Err(SendError(77)));
            assert_eq!(receiver.iter().count(), capacity);

            let (sender, receiver) = tube::<u8>(capacity);
            let inside = receiver.clone();
            let workers = [1, 2].map(|_| {
                let inside = inside.clone();
                kind.spawn_on(runtime, move || inside.recv())
            });
            until_receivers_wait(&receiver, 2);
            sender.close();
            workers
                .into_iter()
                .for_each(|worker| assert_eq!(worker.join().unwrap(), Err(RecvError)));
        }
    });
}

/// The last end of either side closes the tube for the other.
#[test]
fn the_last_end_closes() {
    over("the last end", |runtime, kind| {
        let (sender, receiver) = tube::<u64>(1);
        let inside = receiver.clone();
        let worker = kind.spawn_on(runtime, move || inside.iter().sum::<u64>());
        let another = sender.clone();
        sender.send(1).unwrap();
        drop(sender);
        another.send(2).unwrap();
        drop(another);
        assert_eq!(worker.join().unwrap(), 3);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));

        let drops = counter();
        let (sender, receiver) = tube(1);
        sender.send(Counted(drops.clone())).unwrap();
        let (inside, message) = (sender.clone(), Counted(drops.clone()));
        let worker = kind.spawn_on(runtime, move || inside.send(message).is_err());
        until_senders_wait(&sender, 1);
        drop(receiver);
        assert!(worker.join().unwrap());
        assert_eq!(drops.load(SeqCst), 2);
        assert!(matches!(
            sender.try_send(Counted(drops.clone())),
            Err(TrySendError::Disconnected(_))
        ));
    });
}

#[test]
fn what_is_there_can_be_received() {
    let (sender, receiver) = tube(5);
    (0..5).for_each(|n| sender.send(large(n)).unwrap());
    sender.close();
    assert!(receiver.is_closed() && receiver.len() == 5);
    assert_eq!(number_of(&sender.send(large(9)).unwrap_err().0), 9);
    assert_eq!(number_of(&receiver.recv().unwrap()), 0);
    assert_eq!(
        receiver
            .iter()
            .map(|message| number_of(&message))
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    receiver.close();
    assert_eq!(receiver.recv(), Err(RecvError));
}

/// A tube that is sent through itself goes with its last receiver, and so do the other messages in
/// it.
#[test]
fn a_tube_within_itself() {
    struct Message(
        #[allow(dead_code, reason = "dropped")] umcg::tube::Sender<Message>,
        #[allow(dead_code, reason = "dropped")] Counted,
    );
    let drops = counter();
    let (sender, receiver) = tube(3);
    for _ in 0..3 {
        sender
            .send(Message(sender.clone(), Counted(drops.clone())))
            .map_err(drop)
            .unwrap();
    }
    drop((sender, receiver));
    assert_eq!(drops.load(SeqCst), 3);
}

/// Every message that was sent is received once, whichever party closes, and at any time.
#[test]
fn nothing_is_lost_by_a_close() {
    over("nothing is lost", |runtime, kind| {
        for turn in 0..20 {
            let (sender, receiver) = tube(turn % 3);
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let sender = sender.clone();
                    kind.spawn_on(runtime, move || {
                        (0..).take_while(|n| sender.send(*n).is_ok()).count()
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    let receiver = receiver.clone();
                    kind.spawn_on(runtime, move || receiver.iter().count())
                })
                .collect();
            let first = receiver.iter().take(turn * 3).count();
            sender.close();
            let sent: usize = senders
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum();
            let received: usize = receivers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum();
            assert_eq!(sent, first + received + receiver.drain().count());
        }
    });
}
