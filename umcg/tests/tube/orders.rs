//! Who comes first is served first.

use crate::support::{Kind, over};
use crate::{large, number_of, until_receivers_wait, until_senders_wait};
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
        let worker = kind.spawn_on(runtime, move || inside.send(make(100 + n)).map_err(drop).unwrap());
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
        let received: Vec<_> = (0..sent.len()).map(|_| number(receiver.recv().unwrap())).collect();
        assert_eq!(received, sent);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
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
            assert!(receiver.try_recv().is_err(), "what was sent is for those that wait");
            let received: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
            assert_eq!(received, (0..10).collect::<Vec<_>>());
        }
    });
}
