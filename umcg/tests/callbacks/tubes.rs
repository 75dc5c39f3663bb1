//! Tubes: each operation that sends, receives or closes, with futures that stand on the other side.

use crate::ledger::{Ledger, Thing};
use crate::parties::{Myself, each, forgive};
use crate::support::HOUR;
use crate::trap::{Bad, Point, Trap};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Waker};
use std::time::Instant;
use umcg::select::{Operation, Select, Selectable, Set};
use umcg::tube::{Receiver, Sender, tube};

/// The state in which an operation finds the tube.
struct World<const N: usize> {
    sender: Option<Sender<Thing<N>>>,
    receiver: Option<Receiver<Thing<N>>>,
    ledger: &'static Ledger,
    trap: &'static Trap,
}

impl<const N: usize> World<N> {
    fn tx(&self) -> &Sender<Thing<N>> {
        self.sender.as_ref().expect("expected: it was dropped")
    }

    fn rx(&self) -> &Receiver<Thing<N>> {
        self.receiver.as_ref().expect("expected: it was dropped")
    }

    fn thing(&self) -> Thing<N> {
        Thing::new(self.ledger, self.trap)
    }

    /// Not dropped by the operation itself.
    fn waker(&self) -> &'static Waker {
        Box::leak(Box::new(self.trap.waker().0))
    }

    fn things<C: FromIterator<Thing<N>>>(&self) -> C {
        (0..2).map(|_| self.thing()).collect()
    }
}

/// The waiter that stands there when the operation comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Two futures that want to receive.
    Receivers,
    /// Two that want to send, the tube being full.
    Senders,
    /// No waiter; the tube is full.
    Nobody,
}
use Stand::{Nobody, Receivers, Senders};

struct Row<const N: usize> {
    name: &'static str,
    stand: &'static [Stand],
    /// In tubes without room, too.
    without_room: bool,
    operation: fn(&mut World<N>),
}

/// Each operation. Its result belongs to the caller, which drops it.
macro_rules! rows {
    ($($name:literal, $stand:expr, $without_room:literal: |$w:ident| $operation:expr;)*) => {
        fn rows<const N: usize>() -> Vec<Row<N>> {
            vec![$(Row {
                name: $name,
                stand: &$stand,
                without_room: $without_room,
                operation: |$w| {
                    let _done = $operation;
                },
            }),*]
        }
    };
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

fn soon() -> Instant {
    Instant::now() + HOUR
}

rows! {
    "send", [Receivers], true: |w| w.tx().send(w.thing());
    "try_send", [Receivers, Senders], true: |w| w.tx().try_send(w.thing());
    "send_timeout", [Receivers], true: |w| w.tx().send_timeout(w.thing(), HOUR);
    "send_deadline", [Receivers], true: |w| w.tx().send_deadline(w.thing(), soon());
    "send, too late", [Senders, Nobody], true: |w| w.tx().send_deadline(w.thing(), Instant::now());
    "send_batch", [Receivers], true: |w| {
        let mut batch: VecDeque<_> = w.things();
        let sent = w.tx().send_batch(&mut batch);
        (batch, sent)
    };
    "try_send_batch", [Receivers, Senders], true: |w| {
        let mut batch: VecDeque<_> = w.things();
        let sent = w.tx().try_send_batch(&mut batch);
        (batch, sent)
    };
    "send_batch_timeout", [Receivers], true: |w| {
        let mut batch: VecDeque<_> = w.things();
        let sent = w.tx().send_batch_timeout(&mut batch, HOUR);
        (batch, sent)
    };
    "send_batch_deadline", [Receivers], true: |w| {
        let mut batch: VecDeque<_> = w.things();
        let sent = w.tx().send_batch_deadline(&mut batch, soon());
        (batch, sent)
    };
    "send_async, polled", [Receivers, Senders, Nobody], true: |w| {
        let waker = w.waker();
        let mut future = w.tx().send_async(w.thing());
        let sent = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker).is_some()));
        // Once more, by another waker; then it is given up.
        let again = catch_unwind(AssertUnwindSafe(|| {
            let is_sent = sent.as_ref().is_ok_and(|sent| *sent);
            (!is_sent).then(|| poll(&mut future, Waker::noop()))
        }));
        (future.into_inner(), again, sent)
    };
    "send_async, served", [Nobody], true: |w| {
        let waker = w.waker();
        let mut future = w.tx().send_async(w.thing());
        let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker)));
        let received = catch_unwind(AssertUnwindSafe(|| w.rx().try_recv()));
        let sent = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker)));
        (future, received, sent)
    };
    "send_async, dropped", [Senders, Nobody], true: |w| {
        let waker = w.waker();
        let mut future = w.tx().send_async(w.thing());
        poll(&mut future, waker)
    };
    "reserve, commit", [Receivers], false: |w|
        w.tx().reserve().map(|room| room.write(w.thing()).commit());
    "reserve, send", [Receivers], false: |w| w.tx().reserve().map(|room| room.send(w.thing()));
    "try_reserve, commit", [Receivers], false: |w|
        w.tx().try_reserve().map(|room| room.write(w.thing()).commit());
    "reserve_timeout, dropped", [Receivers], false: |w| w.tx().reserve_timeout(HOUR).map(drop);
    "reserve_deadline, filled and dropped", [Receivers], false: |w|
        w.tx().reserve_deadline(soon()).map(|room| drop(room.write(w.thing())));
    "reserve, commit to a closed tube", [Receivers], false: |w| {
        let room = w.tx().reserve();
        w.rx().close();
        room.map(|room| room.send(w.thing()))
    };
    "room that was reserved, given back", [Nobody], false: |w| {
        w.rx().try_iter().for_each(drop);
        let room = w.tx().reserve();
        while w.tx().try_send(w.thing()).is_ok() {}
        let waker = w.waker();
        let mut future = w.tx().send_async(w.thing());
        let polled = poll(&mut future, waker);
        drop(room);
        let again = polled.is_none().then(|| poll(&mut future, Waker::noop()));
        (polled, again)
    };
    "Select, sending", [Receivers], true: |w| {
        let mut sending = w.tx().sending(w.thing());
        Select::new().wait(&mut [&mut sending]);
        sending.outcome()
    };
    "Select, sending beside receiving", [Receivers], true: |w| {
        let (_idle, idle) = tube::<u8>(0);
        let mut sending = w.tx().sending(w.thing());
        Select::new().wait(&mut [&mut sending as &mut dyn Selectable, &mut idle.receiving()]);
        sending.into_inner()
    };
    "Select::try_wait, sending", [Receivers, Senders], true: |w| {
        let mut sending = w.tx().sending(w.thing());
        Select::new().try_wait(&mut [&mut sending]);
        sending.into_inner()
    };
    "Select::wait_timeout, sending", [Receivers], true: |w| {
        let mut sending = w.tx().sending(w.thing());
        Select::new().wait_timeout(&mut [&mut sending], HOUR);
        sending.into_inner()
    };
    "sending, replaced", [Receivers], true: |w| {
        let mut sending = w.tx().sending(w.thing());
        let first = sending.replace(w.thing());
        Select::new().wait(&mut [&mut sending]);
        first
    };
    "Set, sending", [Receivers], true: |w| {
        let mut set = Set::new([w.tx().sending(w.thing())]);
        let waited = catch_unwind(AssertUnwindSafe(|| set.wait()));
        // It was done nevertheless; the next message is sent next.
        let next = set.get_mut(0).replace(w.thing());
        let again = catch_unwind(AssertUnwindSafe(|| set.wait_timeout(HOUR)));
        (set, waited, next, again)
    };
    "Set::try_wait, sending", [Receivers, Senders], true: |w| {
        let mut set = Set::new([w.tx().sending(w.thing())]);
        let tried = catch_unwind(AssertUnwindSafe(|| set.try_wait()));
        (set, tried)
    };
    "recv", [Senders, Nobody], false: |w| w.rx().recv();
    "recv, from hand to hand", [Senders], true: |w| w.rx().recv();
    "try_recv", [Receivers, Senders, Nobody], true: |w| w.rx().try_recv();
    "recv_timeout", [Senders], true: |w| w.rx().recv_timeout(HOUR);
    "recv_deadline", [Senders], true: |w| w.rx().recv_deadline(soon());
    "recv, too late", [Receivers], true: |w| w.rx().recv_deadline(Instant::now());
    "recv_batch", [Senders], true: |w| {
        let mut batch = Vec::new();
        let received = w.rx().recv_batch(&mut batch, 2);
        (batch, received)
    };
    "try_recv_batch", [Receivers, Senders], true: |w| {
        let mut batch = Vec::new();
        let received = w.rx().try_recv_batch(&mut batch, 9);
        (batch, received)
    };
    "recv_batch_timeout", [Senders], true: |w| {
        let mut batch = Vec::new();
        let received = w.rx().recv_batch_timeout(&mut batch, 9, HOUR);
        (batch, received)
    };
    "recv_batch_deadline", [Senders], true: |w| {
        let mut batch = Vec::new();
        let received = w.rx().recv_batch_deadline(&mut batch, 9, soon());
        (batch, received)
    };
    "recv_async, polled", [Receivers, Senders, Nobody], true: |w| {
        let waker = w.waker();
        let mut future = w.rx().recv_async();
        let received = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker)));
        let again = catch_unwind(AssertUnwindSafe(|| poll(&mut future, Waker::noop())));
        (future, received, again)
    };
    "recv_async, served", [Nobody], true: |w| {
        w.rx().try_iter().for_each(drop);
        let waker = w.waker();
        let mut future = w.rx().recv_async();
        let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker)));
        let sent = catch_unwind(AssertUnwindSafe(|| w.tx().try_send(w.thing())));
        let received = catch_unwind(AssertUnwindSafe(|| poll(&mut future, waker)));
        (future, sent, received)
    };
    "recv_async, dropped when it was served", [Receivers], true: |w| {
        w.rx().try_iter().for_each(drop);
        let waker = w.waker();
        let (mut first, mut second) = (w.rx().recv_async(), w.rx().recv_async());
        let polled = (poll(&mut first, waker), poll(&mut second, waker));
        let twice = || [(); 2].map(|()| w.tx().try_send(w.thing()));
        let sent = catch_unwind(AssertUnwindSafe(twice));
        drop(first);
        (second, polled, sent)
    };
    "recv_ref", [Senders], true: |w| w.rx().recv_ref();
    "recv_ref, taken out", [Senders], true: |w|
        w.rx().recv_ref().map(umcg::tube::Received::into_inner);
    "try_recv_ref", [Receivers, Senders, Nobody], true: |w| w.rx().try_recv_ref();
    "recv_ref_timeout", [Senders], true: |w| w.rx().recv_ref_timeout(HOUR);
    "recv_ref_deadline", [Senders], true: |w| w.rx().recv_ref_deadline(soon());
    "Select, receiving", [Senders], true: |w| {
        let mut receiving = w.rx().receiving();
        Select::new().wait(&mut [&mut receiving]);
        receiving.outcome()
    };
    "Select, receiving beside sending", [Senders], true: |w| {
        let (idle, _idle) = tube::<u8>(0);
        let mut receiving = w.rx().receiving();
        Select::new().wait(&mut [&mut receiving as &mut dyn Selectable, &mut idle.sending(1)]);
        receiving
    };
    "Select::try_wait, receiving", [Receivers, Senders], true: |w| {
        let mut receiving = w.rx().receiving();
        Select::new().try_wait(&mut [&mut receiving]);
        receiving
    };
    "Select::wait_deadline, receiving", [Senders], true: |w| {
        let mut receiving = w.rx().receiving();
        Select::new().wait_deadline(&mut [&mut receiving], soon());
        receiving
    };
    "Set, receiving", [Senders], true: |w| {
        let mut set = Set::new([w.rx().receiving()]);
        let first = catch_unwind(AssertUnwindSafe(|| set.wait()));
        let first = first.map(|index| set.outcome(index));
        let second = catch_unwind(AssertUnwindSafe(|| set.wait_timeout(HOUR)));
        (set, first, second)
    };
    "Set::try_wait, receiving", [Receivers, Senders], true: |w| {
        let mut set = Set::new([w.rx().receiving()]);
        let tried = catch_unwind(AssertUnwindSafe(|| set.try_wait()));
        (set, tried)
    };
    "iter", [Senders], true: |w| w.rx().iter().next();
    "into_iter", [Senders], true: |w| {
        let mut messages = w.receiver.take().map(IntoIterator::into_iter);
        let first = catch_unwind(AssertUnwindSafe(|| messages.as_mut().and_then(Iterator::next)));
        (messages, first)
    };
    "try_iter", [Receivers, Senders, Nobody], true: |w| w.rx().try_iter().collect::<Vec<_>>();
    "drain", [Receivers, Senders, Nobody], true: |w| w.rx().drain().collect::<Vec<_>>();
    "close", [Receivers, Senders, Nobody], true: |w| w.tx().close();
    "close, of a receiver", [Receivers, Senders, Nobody], true: |w| w.rx().close();
    "the last sender goes", [Receivers, Nobody], true: |w| w.sender.take();
    "the last receiver goes", [Senders, Nobody], true: |w| w.receiver.take();
    "both ends go", [Nobody], true: |w| {
        let receiver = w.receiver.take();
        (w.sender.take(), receiver)
    };
    "send to nobody", [Senders, Nobody], true: |w| {
        w.receiver = None;
        w.tx().try_send(w.thing())
    };
    "Debug, len and the like", [Receivers, Senders], true: |w|
        (
            format!("{:?} {:?}", w.tx(), w.rx()),
            (w.tx().len(), w.rx().is_full(), w.tx().same_channel(w.tx())),
        );
}

/// Futures that stand in a tube, each with the number of its calls.
type Standing<'a> = Vec<(Box<dyn Future<Output = ()> + Unpin + 'a>, Arc<AtomicUsize>)>;

/// One operation, and the state it finds.
#[derive(Clone, Debug)]
struct Case {
    row: usize,
    name: &'static str,
    stand: Stand,
    capacity: usize,
    point: Point,
}

fn cases<const N: usize>(bad: Bad) -> Vec<Case> {
    const POINTS: [Point; 4] = [
        Point::Wake,
        Point::CloneWaker,
        Point::DropWaker,
        Point::Drop,
    ];
    let mut cases = Vec::new();
    for (
        row,
        Row {
            name,
            stand,
            without_room,
            ..
        },
    ) in rows::<N>().into_iter().enumerate()
    {
        for stand in stand {
            // Futures that have received a large message keep its place until they are polled.
            let has_places = |capacity: &usize| N <= 1024 || *stand != Receivers || *capacity != 1;
            for capacity in (usize::from(!without_room)..=2).filter(has_places) {
                for point in POINTS.into_iter().filter(|point| point.may(bad)) {
                    cases.push(Case {
                        row,
                        name,
                        stand: *stand,
                        capacity,
                        point,
                    });
                }
            }
        }
    }
    cases
}

fn scenario<const N: usize>(case: &Case, bad: Bad, ledger: &'static Ledger, myself: &Myself) {
    let Case {
        row,
        name,
        stand,
        capacity,
        point,
    } = *case;
    let trap = Trap::new(point, bad, myself);
    let (sender, receiver) = tube::<Thing<N>>(capacity);
    let for_futures = (stand == Senders).then(|| sender.clone());
    let for_receivers = (stand == Receivers).then(|| receiver.clone());
    let mut world = World {
        sender: Some(sender),
        receiver: Some(receiver),
        ledger,
        trap,
    };
    if stand != Receivers {
        while world.tx().try_send(world.thing()).is_ok() {}
    }
    let (tx, rx) = (world.tx().clone(), world.rx().clone());
    trap.holds((tx.clone(), rx.clone()));
    trap.reenters(move || {
        let _ = (rx.try_recv(), tx.try_send(Thing::new(ledger, trap)));
        let _ = (tx.len(), rx.is_empty());
        let _ = Select::new().try_wait(&mut [&mut rx.receiving()]);
        tx.close();
    });
    let mut standing: Standing<'_> = Vec::new();
    for _ in 0..2 {
        let (waker, calls) = trap.waker();
        let mut future: Box<dyn Future<Output = ()> + Unpin + '_> =
            match (&for_futures, &for_receivers) {
                (Some(sender), _) => Box::new(Box::pin(async {
                    drop(sender.send_async(Thing::new(ledger, trap)).await)
                })),
                (_, Some(receiver)) => {
                    Box::new(Box::pin(async { drop(receiver.recv_async().await) }))
                }
                (None, None) => break,
            };
        assert!(poll(&mut future, &waker).is_none());
        standing.push((future, calls));
    }
    trap.arm();
    let operation = rows::<N>().swap_remove(row).operation;
    let ended = catch_unwind(AssertUnwindSafe(|| operation(&mut world)));
    trap.disarm();
    for (mut future, calls) in standing {
        let is_served = poll(&mut future, Waker::noop()).is_some();
        let is_called = calls.load(SeqCst) > 0;
        assert!(!is_served || is_called, "{name}: served, and not called");
    }
    drop((for_futures, for_receivers));
    drop(world);
    forgive(bad, || ended.unwrap_or_else(|panic| resume_unwind(panic)));
}

fn all<const N: usize>(name: &'static str) {
    each(name, cases::<N>, scenario::<N>, |case| format!("{case:?}"));
}

#[test]
fn small_messages() {
    all::<8>("small messages");
}

/// In place they lie beside the guard.
#[test]
fn messages_of_some_size() {
    all::<600>("messages of some size");
}

#[test]
fn large_messages() {
    all::<1500>("large messages");
}
