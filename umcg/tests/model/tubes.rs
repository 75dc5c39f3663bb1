//! Tubes: orders of waiting, and the crossing of waits for one of many.

#[path = "../checked/tubes.rs"]
mod checked;
mod futures;

use crate::check;
use crate::parties::{
    NEVER, SOON, clock, deadline_if, ender, join_all, party, until_it_waits, worker,
};
use crate::rt::wait;
use crate::rt::wait::{Place, SelectQueue};
use crate::select::engine;
use crate::select::operation::{Operation, OperationParts};
use crate::select::order::LookOrder;
use crate::tube::core::{NO_MORE, TRY};
use crate::tube::ends::{self, Receiver, Sender};
use crate::tube::error::SendError;
use crate::tube::layout::Layout;
use crate::tube::waiting::TransferError;
use checked::{Halves, Message, Tube, make, receive, send, whole};
use shuttle::sync::atomic::AtomicBool;
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::thread;
use std::cell::Cell;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

fn close(tube: &Tube) {
    wait::undisturbed(|served| tube.close(served));
}

/// The longest waiter is received first, by any receiver.
fn in_the_order_of_waiting(is_large: bool, capacity: usize) {
    let tube = make(is_large, capacity);
    (1..=capacity as u64).for_each(|number| send(tube, number, SOON).unwrap());
    let senders = [100, 101].map(|number| {
        let (task, sender) = party(true, move || send(tube, number, NEVER).unwrap());
        until_it_waits(task);
        sender
    });
    let taken: Vec<_> = (0..capacity + 2)
        .map(|_| receive(tube, NEVER).unwrap())
        .collect();
    let sent: Vec<_> = (1..=capacity as u64).chain([100, 101]).collect();
    assert_eq!(taken, sent);
    join_all(senders);
}

#[test]
fn waiting_senders_are_received_in_their_order() {
    for test in [
        || check(|| on_a_task(|| in_the_order_of_waiting(false, 0))),
        || check(|| on_a_task(|| in_the_order_of_waiting(false, 1))),
        || check(|| on_a_task(|| in_the_order_of_waiting(true, 1))),
        || check(|| on_a_task(|| in_the_order_of_waiting(true, 2))),
    ] {
        test();
    }
}

/// The test's own thread as a party.
fn on_a_task(f: impl FnOnce() + Send + 'static) {
    worker(f).join().unwrap();
}

/// A message that was sent while a receiver waits cannot be taken by a later one.
fn nobody_is_overtaken(is_large: bool, capacity: usize) {
    let tube = make(is_large, capacity);
    let (task, receiver) = party(true, move || receive(tube, NEVER).unwrap());
    until_it_waits(task);
    on_a_task(move || {
        send(tube, 7, NEVER).unwrap();
        let mut message: Message = [0; 2];
        // SAFETY: a place for one.
        let received = unsafe { tube.try_receive((&raw mut message).cast()) };
        assert_eq!(received, Err(TransferError::WouldBlock));
    });
    assert_eq!(receiver.join().unwrap(), 7);
}

#[test]
fn a_message_for_who_waits_is_not_taken_by_another() {
    check(|| nobody_is_overtaken(false, 0));
    check(|| nobody_is_overtaken(false, 2));
    check(|| nobody_is_overtaken(true, 2));
}

/// A waiter whose time passes, or that is asked to end, has sent or taken nothing, or all.
fn revoked(is_large: bool, capacity: usize, is_worker: bool, by_deadline: bool, is_sender: bool) {
    let tube = make(is_large, capacity);
    let deadline = deadline_if(by_deadline);
    let (task, one) = party(is_worker, move || {
        if is_sender {
            send(tube, 9, deadline).map(|()| 9)
        } else {
            receive(tube, deadline)
        }
    });
    let end = ender(task, by_deadline);
    let other = worker(move || {
        if is_sender {
            receive(tube, 2 * SOON).ok()
        } else {
            send(tube, 9, 2 * SOON).is_ok().then_some(9)
        }
    });
    let done = one.join().unwrap().ok();
    end.join().unwrap();
    let clock = thread::spawn(|| crate::kernel::advance(2 * SOON));
    let other = other.join().unwrap();
    clock.join().unwrap();
    let left = tube.len() as u64;
    let (sent, received) = if is_sender {
        (done, other)
    } else {
        (other, done)
    };
    assert_eq!(
        u64::from(sent.is_some()),
        u64::from(received.is_some()) + left,
        "{sent:?} {received:?}"
    );
}

#[test]
fn a_revoked_sender_has_sent_nothing() {
    check(|| revoked(false, 0, true, true, true));
    check(|| revoked(false, 0, true, false, true));
    check(|| revoked(false, 0, false, true, true));
    check(|| revoked(true, 0, true, true, true));
}

#[test]
fn a_revoked_receiver_has_taken_nothing() {
    check(|| revoked(false, 0, true, true, false));
    check(|| revoked(false, 1, true, true, false));
    check(|| revoked(false, 1, true, false, false));
    check(|| revoked(false, 1, false, true, false));
    check(|| revoked(true, 1, true, true, false));
}

/// A sent message is received, and a sender that failed is told so: nothing is sent after the
/// close, and no caller waits.
fn closed_meanwhile(is_large: bool, capacity: usize) {
    let tube = make(is_large, capacity);
    let senders: Vec<_> = (1..=2)
        .map(|number| worker(move || send(tube, number, NEVER).is_ok()))
        .collect();
    let receivers: Vec<_> = (0..2)
        .map(|_| worker(move || receive(tube, NEVER).ok()))
        .collect();
    let closer = worker(move || close(tube));
    let sent = join_all(senders).into_iter().filter(|sent| *sent).count();
    closer.join().unwrap();
    let received: Vec<_> = join_all(receivers).into_iter().flatten().collect();
    let left: Vec<_> =
        on_a_task_of(move || std::iter::from_fn(|| receive(tube, NEVER).ok()).collect::<Vec<_>>());
    assert_eq!(sent, received.len() + left.len());
    assert!(!received.iter().any(|message| left.contains(message)));
}

fn on_a_task_of<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    worker(f).join().unwrap()
}

#[test]
fn a_tube_is_closed_meanwhile() {
    check(|| closed_meanwhile(false, 0));
    check(|| closed_meanwhile(false, 1));
    check(|| closed_meanwhile(true, 1));
    check(|| closed_meanwhile(true, 0));
}

/// Room that is taken, and given back or filled, beside senders that wait for room.
fn reserved(is_large: bool, commits: bool) {
    let tube = make(is_large, 1);
    let reserver = worker(move || {
        let slot = tube.reserve(NEVER).unwrap();
        let message: Message = [50; 2];
        thread::yield_now();
        if !commits {
            return wait::undisturbed(|served| tube.release(slot, served));
        }
        if is_large {
            // SAFETY: the place is held.
            unsafe { Halves { is_large }.copy((&raw const message).cast(), tube.at(slot)) };
            assert!(wait::undisturbed(|served| tube.commit(slot, served)));
        } else {
            // SAFETY: a message, for the place that is held.
            assert!(wait::undisturbed(|served| unsafe {
                tube.commit_from((&raw const message).cast(), served)
            }));
        }
    });
    let sender = worker(move || (1..=2).for_each(|number| send(tube, number, NEVER).unwrap()));
    let receiver = worker(move || {
        (0..2 + u64::from(commits))
            .map(|_| receive(tube, NEVER).unwrap())
            .collect::<Vec<_>>()
    });
    join_all([reserver, sender]);
    let taken = receiver.join().unwrap();
    let of_sender: Vec<_> = taken
        .iter()
        .copied()
        .filter(|message| *message != 50)
        .collect();
    assert_eq!(of_sender, [1, 2]);
    assert_eq!(tube.len(), 0);
    assert!(
        on_a_task_of(move || tube.try_reserve().is_ok()),
        "the room was not given back"
    );
}

#[test]
fn room_is_taken_and_given_back() {
    check(|| reserved(false, true));
    check(|| reserved(false, false));
    check(|| reserved(true, true));
    check(|| reserved(true, false));
}

/// A receiver that reads in place keeps its place from all others, and a waiter for one gets it.
fn read_in_place(capacity: usize, readers: u64, copiers: u64) {
    let tube = make(true, capacity);
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            worker(move || {
                let slot = tube.receive_slot(NEVER).unwrap();
                let at = tube.at(slot).cast::<Message>();
                // SAFETY: the place is held.
                let before = unsafe { at.read() };
                thread::yield_now();
                // SAFETY: as above.
                assert_eq!(before, unsafe { at.read() });
                wait::undisturbed(|served| tube.release(slot, served));
                whole(before)
            })
        })
        .collect();
    let copiers: Vec<_> = (0..copiers)
        .map(|_| worker(move || receive(tube, NEVER).unwrap()))
        .collect();
    let all = readers.len() + copiers.len();
    let senders: Vec<_> = (1..=all as u64)
        .map(|number| worker(move || send(tube, number, NEVER).unwrap()))
        .collect();
    join_all(senders);
    let mut taken = join_all(readers.into_iter().chain(copiers));
    taken.sort_unstable();
    assert_eq!(taken, (1..=all as u64).collect::<Vec<_>>());
}

#[test]
fn messages_are_read_in_place() {
    check(|| read_in_place(1, 2, 0));
    check(|| read_in_place(1, 1, 1));
    check(|| read_in_place(2, 2, 1));
}

/// One of the things that a party waits for.
struct Want {
    tube: &'static Tube,
    is_send: bool,
    message: Box<Cell<Message>>,
    place: Place,
    outcome: Cell<Option<bool>>,
}

fn to_send(tube: &'static Tube, number: u64) -> Want {
    Want {
        tube,
        is_send: true,
        message: Box::new(Cell::new([number; 2])),
        place: Place::new(),
        outcome: Cell::new(None),
    }
}

fn to_receive(tube: &'static Tube) -> Want {
    Want {
        is_send: false,
        ..to_send(tube, 0)
    }
}

struct Wants<const N: usize>([Want; N]);

impl<const N: usize> engine::Alternatives for Wants<N> {
    fn len(&self) -> usize {
        N
    }

    fn queue(&self, index: usize) -> Option<&dyn SelectQueue> {
        let want = &self.0[index];
        Some(if want.is_send {
            want.tube.sending()
        } else {
            want.tube.receiving()
        })
    }

    fn place(&self, index: usize) -> &Place {
        &self.0[index].place
    }

    fn note(&self, index: usize) -> usize {
        self.0[index].message.as_ptr().expose_provenance()
    }

    fn finish(&self, index: usize, note: usize) -> bool {
        if note != TRY {
            assert_eq!(
                self.0[index].outcome.replace(Some(note != NO_MORE)),
                None,
                "done twice"
            );
        }
        note != TRY
    }
}

/// Exactly one of them: which, and the message that went.
fn first_of<const N: usize>(wants: [Want; N], deadline: u64) -> Option<(usize, u64)> {
    let wants = Wants(wants);
    let index = engine::any(&wants, LookOrder::in_turn(N), &"test", deadline);
    let done: Vec<_> = (0..N)
        .filter(|index| wants.0[*index].outcome.get().is_some())
        .collect();
    assert_eq!(done, Vec::from_iter(index));
    index.map(|index| (index, whole(wants.0[index].message.get())))
}

/// Two that wait for either of two tubes, one to send and the other to receive, or both ways: they
/// meet in exactly one.
fn crossing(is_large: bool, is_worker: bool) {
    let tubes = [make(is_large, 0), make(is_large, 0)];
    let one = party(is_worker, move || {
        first_of([to_send(tubes[0], 1), to_receive(tubes[1])], NEVER)
    })
    .1;
    let other = worker(move || first_of([to_send(tubes[1], 2), to_receive(tubes[0])], NEVER));
    let (one, other) = (one.join().unwrap().unwrap(), other.join().unwrap().unwrap());
    assert_eq!(one.1, other.1);
    assert_eq!((one.0, other.0), if one.1 == 1 { (0, 1) } else { (1, 0) });
}

#[test]
fn two_that_wait_for_many_meet() {
    check(|| crossing(false, true));
    check(|| crossing(false, false));
    check(|| crossing(true, true));
}

/// Three around two tubes: two meet, and the third with the fourth, which comes plainly.
fn in_a_crowd(capacity: usize) {
    let tubes = [make(false, capacity), make(false, capacity)];
    let senders: Vec<_> = (1..=2)
        .map(|n| {
            worker(move || first_of([to_send(tubes[0], n), to_send(tubes[1], n)], NEVER).unwrap())
        })
        .collect();
    let either =
        worker(move || first_of([to_receive(tubes[1]), to_receive(tubes[0])], NEVER).unwrap());
    let sent = worker(move || {
        // The remaining message is in either tube.
        let other = first_of([to_receive(tubes[0]), to_receive(tubes[1])], NEVER).unwrap();
        other.1
    });
    let mut taken = [either.join().unwrap().1, sent.join().unwrap()];
    taken.sort_unstable();
    assert_eq!(taken, [1, 2]);
    join_all(senders);
    assert_eq!(tubes.map(Tube::len), [0, 0]);
}

#[test]
fn many_that_wait_for_many() {
    check(|| in_a_crowd(0));
    check(|| in_a_crowd(1));
}

/// One that would send to itself does not; one of a tube with room may, and takes it back.
#[test]
fn nobody_meets_itself() {
    check(|| {
        let tube = make(false, 0);
        let both = worker(move || first_of([to_receive(tube), to_send(tube, 1)], SOON));
        let clock = clock();
        assert_eq!(both.join().unwrap(), None);
        clock.join().unwrap();
    });
    check(|| {
        let tube = make(false, 0);
        let both = worker(move || first_of([to_receive(tube), to_send(tube, 1)], NEVER));
        let other = worker(move || first_of([to_send(tube, 2), to_receive(tube)], NEVER));
        let (both, other) = (
            both.join().unwrap().unwrap(),
            other.join().unwrap().unwrap(),
        );
        assert_eq!(both.1, other.1);
    });
    check(|| {
        let tube = make(false, 1);
        let both = worker(move || first_of([to_receive(tube), to_send(tube, 1)], NEVER).unwrap());
        let other = worker(move || receive(tube, NEVER).unwrap());
        assert_eq!((both.join().unwrap(), other.join().unwrap()), ((1, 1), 1));
    });
}

/// A wait for one of many that is revoked, beside the callers that would serve it.
fn one_of_many_is_revoked(capacity: usize, is_worker: bool) {
    let tubes = [make(false, capacity), make(false, capacity)];
    let either = party(is_worker, move || {
        first_of([to_receive(tubes[0]), to_receive(tubes[1])], SOON)
    })
    .1;
    let senders =
        [0, 1].map(|n: usize| worker(move || send(tubes[n], n as u64 + 1, 2 * SOON).is_ok()));
    let clock = clock();
    let taken = either.join().unwrap();
    clock.join().unwrap();
    let clock = thread::spawn(|| crate::kernel::advance(2 * SOON));
    let sent = join_all(senders).into_iter().filter(|sent| *sent).count();
    clock.join().unwrap();
    let left: usize = tubes.map(Tube::len).iter().sum();
    assert_eq!(sent, left + usize::from(taken.is_some()));
}

#[test]
fn a_revoked_wait_for_many_takes_nothing() {
    check(|| one_of_many_is_revoked(0, true));
    check(|| one_of_many_is_revoked(1, true));
    check(|| one_of_many_is_revoked(1, false));
}

#[test]
fn many_are_told_of_a_close() {
    check(|| {
        let tubes = [make(false, 0), make(false, 0)];
        let waits: Vec<_> = (0..2)
            .map(|n| {
                worker(move || {
                    let wants = Wants([to_receive(tubes[n]), to_send(tubes[1 - n], 3)]);
                    let index = engine::any(&wants, LookOrder::in_turn(2), &"test", NEVER).unwrap();
                    wants.0[index].outcome.get().unwrap()
                })
            })
            .collect();
        let closer = worker(move || close(tubes[0]));
        let done = join_all(waits);
        closer.join().unwrap();
        // They met, or were told; none of them was left alone.
        assert_eq!(done[0], done[1]);
    });
}
