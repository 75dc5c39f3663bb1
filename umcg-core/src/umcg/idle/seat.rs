//! The seats of idle servers.
//!
//! I3: a seat is in the list exactly while its word is `SEATED`. The thread that takes it out
//! writes the word, under the lock of the lists, and then wakes the server.
//!
//! A server sits down at the front. So the front sleeps no longer than to the earliest deadline
//! that there was when it sat down, and is the one to call when an earlier deadline comes.

use crate::base::link::Link;
use crate::base::sync::{AtomicU32, AtomicU64, futex_wait, futex_wake};
use rustix::io::Errno;
use std::sync::atomic::Ordering::*;

/// A server's place in the list of idle servers.
pub(crate) struct IdleSeat {
    word: AtomicU32,
    /// The time until which the server sleeps.
    until: AtomicU64,
    next: Link<IdleSeat>,
}

const SEATED: u32 = 0;
const STANDING: u32 = 1;
/// An event was posted, or a timer armed: look again.
pub(super) const CALLED: u32 = 2;
/// The command WAKE.
pub(super) const WOKEN: u32 = 3;

impl IdleSeat {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(STANDING),
            until: AtomicU64::new(u64::MAX),
            next: Link::none(),
        }
    }

    /// Sleeps while it is in the list, until that time. Not called under the lock.
    pub(super) fn sleep(&self, until: u64) -> Result<(), Errno> {
        futex_wait(&self.word, SEATED, until)
    }
}

/// The list of idle servers. Used under the lock of the lists.
pub(super) struct Seats {
    first: Link<IdleSeat>,
}

impl Seats {
    pub(super) const fn new() -> Self {
        Self {
            first: Link::none(),
        }
    }

    /// The time until which the first server sleeps, if one sits.
    pub(super) fn until(&self) -> Option<u64> {
        Some(self.first.get()?.until.load(Relaxed))
    }

    /// Puts a server into the list.
    pub(super) fn sit_down(&self, seat: &'static IdleSeat, until: u64) {
        seat.word.store(SEATED, Relaxed);
        seat.until.store(until, Relaxed);
        seat.next.set(self.first.get());
        self.first.set(Some(seat));
    }

    /// Takes a seat out of the list if it is still there. Returns its word.
    pub(super) fn stand_up(&self, seat: &'static IdleSeat) -> u32 {
        let word = seat.word.load(Relaxed);
        if word == SEATED {
            let mut at = &self.first;
            while let Some(other) = at.get() {
                if std::ptr::eq(other, seat) {
                    at.set(seat.next.get());
                    break;
                }
                at = &other.next;
            }
        }
        seat.word.store(STANDING, Relaxed);
        word
    }

    /// Takes the first server out of the list and stores the reason in its word. The caller wakes
    /// it once the lock is free.
    #[inline]
    pub(super) fn call_one(&self, why: u32) -> Option<&'static IdleSeat> {
        let seat = self.first.get()?;
        self.first.set(seat.next.take());
        // The lock orders this with the server's reading, which is under the lock too.
        seat.word.store(why, Relaxed);
        Some(seat)
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.first.set(None);
    }
}

/// Wakes a server that was called.
#[inline]
pub(super) fn wake(seat: Option<&'static IdleSeat>) {
    if let Some(seat) = seat {
        futex_wake(&seat.word, 1);
    }
}
