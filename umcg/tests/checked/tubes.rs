//! Tubes: all that is sent is received, whole and in order.
//!
//! A message is two words that are the same, copied one by one with others between: one that is
//! overwritten, or read too early, is not the same any more. Where they lie is memory that the
//! checker may know of.

use crate::checker::{access_memory, check, check_large, check_with_heavy, leak, pause};
use crate::parties::{NEVER, SOON, be, ender, join_all, party};
use crate::tube::core::Core;
use crate::tube::layout::Layout;
use crate::tube::waiting::TransferError;

pub(crate) type Message = [u64; 2];

/// Two words, of a small message or of a large one.
#[derive(Clone, Copy)]
pub(crate) struct Halves {
    pub(crate) is_large: bool,
}

// SAFETY: two words are copied.
unsafe impl Layout for Halves {
    fn memory(self, count: usize) -> Option<std::alloc::Layout> {
        std::alloc::Layout::array::<Message>(count).ok()
    }

    fn size(self) -> usize {
        size_of::<Message>()
    }

    fn is_large(self) -> bool {
        self.is_large
    }

    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        access_memory(from.addr(), false);
        access_memory(to.addr(), true);
        let (from, to) = (from.cast::<u64>(), to.cast::<u64>());
        // SAFETY: passed on; so below.
        unsafe { to.copy_from(from, 1) };
        pause();
        let (from, to) = (from.wrapping_add(1), to.wrapping_add(1));
        // SAFETY: as above.
        unsafe { to.copy_from(from, 1) };
    }
}

pub(crate) type Tube = Core<Halves>;

pub(crate) fn make(is_large: bool, capacity: usize) -> &'static Tube {
    leak(Core::new(Halves { is_large }, capacity).unwrap())
}

pub(crate) fn send(tube: &Tube, number: u64, deadline: u64) -> Result<(), TransferError> {
    let message: Message = [number; 2];
    access_memory((&raw const message).addr(), true);
    // SAFETY: a message.
    unsafe { tube.send_until((&raw const message).cast(), deadline) }
}

pub(crate) fn receive(tube: &Tube, deadline: u64) -> Result<u64, TransferError> {
    let mut message: Message = [0; 2];
    // SAFETY: a place for one.
    unsafe { tube.receive_until((&raw mut message).cast(), deadline) }?;
    Ok(whole(message))
}

/// As [`send`], but by the short way if that goes.
fn send_fast(tube: &Tube, number: u64, deadline: u64) -> Result<(), TransferError> {
    let message: Message = [number; 2];
    access_memory((&raw const message).addr(), true);
    // SAFETY: a message.
    if unsafe { tube.push_fast((&raw const message).cast()) } {
        return Ok(());
    }
    // SAFETY: likewise.
    unsafe { tube.send_until((&raw const message).cast(), deadline) }
}

/// As [`receive`], but by the short way if that goes.
fn receive_fast(tube: &Tube, deadline: u64) -> Result<u64, TransferError> {
    let mut message: Message = [0; 2];
    let into = (&raw mut message).cast();
    // SAFETY: a place for one.
    if !unsafe { tube.pop_fast(into) } {
        // SAFETY: likewise.
        unsafe { tube.receive_until(into, deadline) }?;
    }
    access_memory((&raw const message).addr(), false);
    Ok(whole(message))
}

pub(crate) fn whole(message: Message) -> u64 {
    assert_eq!(
        message[0], message[1],
        "a message that was not copied as a whole"
    );
    assert_ne!(message[0], 0, "a message that nobody sent");
    message[0]
}

/// Every message comes out once, and those of one sender in their order: of so many senders, for so
/// many receivers, so many each. The first of either take the short way where that goes.
fn through(
    is_large: bool,
    capacity: usize,
    [sender_is_worker, receiver_is_worker]: [bool; 2],
    [senders, receivers, each]: [u64; 3],
) {
    let tube = make(is_large, capacity);
    let send_all = move |sender: u64| {
        let send = if sender == 0 { send_fast } else { send };
        (1..=each).for_each(|n| send(tube, sender * 100 + n, NEVER).unwrap());
    };
    let sending: Vec<_> = (1..senders)
        .map(|sender| party(sender_is_worker, move || send_all(sender)).1)
        .collect();
    let share = senders * each / receivers;
    let receiving: Vec<_> = (0..receivers)
        .map(|receiver| {
            let receive = if receiver == 0 { receive_fast } else { receive };
            let take =
                move || -> Vec<u64> { (0..share).map(|_| receive(tube, NEVER).unwrap()).collect() };
            party(receiver_is_worker, take).1
        })
        .collect();
    be(sender_is_worker);
    send_all(0);
    join_all(sending);
    let taken = join_all(receiving);
    let sent = |sender: u64| (1..=each).map(move |n| sender * 100 + n);
    for one in &taken {
        for sender in 0..senders {
            let mut own = one.iter().filter(|message| **message / 100 == sender);
            assert!(own.by_ref().is_sorted(), "{taken:?}");
        }
    }
    let mut all = taken.concat();
    all.sort_unstable();
    assert_eq!(all, (0..senders).flat_map(sent).collect::<Vec<_>>());
    assert_eq!(tube.len(), 0);
}

#[test]
fn all_messages_come_through() {
    check(2, || through(false, 0, [true, true], [1, 1, 2]));
    check(2, || through(false, 0, [false, false], [1, 1, 1]));
    check(2, || through(false, 1, [true, true], [1, 1, 2]));
    check(2, || through(false, 1, [false, false], [1, 1, 1]));
    check_large(|| through(false, 1, [true, true], [2, 2, 2]));
    check_large(|| through(false, 2, [false, true], [2, 1, 2]));
    check_large(|| through(false, 0, [true, true], [2, 2, 2]));
    check_large(|| through(false, 0, [false, true], [1, 2, 2]));
}

#[test]
fn all_large_messages_come_through() {
    check(2, || through(true, 1, [true, true], [1, 1, 2]));
    check(2, || through(true, 1, [false, false], [1, 1, 1]));
    check_large(|| through(true, 1, [true, true], [2, 2, 2]));
    check_large(|| through(true, 2, [true, true], [2, 2, 2]));
    check_large(|| through(true, 2, [false, true], [3, 2, 2]));
    check_large(|| through(true, 0, [true, true], [2, 2, 2]));
}

/// A party whose wait is ended has received nothing.
fn only_the_receiver_is_revoked(is_large: bool) {
    let tube = make(is_large, 1);
    let (task, receiver) = party(true, move || receive_fast(tube, SOON).ok());
    let ender = ender(task, true);
    be(true);
    assert!(send_fast(tube, 7, NEVER).is_ok());
    let received = receiver.join().unwrap();
    ender.join().unwrap();
    let received = received.or_else(|| receive_fast(tube, SOON).ok());
    assert_eq!(received, Some(7));
}

#[test]
fn a_revoked_wait_receives_nothing() {
    check_with_heavy(3, || only_the_receiver_is_revoked(false));
    check_with_heavy(3, || only_the_receiver_is_revoked(true));
}
