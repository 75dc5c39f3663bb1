//! The owners of mutexes, where the caller names none: workers and threads, by numbers that they
//! get with their first mutex. Mutexes that they own at their end are abandoned.

use super::handle::{BorrowedHandle, Handle};
use crate::rt::sync::HoldLock;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use umcg_core::fork::Part;

/// The first number: those below are for programs that number owners themselves.
const FIRST: u32 = 1 << 31;

struct Numbers {
    next: u32,
    /// The numbers of owners that have ended, the longest ago first.
    free: VecDeque<u32>,
}

static NUMBERS: HoldLock<Numbers> = HoldLock::new(Numbers {
    next: FIRST,
    free: VecDeque::new(),
});

/// How many numbers rest before one is used again.
const RESTING: usize = 1024;

static FORKS: Part = Part::new(Part::ABOVE, || NUMBERS.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(_in_child: bool) {
    // SAFETY: passed on.
    drop(unsafe { NUMBERS.adopt() });
}

fn take() -> u32 {
    // If there is no memory for that, a child goes on without it.
    let _ = FORKS.enter();
    let mut numbers = NUMBERS.lock();
    if numbers.free.len() > RESTING {
        if let Some(number) = numbers.free.pop_front() {
            return number;
        }
    }
    let number = numbers.next;
    numbers.next = number.checked_add(1).unwrap_or(FIRST);
    number
}

/// The mutexes of a worker or thread.
struct Mine {
    number: u32,
    /// The mutexes that it may own.
    mutexes: RefCell<Vec<Handle>>,
}

crate::worker_local! {
    static MINE: Mine = Mine { number: take(), mutexes: RefCell::new(Vec::new()) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        for mutex in self.mutexes.get_mut().drain(..).rev() {
            mutex.object().kill(self.number);
        }
        NUMBERS.lock().free.push_back(self.number);
    }
}

/// The number by which the calling worker or thread owns mutexes. No other living one has the same
/// number. These numbers are 2,147,483,648 and more.
pub fn owner() -> NonZeroU32 {
    current()
}

pub(super) fn current() -> NonZeroU32 {
    MINE.with(|mine| NonZeroU32::new(mine.number).unwrap_or(NonZeroU32::MAX))
}

/// Records that `mutex` was taken for this owner once more.
#[inline]
pub(super) fn note(owner: NonZeroU32, mutex: BorrowedHandle<'_>) {
    if owner.get() >= FIRST && mutex.object().owned().depth == 1 {
        adopt(owner, mutex);
    }
}

/// Records that this owner has `mutex`: if that is the caller, the mutex is abandoned at the
/// caller's end.
pub(super) fn adopt(owner: NonZeroU32, mutex: BorrowedHandle<'_>) {
    if owner.get() < FIRST {
        return;
    }
    MINE.with(|mine| {
        if mine.number == owner.get() {
            mine.mutexes.borrow_mut().push(mutex.to_handle());
        }
    });
}

/// Records that this owner has unlocked `mutex` for good.
pub(super) fn forget(owner: NonZeroU32, mutex: &Handle) {
    if owner.get() < FIRST {
        return;
    }
    let found = MINE.with(|mine| {
        let mut mutexes = mine.mutexes.borrow_mut();
        let place = (mine.number == owner.get())
            .then(|| mutexes.iter().rposition(|other| other == mutex))
            .flatten();
        place.map(|place| mutexes.swap_remove(place))
    });
    drop(found);
}
