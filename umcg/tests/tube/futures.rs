//! Sending and receiving as futures: polled by hand, by workers, and dropped at each point.

use crate::large;
use crate::support::{Counted, counter, over};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use umcg::block_on;
use umcg::tube::{RecvError, RecvFuture, SendError, SendFuture, tube};

/// Counts its calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future with a waker of its own.
struct Polled<F> {
    future: F,
    calls: Arc<Calls>,
}

fn polled<F>(future: F) -> Polled<F> {
    Polled { future, calls: Arc::default() }
}

impl<F: Future + Unpin> Polled<F> {
    fn poll(&mut self) -> Poll<F::Output> {
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&Waker::from(self.calls.clone())))
    }

    /// It has to wait.
    #[track_caller]
    fn waits(mut self) -> Self {
        assert!(self.poll().is_pending());
        assert_eq!(self.calls(), 0);
        self
    }

    /// How often it was called since it was last asked.
    fn calls(&self) -> usize {
        self.calls.0.swap(0, SeqCst)
    }
}

#[test]
fn a_message_calls_the_first_receiver() {
    let (sender, receiver) = tube(4);
    let [mut first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.send(1).unwrap();
    assert_eq!((first.calls(), second.calls()), (1, 0));
    sender.try_send(2).unwrap();
    assert_eq!((first.calls(), second.calls()), (0, 1));
    assert_eq!(first.poll(), Poll::Ready(Ok(1)));
    assert_eq!(second.poll(), Poll::Ready(Ok(2)));
    // For the next message.
    assert!(first.poll().is_pending());
    sender.send(3).unwrap();
    assert_eq!((first.calls(), first.poll()), (1, Poll::Ready(Ok(3))));
}

#[test]
fn room_calls_the_first_sender() {
    let (sender, receiver) = tube(1);
    sender.send(0).unwrap();
    let [mut first, mut second] = [1, 2].map(|number| polled(sender.send_async(number)).waits());
    assert_eq!(receiver.recv(), Ok(0));
    assert_eq!((first.calls(), second.calls()), (1, 0));
    assert_eq!(first.poll(), Poll::Ready(Ok(())));
    assert!(second.poll().is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!((second.calls(), second.poll()), (1, Poll::Ready(Ok(()))));
    assert_eq!(receiver.recv(), Ok(2));
}

#[test]
fn a_receiver_that_was_called_and_is_dropped_calls_the_next() {
    let (sender, receiver) = tube(4);
    let [first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.send(1).unwrap();
    drop(first.future);
    assert_eq!((second.calls(), second.poll()), (1, Poll::Ready(Ok(1))));
    // One that was not called calls nobody.
    let [first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    drop(first.future);
    assert_eq!(second.calls(), 0);
    sender.send(2).unwrap();
    assert_eq!((second.calls(), second.poll()), (1, Poll::Ready(Ok(2))));
    // The last one: the message stays.
    let last = polled(receiver.recv_async()).waits();
    sender.send(3).unwrap();
    drop(last.future);
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn a_sender_that_was_called_and_is_dropped_calls_the_next() {
    let (sender, receiver) = tube(1);
    let drops = counter();
    let counted = || Counted(drops.clone());
    sender.send(counted()).unwrap();
    let [first, mut second] = [(); 2].map(|()| polled(sender.send_async(counted())).waits());
    std::mem::forget(receiver.recv());
    drop(first.future);
    assert_eq!(drops.load(SeqCst), 1, "the message is dropped with the future");
    assert_eq!((second.calls(), second.poll().is_ready()), (1, true));
    let third = polled(sender.send_async(counted())).waits();
    assert!(third.future.into_inner().is_some());
    assert_eq!(drops.load(SeqCst), 2);
    assert_eq!(sender.len(), 1);
}

#[test]
fn who_comes_too_late_is_first_again() {
    let (sender, receiver) = tube(4);
    let [mut first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(first.calls() == 1 && first.poll().is_pending());
    sender.send(2).unwrap();
    assert_eq!((first.calls(), second.calls()), (1, 0));
    // Who has received leaves the rest to the next.
    let mut batch = VecDeque::from([3, 4]);
    sender.send_batch(&mut batch).unwrap();
    assert_eq!((first.poll(), second.calls(), second.poll()), (Poll::Ready(Ok(2)), 1, Poll::Ready(Ok(3))));
    assert_eq!(receiver.recv(), Ok(4));
}

#[test]
fn one_that_did_not_need_its_call_passes_it_on() {
    let (sender, receiver) = tube(4);
    let [mut first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    let mut third = polled(receiver.recv_async());
    assert_eq!(third.poll(), Poll::Ready(Ok(1)));
    assert_eq!((first.calls(), second.calls()), (1, 1));
    assert_eq!(second.poll(), Poll::Ready(Ok(2)));
    assert!(first.poll().is_pending());
    sender.send(3).unwrap();
    assert_eq!((first.calls(), first.poll()), (1, Poll::Ready(Ok(3))));
}

#[test]
fn a_new_waker_takes_the_place_of_the_old_one() {
    let (sender, receiver) = tube(1);
    let mut future = polled(receiver.recv_async()).waits();
    let old = std::mem::take(&mut future.calls);
    assert!(future.poll().is_pending());
    sender.send(1).unwrap();
    assert_eq!((old.0.load(SeqCst), future.calls()), (0, 1));
}

#[test]
fn all_are_told_of_a_close() {
    let (sender, receiver) = tube::<u8>(1);
    let mut takers = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.close();
    for taker in &mut takers {
        assert_eq!((taker.calls(), taker.poll()), (1, Poll::Ready(Err(RecvError))));
    }
    let (sender, receiver) = tube(1);
    sender.send(0).unwrap();
    let mut givers = [1, 2].map(|number| polled(sender.send_async(number)).waits());
    drop(receiver);
    for (giver, number) in givers.iter_mut().zip(1..) {
        assert_eq!((giver.calls(), giver.poll()), (1, Poll::Ready(Err(SendError(number)))));
    }
}

/// Whatever brings a message, or room.
fn called_by_all<T: PartialEq + Debug>(send: impl Fn(u64) -> T) {
    let (sender, receiver) = tube::<T>(1);
    let brings: [&dyn Fn(); 5] = [
        &|| sender.reserve().unwrap().send(send(1)).unwrap(),
        &|| sender.try_send_batch(&mut VecDeque::from([send(1)])).map(drop).unwrap(),
        &|| sender.send_timeout(send(1), crate::support::HOUR).unwrap(),
        &|| umcg::select! { sent = sender.sending(send(1)) => sent.unwrap() },
        &|| drop(block_on(sender.send_async(send(1)))),
    ];
    for bring in brings {
        let mut future = polled(receiver.recv_async()).waits();
        bring();
        assert_eq!(future.calls(), 1);
        assert_eq!(future.poll(), Poll::Ready(Ok(send(1))));
    }
    let takes: [&dyn Fn(); 6] = [
        &|| drop(receiver.recv_ref()),
        &|| drop(receiver.recv_ref().unwrap().into_inner()),
        &|| assert_eq!(receiver.recv_batch(&mut Vec::new(), 3), Ok(1)),
        &|| drop(receiver.recv_timeout(crate::support::HOUR).unwrap()),
        &|| umcg::select! { received = receiver.receiving() => drop(received) },
        &|| drop(block_on(receiver.recv_async()).unwrap()),
    ];
    for take in takes {
        sender.send(send(1)).unwrap();
        let mut future = polled(sender.send_async(send(2))).waits();
        take();
        assert_eq!(future.calls(), 1);
        assert!(future.poll().is_ready());
        drop(receiver.recv());
    }
    let reserved = sender.reserve().unwrap();
    let mut future = polled(sender.send_async(send(2))).waits();
    drop(reserved);
    assert_eq!((future.calls(), future.poll().is_ready()), (1, true));
}

#[test]
fn whatever_brings_something_calls() {
    called_by_all(large);
    called_by_all(std::convert::identity);
}

#[test]
#[should_panic(expected = "capacity 0")]
fn there_is_no_future_without_room_to_send() {
    drop(tube::<u8>(0).0.send_async(1));
}

#[test]
#[should_panic(expected = "capacity 0")]
fn there_is_no_future_without_room_to_receive() {
    drop(tube::<u8>(0).1.recv_async());
}

/// They may go to executors of many threads.
#[test]
fn futures_may_be_sent() {
    fn is_send<T: Send>() {}
    is_send::<SendFuture<'_, Vec<u8>>>();
    is_send::<RecvFuture<'_, Vec<u8>>>();
}

/// Between futures and workers, each way, everything comes through, and what one sends in its order.
#[test]
fn futures_and_workers() {
    const EACH: u64 = 300;
    over("futures and workers", |runtime, kind| {
        let (sender, receiver) = tube(3);
        let senders: Vec<_> = (0..4_u64)
            .map(|which| {
                let sender = sender.clone();
                kind.spawn_on(runtime, move || {
                    for number in 0..EACH {
                        let message = (which, number);
                        if which % 2 == 0 { block_on(sender.send_async(message)) } else { sender.send(message) }.unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let receivers: Vec<_> = (0..4)
            .map(|which| {
                let receiver = receiver.clone();
                kind.spawn_on(runtime, move || {
                    let next = || if which % 2 == 0 { block_on(receiver.recv_async()) } else { receiver.recv() };
                    std::iter::from_fn(|| next().ok()).collect::<Vec<_>>()
                })
            })
            .collect();
        senders.into_iter().for_each(|worker| worker.join().unwrap());
        let taken: Vec<Vec<(u64, u64)>> = receivers.into_iter().map(|worker| worker.join().unwrap()).collect();
        for (messages, which) in taken.iter().flat_map(|messages| (0..4).map(move |which| (messages, which))) {
            assert!(messages.iter().filter(|message| message.0 == which).is_sorted());
        }
        let mut all = taken.concat();
        all.sort_unstable();
        assert_eq!(all, (0..4).flat_map(|which| (0..EACH).map(move |number| (which, number))).collect::<Vec<_>>());
    });
}

/// Polls so often, and gives the future up then.
fn some_polls<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    block_on(std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                if left % 2 == 0 {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }))
}

/// Futures that are given up after so many polls, among others: what was sent is received once, and nobody is left waiting for what is there.
#[test]
fn futures_that_are_given_up() {
    over("futures that are given up", |runtime, kind| {
        let (sender, receiver) = tube(2);
        let sent = counter();
        let senders: Vec<_> = (0..3_u64)
            .map(|which| {
                let (sender, sent) = (sender.clone(), sent.clone());
                kind.spawn_on(runtime, move || {
                    for turn in 0..200 {
                        let polls = if which == 0 { u64::MAX } else { 1 + 2 * ((turn + which) % 3) };
                        if some_polls(sender.send_async(turn), polls).is_some_and(|sent| sent.is_ok()) {
                            sent.fetch_add(1, SeqCst);
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        let receivers: Vec<_> = (0..3_u64)
            .map(|which| {
                let receiver = receiver.clone();
                kind.spawn_on(runtime, move || {
                    let mut received = 0;
                    for turn in 0.. {
                        let polls = if which == 0 { u64::MAX } else { 1 + 2 * ((turn + which) % 3) };
                        match some_polls(receiver.recv_async(), polls) {
                            Some(Ok(_)) => received += 1,
                            Some(Err(RecvError)) => break,
                            None => umcg::yield_now(),
                        }
                    }
                    received
                })
            })
            .collect();
        senders.into_iter().for_each(|worker| worker.join().unwrap());
        let received: usize = receivers.into_iter().map(|worker| worker.join().unwrap()).sum();
        assert_eq!(received, sent.load(SeqCst));
    });
}
