//! Sending and receiving as futures: polled by hand, by workers, and dropped at each point.

use crate::support::{Counted, counter, over};
use crate::{field, large, until_receivers_wait, until_senders_wait};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use umcg::block_on;
use umcg::select::Select;
use umcg::tube::{RecvError, RecvFuture, SendError, SendFuture, TryRecvError, tube};

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
    Polled {
        future,
        calls: Arc::default(),
    }
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
    // A future that was not called calls no other.
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
fn a_sender_that_was_served_and_is_dropped_has_sent() {
    for capacity in [0, 1] {
        let (sender, receiver) = tube(capacity);
        let drops = counter();
        let counted = || Counted(drops.clone());
        (0..capacity).for_each(|_| sender.send(counted()).unwrap());
        let [first, mut second, third, fourth] =
            [(); 4].map(|()| polled(sender.send_async(counted())).waits());
        drop(receiver.recv());
        assert_eq!(
            (drops.load(SeqCst), first.calls(), second.calls()),
            (1, 1, 0)
        );
        // Sent: the fate of the future does not matter to the message.
        assert!(first.future.into_inner().is_none());
        assert_eq!(drops.load(SeqCst), 1);
        // Not sent: dropped with the future, or handed back.
        drop(third.future);
        assert_eq!(drops.load(SeqCst), 2);
        drop(fourth.future.into_inner().unwrap());
        assert_eq!(drops.load(SeqCst), 3);
        drop(receiver.recv());
        assert_eq!(
            (
                second.calls(),
                second.poll().is_ready(),
                field(&sender, "waiting_senders")
            ),
            (1, true, 0)
        );
        assert_eq!(sender.len(), capacity);
    }
}

/// Strong order: a message for one that waits is not there for others.
#[test]
fn nobody_takes_what_a_future_was_given() {
    for capacity in [0, 4] {
        let (sender, receiver) = tube(capacity);
        let [mut first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
        sender.try_send(1).unwrap();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert!(polled(receiver.recv_async()).poll().is_pending());
        sender.try_send(2).unwrap();
        assert_eq!((first.calls(), second.calls()), (1, 1));
        assert_eq!(
            (second.poll(), first.poll()),
            (Poll::Ready(Ok(2)), Poll::Ready(Ok(1)))
        );
        assert_eq!(sender.try_send(3).is_ok(), capacity > 0);
    }
}

/// One order for all that wait: a future, a thread, a future, a `select`.
#[test]
fn futures_wait_in_the_order_of_all() {
    for capacity in [0, 1] {
        let (sender, receiver) = tube(capacity);
        thread::scope(|scope| {
            let mut first = polled(receiver.recv_async()).waits();
            let second = scope.spawn(|| receiver.recv().unwrap());
            until_receivers_wait(&receiver, 2);
            let mut third = polled(receiver.recv_async()).waits();
            let fourth = scope
                .spawn(|| umcg::select! { received = receiver.receiving() => received.unwrap() });
            until_receivers_wait(&receiver, 4);
            (1..=4).for_each(|number| sender.send(number).unwrap());
            assert_eq!((second.join().unwrap(), fourth.join().unwrap()), (2, 4));
            assert_eq!(
                (third.poll(), first.poll()),
                (Poll::Ready(Ok(3)), Poll::Ready(Ok(1)))
            );
        });
        (0..capacity as u64).for_each(|number| sender.send(number).unwrap());
        thread::scope(|scope| {
            let mut first = polled(sender.send_async(10)).waits();
            let second = scope.spawn(|| sender.send(11).unwrap());
            until_senders_wait(&sender, 2);
            let mut third = polled(sender.send_async(12)).waits();
            let fourth =
                scope.spawn(|| umcg::select! { sent = sender.sending(13) => sent.unwrap() });
            until_senders_wait(&sender, 4);
            let all: Vec<_> = (0..capacity + 4)
                .map(|_| receiver.recv().unwrap())
                .collect();
            assert_eq!(all, (0..capacity as u64).chain(10..14).collect::<Vec<_>>());
            assert_eq!(
                (third.calls(), third.poll(), first.calls(), first.poll()),
                (1, Poll::Ready(Ok(())), 1, Poll::Ready(Ok(())))
            );
            second.join().unwrap();
            fourth.join().unwrap();
        });
    }
}

/// This many futures were served, and more was sent then. Those in the bits of `dropped` are
/// dropped, from the first on or from the last on. Their messages come back before all others, so
/// that all are in their order, with those that are kept and behind them.
fn put_back<T: PartialEq + Debug>(
    capacity: usize,
    served: u64,
    behind: u64,
    dropped: u64,
    message: &impl Fn(u64) -> T,
) {
    for from_the_last in [false, true] {
        let (sender, receiver) = tube::<T>(capacity);
        let mut takers: Vec<_> = (0..served)
            .map(|index| (index, polled(receiver.recv_async()).waits()))
            .collect();
        (0..served).for_each(|number| sender.send(message(number)).unwrap());
        let mut others: Vec<_> = (served..served + behind)
            .map(|number| polled(sender.send_async(message(number))))
            .collect();
        others.iter_mut().for_each(|other| drop(other.poll()));
        if from_the_last {
            takers.reverse();
        }
        let mut kept: Vec<_> = takers
            .into_iter()
            .filter(|(index, _)| dropped >> index & 1 == 0)
            .collect();
        kept.sort_by_key(|(index, _)| *index);
        let mut received: Vec<_> = kept.iter_mut().map(|(_, taker)| taker.poll()).collect();
        received.extend(receiver.try_iter().map(|message| Poll::Ready(Ok(message))));
        let expected: Vec<_> = (0..served + behind)
            .map(|number| Poll::Ready(Ok(message(number))))
            .collect();
        assert_eq!(
            received, expected,
            "capacity {capacity}, {served} served, {behind} behind, {dropped:b} dropped"
        );
        assert_eq!(field(&sender, "waiting_senders"), 0);
    }
}

#[test]
fn a_message_that_comes_back_is_first() {
    for (capacity, served) in
        (0..4).flat_map(|capacity| (1..4).map(move |served| (capacity, served)))
    {
        for (behind, dropped) in (0..=capacity as u64 + 2)
            .flat_map(|behind| (0..1 << served).map(move |bits| (behind, bits)))
        {
            put_back(capacity, served, behind, dropped, &std::convert::identity);
            // A large one is in its place until it is polled.
            if capacity == 0 || served <= capacity as u64 {
                put_back(capacity, served, behind, dropped, &large);
            }
        }
    }
}

/// Messages of no size, of odd sizes, of wide alignment: given to a future, put back, given to the
/// next.
#[test]
fn messages_of_any_shape() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(128))]
    struct Wide(u8);

    fn through<T: Copy + PartialEq + Debug>(message: T) {
        for capacity in 0..3 {
            let (sender, receiver) = tube(capacity);
            let [first, mut second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
            sender.try_send(message).unwrap();
            drop(first.future);
            assert_eq!(
                (second.calls(), second.poll()),
                (1, Poll::Ready(Ok(message)))
            );
            let third = polled(receiver.recv_async()).waits();
            sender.try_send(message).unwrap();
            let mut others: Vec<_> = (0..3).map(|_| polled(sender.send_async(message))).collect();
            assert!(
                others
                    .iter_mut()
                    .map(|other| other.poll().is_ready())
                    .filter(|is_sent| *is_sent)
                    .count()
                    <= capacity
            );
            drop(third.future);
            assert_eq!(
                receiver
                    .try_iter()
                    .filter(|received| *received == message)
                    .count(),
                4
            );
        }
    }

    through(());
    through(7u8);
    through([1u8, 2, 3]);
    through(Wide(9));
    through([[5u64; 64]; 64]);
    through("words");
}

/// A message that comes back while all room is taken, and after a close, is received nevertheless;
/// and dropped with the last receiver.
#[test]
fn a_message_comes_back_to_a_tube_that_has_no_room_or_is_closed() {
    for capacity in [0, 2] {
        let drops = counter();
        let counted = || Counted(drops.clone());
        let (sender, receiver) = tube(capacity);
        let [first, second] = [(); 2].map(|()| polled(receiver.recv_async()).waits());
        (0..2).for_each(|_| sender.send(counted()).unwrap());
        let room: Vec<_> = (0..capacity).map(|_| sender.reserve().unwrap()).collect();
        let mut waiting = polled(sender.send_async(counted())).waits();
        drop(first);
        sender.close();
        assert!(waiting.calls() == 1 && matches!(waiting.poll(), Poll::Ready(Err(SendError(_)))));
        let before = drops.load(SeqCst);
        drop(second);
        drop(room);
        assert_eq!(drops.load(SeqCst), before, "the two are there still");
        assert!(receiver.recv().is_ok());
        assert_eq!(drops.load(SeqCst), before + 1);
        drop(receiver);
        assert_eq!(drops.load(SeqCst), before + 2);
    }
}

/// One that is forgotten stands there for ever, with a message at most.
#[test]
fn a_future_that_is_forgotten_takes_its_own_message_only() {
    let (sender, receiver) = tube(1);
    std::mem::forget(polled(receiver.recv_async()).waits());
    let mut other = polled(receiver.recv_async()).waits();
    (1..=2).for_each(|number| sender.send(number).unwrap());
    assert_eq!(other.poll(), Poll::Ready(Ok(2)));
    sender.send(3).unwrap();
    std::mem::forget(polled(sender.send_async(4)).waits());
    assert_eq!((receiver.recv(), receiver.recv()), (Ok(3), Ok(4)));
    // Nor is it in the way of the end.
    std::mem::forget(polled(receiver.recv_async()).waits());
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

/// Sends when it is called, and waits until that is received.
struct Passes(umcg::tube::Sender<u32>);

impl Wake for Passes {
    fn wake(self: Arc<Self>) {
        self.0.send(7).unwrap();
    }
}

/// A waker may do anything: wait, switch, and use the tube for which it was called.
#[test]
fn a_waker_may_wait() {
    over("a waker may wait", |runtime, kind| {
        let (sender, receiver) = tube(0);
        let waker = Waker::from(Arc::new(Passes(sender.clone())));
        let mut future = receiver.recv_async();
        assert!(
            Pin::new(&mut future)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        let caller = kind.spawn_on(runtime, {
            let sender = sender.clone();
            move || sender.send(1).unwrap()
        });
        // Sent, but the caller does not go on before the message that the waker sends is received.
        until_senders_wait(&sender, 1);
        assert_eq!(
            (polled(future).poll(), receiver.recv()),
            (Poll::Ready(Ok(1)), Ok(7))
        );
        caller.join().unwrap();
    });
}

#[test]
fn all_are_told_of_a_close() {
    let (sender, receiver) = tube::<u8>(1);
    let mut takers = [(); 2].map(|()| polled(receiver.recv_async()).waits());
    sender.close();
    for taker in &mut takers {
        assert_eq!(
            (taker.calls(), taker.poll()),
            (1, Poll::Ready(Err(RecvError)))
        );
    }
    let (sender, receiver) = tube(1);
    sender.send(0).unwrap();
    let mut givers = [1, 2].map(|number| polled(sender.send_async(number)).waits());
    drop(receiver);
    for (giver, number) in givers.iter_mut().zip(1..) {
        assert_eq!(
            (giver.calls(), giver.poll()),
            (1, Poll::Ready(Err(SendError(number))))
        );
    }
}

/// Every source of a message, or of room.
fn called_by_all<T: PartialEq + Debug>(send: impl Fn(u64) -> T) {
    let (sender, receiver) = tube::<T>(1);
    let brings: [&dyn Fn(); 5] = [
        &|| sender.reserve().unwrap().send(send(1)).unwrap(),
        &|| {
            sender
                .try_send_batch(&mut VecDeque::from([send(1)]))
                .map(drop)
                .unwrap()
        },
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
        &|| assert_eq!(receiver.recv_batch(&mut Vec::new(), 1), Ok(1)),
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

/// Without a buffer: one comes while another waits.
fn meets_all<T: PartialEq + Debug>(message: impl Fn(u64) -> T) {
    let (sender, receiver) = tube::<T>(0);
    let brings: [&dyn Fn(); 6] = [
        &|| sender.send(message(1)).unwrap(),
        &|| sender.try_send(message(1)).unwrap(),
        &|| {
            sender
                .send_timeout(message(1), crate::support::HOUR)
                .unwrap()
        },
        &|| {
            sender
                .try_send_batch(&mut VecDeque::from([message(1)]))
                .map(drop)
                .unwrap()
        },
        &|| umcg::select! { sent = sender.sending(message(1)) => sent.unwrap() },
        &|| block_on(sender.send_async(message(1))).unwrap(),
    ];
    for bring in brings {
        let mut future = polled(receiver.recv_async()).waits();
        bring();
        assert_eq!(
            (future.calls(), future.poll()),
            (1, Poll::Ready(Ok(message(1))))
        );
    }
    let takes: [&dyn Fn() -> T; 7] = [
        &|| receiver.recv().unwrap(),
        &|| receiver.try_recv().unwrap(),
        &|| receiver.recv_timeout(crate::support::HOUR).unwrap(),
        &|| receiver.recv_ref().unwrap().into_inner(),
        &|| {
            let mut messages = Vec::new();
            assert_eq!(receiver.recv_batch(&mut messages, 3), Ok(1));
            messages.remove(0)
        },
        &|| umcg::select! { received = receiver.receiving() => received.unwrap() },
        &|| block_on(receiver.recv_async()).unwrap(),
    ];
    for take in takes {
        let mut future = polled(sender.send_async(message(2))).waits();
        assert_eq!(take(), message(2));
        assert_eq!((future.calls(), future.poll()), (1, Poll::Ready(Ok(()))));
    }
    // A future that was selected, and does not ask for its result.
    let mut future = polled(receiver.recv_async()).waits();
    let mut sending = sender.sending(message(3));
    assert_eq!(
        Select::new().try_wait(std::slice::from_mut(&mut sending)),
        Some(0)
    );
    assert_eq!(
        (future.calls(), future.poll()),
        (1, Poll::Ready(Ok(message(3))))
    );
}

#[test]
fn futures_of_a_tube_without_room_meet_all() {
    meets_all(std::convert::identity);
    meets_all(large);
}

/// They may go to executors of many threads.
#[test]
fn futures_may_be_sent() {
    fn is_send<T: Send>() {}
    is_send::<SendFuture<'_, Vec<u8>>>();
    is_send::<RecvFuture<'_, Vec<u8>>>();
}

/// Between futures and workers, each way, everything comes through, and the messages of one sender
/// in its order.
#[test]
fn futures_and_workers() {
    for capacity in [0, 3] {
        through(capacity);
    }
}

fn through(capacity: usize) {
    const EACH: u64 = 300;
    over("futures and workers", |runtime, kind| {
        let (sender, receiver) = tube(capacity);
        let senders: Vec<_> = (0..4_u64)
            .map(|which| {
                let sender = sender.clone();
                kind.spawn_on(runtime, move || {
                    for number in 0..EACH {
                        let message = (which, number);
                        if which % 2 == 0 {
                            block_on(sender.send_async(message))
                        } else {
                            sender.send(message)
                        }
                        .unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let receivers: Vec<_> = (0..4)
            .map(|which| {
                let receiver = receiver.clone();
                kind.spawn_on(runtime, move || {
                    let next = || {
                        if which % 2 == 0 {
                            block_on(receiver.recv_async())
                        } else {
                            receiver.recv()
                        }
                    };
                    std::iter::from_fn(|| next().ok()).collect::<Vec<_>>()
                })
            })
            .collect();
        senders
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let taken: Vec<Vec<(u64, u64)>> = receivers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        for messages in &taken {
            for which in 0..4 {
                let of_one = messages.iter().filter(|message| message.0 == which);
                assert!(of_one.is_sorted());
            }
        }
        let mut all = taken.concat();
        all.sort_unstable();
        assert_eq!(
            all,
            (0..4)
                .flat_map(|which| (0..EACH).map(move |number| (which, number)))
                .collect::<Vec<_>>()
        );
    });
}

/// Polls so often, and gives the future up then.
fn some_polls<F: Future + Unpin>(future: &mut F, polls: u64) -> Option<F::Output> {
    let mut left = polls;
    block_on(std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match Pin::new(&mut *future).poll(context) {
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

/// Futures that are given up after this many polls, among others: each sent message is received
/// once, and no waiter is left waiting for a message that is there.
#[test]
fn futures_that_are_given_up() {
    for capacity in [0, 2] {
        given_up(capacity);
    }
}

fn given_up(capacity: usize) {
    over("futures that are given up", |runtime, kind| {
        let (sender, receiver) = tube(capacity);
        let sent = counter();
        let senders: Vec<_> = (0..3_u64)
            .map(|which| {
                let (sender, sent) = (sender.clone(), sent.clone());
                kind.spawn_on(runtime, move || {
                    for turn in 0..200 {
                        let polls = if which == 0 {
                            u64::MAX
                        } else {
                            1 + 2 * ((turn + which) % 3)
                        };
                        let mut future = sender.send_async(turn);
                        some_polls(&mut future, polls);
                        if future.into_inner().is_none() {
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
                        let polls = if which == 0 {
                            u64::MAX
                        } else {
                            1 + 2 * ((turn + which) % 3)
                        };
                        match some_polls(&mut receiver.recv_async(), polls) {
                            Some(Ok(_)) => received += 1,
                            Some(Err(RecvError)) => break,
                            None => umcg::yield_now(),
                        }
                    }
                    received
                })
            })
            .collect();
        senders
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let received: usize = receivers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum();
        assert_eq!(received, sent.load(SeqCst));
    });
}

/// The place of a forgotten future stays, and is in no other's way when the tube goes.
#[test]
fn a_tube_outlives_forgotten_futures() {
    for capacity in [0, 1] {
        let (sender, receiver) = tube::<u8>(capacity);
        let mut context = Context::from_waker(Waker::noop());
        let mut future = receiver.recv_async();
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        std::mem::forget(future);
        drop((sender, receiver));
        let (sender, receiver) = tube::<u8>(capacity);
        (0..capacity).for_each(|_| sender.send(1).unwrap());
        let mut future = sender.send_async(2);
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        std::mem::forget(future);
        drop((sender, receiver));
    }
}
