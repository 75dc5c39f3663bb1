//! The effect of each call by itself, where no caller has to wait.

use crate::support::{Counted, HOUR, counter};
use crate::{Large, large, number_of};
use std::collections::HashSet;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::tube::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError, tube,
};

const SOON: Duration = Duration::from_millis(2);

#[test]
fn first_in_first_out() {
    let (sender, receiver) = tube(3);
    for turn in 0..10 {
        for n in 0..3 {
            sender.send(turn * 3 + n).unwrap();
        }
        assert!(sender.is_full() && receiver.len() == 3);
        assert_eq!(sender.try_send(99), Err(TrySendError::Full(99)));
        for n in 0..3 {
            assert_eq!(receiver.recv(), Ok(turn * 3 + n));
        }
        assert!(receiver.is_empty() && !sender.is_full());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    }
    assert_eq!(sender.capacity(), 3);
}

#[test]
fn large_messages_too() {
    let (sender, receiver) = tube::<Large>(3);
    for turn in 0..10 {
        for n in 0..3 {
            sender.try_send(large(turn * 3 + n)).unwrap();
        }
        assert!(sender.is_full());
        assert_eq!(
            number_of(&sender.try_send(large(99)).unwrap_err().into_inner()),
            99
        );
        for n in 0..3 {
            assert_eq!(number_of(&receiver.try_recv().unwrap()), turn * 3 + n);
        }
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    }
}

/// Messages of no size, of odd sizes, of wide alignment.
#[test]
fn messages_of_any_shape() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(128))]
    struct Wide(u8);
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C, packed)]
    struct Odd(u8, u32, [u8; 250]);

    fn through<T: Copy + PartialEq + std::fmt::Debug>(message: T) {
        let (sender, receiver) = tube(2);
        for _ in 0..5 {
            sender.send(message).unwrap();
            sender.send(message).unwrap();
            assert!(sender.try_send(message).is_err());
            assert_eq!(
                (receiver.recv().unwrap(), *receiver.recv_ref().unwrap()),
                (message, message)
            );
            sender.reserve().unwrap().send(message).unwrap();
            assert_eq!(receiver.recv(), Ok(message));
        }
        let apart = tube(0);
        assert!(apart.0.try_send(message).is_err() && apart.1.try_recv().is_err());
    }

    through(());
    through(7u8);
    through([1u8, 2, 3]);
    through(Odd(1, 2, [3; 250]));
    through(Wide(9));
    through([u128::MAX; 3]);
    through([[5u64; 64]; 64]);
    through("words");
}

#[test]
fn deadlines_that_pass() {
    let (sender, receiver) = tube(1);
    let begun = Instant::now();
    assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
    assert_eq!(
        receiver.recv_deadline(begun),
        Err(RecvTimeoutError::Timeout)
    );
    sender.send(1).unwrap();
    assert_eq!(
        sender.send_timeout(2, SOON),
        Err(SendTimeoutError::Timeout(2))
    );
    assert_eq!(
        sender.send_deadline(2, begun),
        Err(SendTimeoutError::Timeout(2))
    );
    assert!(begun.elapsed() >= 2 * SOON);
    assert_eq!(receiver.recv_timeout(HOUR), Ok(1));
    sender.send_timeout(3, Duration::ZERO).unwrap();
    assert_eq!(receiver.recv_deadline(begun), Ok(3));
    let (sender, receiver) = tube(0);
    assert_eq!(
        sender.send_timeout(1, SOON),
        Err(SendTimeoutError::Timeout(1))
    );
    assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
}

#[test]
fn what_is_left_is_dropped() {
    let drops = counter();
    let (sender, receiver) = tube(8);
    for _ in 0..5 {
        sender.send(Counted(drops.clone())).unwrap();
    }
    drop(receiver.recv().unwrap());
    assert_eq!(drops.load(SeqCst), 1);
    // With the last receiver, though there are senders.
    drop(receiver);
    assert_eq!(drops.load(SeqCst), 5);
    drop(sender.send(Counted(drops.clone())).unwrap_err());
    assert_eq!(drops.load(SeqCst), 6);
    let (sender, receiver) = tube(8);
    sender.send(Counted(drops.clone())).unwrap();
    drop(sender);
    assert_eq!(drops.load(SeqCst), 6);
    drop(receiver);
    assert_eq!(drops.load(SeqCst), 7);
}

/// A message whose drop panics does not keep the others.
#[test]
fn drops_that_panic() {
    struct Bad(Option<Counted>);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(self.0.is_some(), "expected");
        }
    }
    crate::support::silence_what_is_expected();
    let drops = counter();
    let (sender, receiver) = tube(4);
    for n in 0..4 {
        sender
            .send(Bad((n != 1).then(|| Counted(drops.clone()))))
            .map_err(drop)
            .unwrap();
    }
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn ends_are_counted() {
    let (sender, receiver) = tube::<u8>(1);
    let (another, third) = (sender.clone(), receiver.clone());
    assert_eq!((sender.sender_count(), receiver.receiver_count()), (2, 2));
    assert!(sender.same_channel(&another) && receiver.same_channel(&third));
    assert!(!sender.same_channel(&tube(1).0));
    drop((sender, receiver));
    assert!(!another.is_closed());
    another.send(1).unwrap();
    drop(another);
    assert!(third.is_closed());
    assert_eq!(third.recv(), Ok(1));
    assert_eq!(third.recv(), Err(RecvError));
}

#[test]
fn iterators() {
    let (sender, receiver) = tube(10);
    (0..10).for_each(|n| sender.send(n).unwrap());
    assert_eq!(receiver.try_iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(receiver.iter().take(2).sum::<i32>(), 7);
    assert_eq!(receiver.drain().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    assert_eq!(sender.send(1), Err(SendError(1)));
    let (sender, receiver) = tube(4);
    (0..4).for_each(|n| sender.send(n).unwrap());
    drop(sender);
    let mut seen = HashSet::new();
    for message in &receiver {
        seen.insert(message);
        if message == 1 {
            break;
        }
    }
    seen.extend(receiver);
    assert_eq!(seen.len(), 4);
}

/// The words of the errors, and their parts.
#[test]
fn errors_say_what_they_mean() {
    assert_eq!(SendError(1).to_string(), "the tube is closed");
    assert_eq!(TrySendError::Full(1).to_string(), "the tube has no room");
    assert_eq!(
        SendTimeoutError::Timeout(1).to_string(),
        "the time has passed"
    );
    assert_eq!(RecvError.to_string(), "the tube is closed and empty");
    assert_eq!(TryRecvError::Empty.to_string(), "the tube has no message");
    assert_eq!(
        RecvTimeoutError::from(RecvError),
        RecvTimeoutError::Disconnected
    );
    assert_eq!(TrySendError::from(SendError(4)).into_inner(), 4);
    assert!(SendTimeoutError::from(SendError(4)).is_disconnected());
    assert_eq!(format!("{:?}", TrySendError::Full(drop::<u8>)), "Full(..)");
}

#[test]
#[should_panic(expected = "tube: no memory")]
fn too_much() {
    let _ = tube::<u64>(1 << 28);
}

/// Ends may go between threads, and messages need not be shared by any.
#[test]
fn ends_go_between_threads() {
    fn may_go<T: Send + Sync>(_: &T) {}
    let (sender, receiver) = tube(1);
    may_go(&sender);
    may_go(&receiver);
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(std::cell::Cell::new(1)));
        assert_eq!(receiver.recv().unwrap().get(), 1);
    });
}
