//! The first to come is served first.

use crate::support::{Kind, over};
use crate::{large, number_of, until_receivers_wait, until_senders_wait};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use umcg::tube::{Receiver, Sender, tube};
use umcg::{JoinHandle, Runtime};

/// Workers that wait to send 100, 101, and so on, in that order.
fn waiting_senders<T: Send + 'static>(
    runtime: &Runtime,
    kind: Kind,
    sender: &Sender<T>,
    make: fn(u64) -> T,
) -> Vec<JoinHandle<()>> {
    let wait = |n: u64| {
        let inside = sender.clone();
        let worker = kind.spawn_on(runtime, move || {
            inside.send(make(100 + n)).map_err(drop).unwrap()
        });
        until_senders_wait(sender, n as usize + 1);
        worker
    };
    (0..10).map(wait).collect()
}

fn senders_in_order<T: Send + 'static>(capacity: usize, make: fn(u64) -> T, number: fn(T) -> u64) {
    over("senders in order", |runtime, kind| {
        let (sender, receiver) = tube::<T>(capacity);
        (0..capacity as u64).for_each(|n| sender.send(make(n)).map_err(drop).unwrap());
        let workers = waiting_senders(runtime, kind, &sender, make);
        let sent: Vec<_> = (0..capacity as u64).chain(100..110).collect();
        let received: Vec<_> = (0..sent.len())
            .map(|_| number(receiver.recv().unwrap()))
            .collect();
        assert_eq!(received, sent);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn senders_that_wait_are_received_in_their_order() {
    senders_in_order(0, |n| n, |n| n);
    senders_in_order(3, |n| n, |n| n);
    senders_in_order(0, large, |message| number_of(&message));
    senders_in_order(3, large, |message| number_of(&message));
}

#[test]
fn receivers_that_wait_are_served_in_their_order() {
    over("receivers in order", |runtime, kind| {
        for capacity in [0, 2] {
            let (sender, receiver) = tube(capacity);
            let wait = |n: usize| {
                let inside: Receiver<u64> = receiver.clone();
                let worker = kind.spawn_on(runtime, move || inside.recv().unwrap());
                until_receivers_wait(&receiver, n + 1);
                worker
            };
            let workers: Vec<_> = (0..10).map(wait).collect();
            (0..10).for_each(|n| sender.send(n).unwrap());
            assert!(
                receiver.try_recv().is_err(),
                "what was sent is for those that wait"
            );
            let received: Vec<_> = workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect();
            assert_eq!(received, (0..10).collect::<Vec<_>>());
        }
    });
}

/// A message that comes back while all room is held is received before those that are committed
/// later, whatever becomes of the room.
#[test]
fn what_comes_back_is_before_what_is_committed_later() {
    for (capacity, back) in [(1, 1), (2, 1), (2, 2), (3, 3)] {
        let (sender, receiver) = tube(capacity);
        let mut reserved: Vec<_> = (0..capacity).map(|_| sender.reserve().unwrap()).collect();
        let mut receivers: Vec<_> = (0..back).map(|_| Box::pin(receiver.recv_async())).collect();
        let mut context = Context::from_waker(Waker::noop());
        receivers
            .iter_mut()
            .for_each(|future| assert!(future.as_mut().poll(&mut context).is_pending()));
        (1..=back).for_each(|number| sender.send(number).unwrap());
        drop(receivers);
        // A waiting sender comes behind all of them.
        let mut waiting = pin!(sender.send_async(100));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        if capacity == 3 {
            // Room that is not used is for the first that came back.
            drop(reserved.pop());
        }
        let last = back + reserved.len();
        reserved
            .into_iter()
            .zip(back + 1..)
            .for_each(|(room, number)| room.send(number).unwrap());
        let received: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        let sent: Vec<_> = (1..=last).chain([100]).collect();
        assert_eq!(received, sent, "room for {capacity}, {back} back");
    }
}
