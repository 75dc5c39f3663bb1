//! Tubes: where a message lies is memory that the checker knows of.

use crate::rt::cancel;
use crate::semaphore::{Data, SOON, end};
use crate::shim::pool::access_memory;
use crate::tube::core::Core;
use crate::tube::layout::Layout;
use crate::tube::waiting::TransferError;
use crate::{be, check, check_with_heavy, leak, party};

#[derive(Clone, Copy)]
struct Message {
    is_large: bool,
}

// SAFETY: a word is copied.
unsafe impl Layout for Message {
    fn memory(self, count: usize) -> Option<std::alloc::Layout> {
        std::alloc::Layout::array::<u64>(count).ok()
    }

    fn size(self) -> usize {
        size_of::<u64>()
    }

    fn is_large(self) -> bool {
        self.is_large
    }

    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        access_memory(from.addr(), false);
        access_memory(to.addr(), true);
        // SAFETY: passed on.
        unsafe { to.cast::<u64>().write(from.cast::<u64>().read()) };
    }
}

type Tube = Core<Message>;

fn make(is_large: bool, capacity: usize) -> &'static Tube {
    leak(Core::new(Message { is_large }, capacity).unwrap())
}

fn send(tube: &Tube, message: u64, deadline: u64) -> Result<(), TransferError> {
    access_memory((&raw const message).addr(), true);
    let message = (&raw const message).cast();
    // SAFETY: a message.
    if unsafe { tube.push_fast(message) } {
        return Ok(());
    }
    // SAFETY: likewise.
    unsafe { tube.send_until(message, deadline) }
}

fn receive(tube: &Tube, deadline: u64) -> Result<u64, TransferError> {
    let mut message = 0;
    let into = (&raw mut message).cast();
    // SAFETY: a place for one.
    if !unsafe { tube.pop_fast(into) } {
        // SAFETY: likewise.
        unsafe { tube.receive_until(into, deadline) }?;
    }
    access_memory((&raw const message).addr(), false);
    Ok(message)
}

/// All that is sent is received, in its order.
fn in_order(is_large: bool, capacity: usize, is_worker: bool, messages: u64) {
    let tube = make(is_large, capacity);
    let (_, receiver) = party(is_worker, move || {
        (0..messages).for_each(|number| assert_eq!(receive(tube, u64::MAX).ok(), Some(number)));
    });
    be(is_worker);
    (0..messages).for_each(|number| assert!(send(tube, number, u64::MAX).is_ok()));
    receiver.join().unwrap();
}

#[test]
fn messages_are_seen() {
    check(2, || in_order(false, 0, true, 2));
    check(2, || in_order(false, 0, false, 1));
    check(2, || in_order(false, 1, true, 2));
    check(2, || in_order(false, 1, false, 1));
}

#[test]
fn large_messages_are_seen() {
    check(2, || in_order(true, 1, true, 2));
    check(2, || in_order(true, 1, false, 1));
}

/// A receiver whose wait is ended has received nothing.
fn revoked(is_large: bool) {
    let tube = make(is_large, 1);
    let (task, receiver) = party(true, move || receive(tube, SOON).ok());
    let (_, ender) = party(true, move || end(task, true));
    be(true);
    assert!(send(tube, 7, u64::MAX).is_ok());
    let received = receiver.join().unwrap();
    ender.join().unwrap();
    assert_eq!(received.or_else(|| receive(tube, SOON).ok()), Some(7));
}

#[test]
fn a_revoked_wait_receives_nothing() {
    check_with_heavy(3, || revoked(false));
    check_with_heavy(3, || revoked(true));
}
