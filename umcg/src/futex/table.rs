//! The waiters of all addresses: a table of buckets, each with a lock and one queue.
//!
//! ```text
//!   address --hash--> bucket: Spin | queue:  place -- place -- place -- ...      of all addresses with this hash, in the order in which they came
//!                                              |        |
//!                                            stand    stand                      the address; and the owner of the place, if it is one of many
//! ```
//!
//! - F1: the word is compared under the lock of its bucket, or after a kept place is armed (see
//!   [`Many`]). A waker changes the word before it takes the lock to wake: so either it finds the
//!   waiter, or the waiter finds the change.
//! - F2: workers and kernel threads stand in one queue, and those of one address are served in its
//!   order.
//! - F3: the waiter of a single place (`stand.many` is null) is claimed as any in a queue. A place
//!   of many belongs to a [`Many`], and may stand there between two waits: then it is passed over.
//!   When its `Many` is claimed the place goes to the end of the queue, at once.
//! - F4: `requeue` takes two locks, the bucket with the lower index first; nothing else takes two.
//!   So a place's address may change under the locks of both: a caller that wants to take a place
//!   out looks again once it holds the lock.
//!
//! The table does not grow: a bucket that two addresses share costs only the steps over the other's
//! places. Rejected: a queue for each address, in memory of its waiters. The head moves when its
//! waiter goes, and a wait for many words would have to bring memory for each.

use super::many::{Claim, Many};
use crate::rt::spin::{Spin, SpinGuard};
use crate::rt::sync::{AtomicU32, AtomicUsize, Ordering::*};
use crate::rt::wait::{ClaimedList, Place, Places};
use std::ptr::null;

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Bucket(Spin<Places>);

pub(crate) struct Table<const BUCKETS: usize>([Bucket; BUCKETS]);

/// The purpose of a place in the table. The place's note has the address of this.
pub(crate) struct Stand {
    address: AtomicUsize,
    /// Null for a single place.
    many: *const Many,
    index: u32,
}

/// The effect of a `requeue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeued {
    /// The number of waiters that go on.
    pub woken: usize,
    /// The number of waiters that wait at the other word now.
    pub moved: usize,
}

impl Stand {
    pub(crate) fn alone(address: usize) -> Stand {
        Stand {
            address: AtomicUsize::new(address),
            many: null(),
            index: 0,
        }
    }

    pub(crate) fn of_many(address: usize, many: *const Many, index: usize) -> Stand {
        Stand {
            address: AtomicUsize::new(address),
            many,
            index: index as u32,
        }
    }

    fn note(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// The stand of a place in the table.
    fn of(place: &Place) -> &Stand {
        // SAFETY: set from `note` before the place entered; both live until it has left.
        unsafe { &*(place.note.get() as *const Stand) }
    }

    fn is_at(&self, address: usize) -> bool {
        self.address.load(Relaxed) == address
    }
}

impl<const BUCKETS: usize> Table<BUCKETS> {
    pub(crate) const fn new() -> Self {
        Table([const { Bucket(Spin::new(Places::new())) }; BUCKETS])
    }

    /// The index of the address's bucket.
    pub(crate) fn index(address: usize) -> usize {
        // Fibonacci hashing: the bits in which nearby words differ decide the highest bits.
        let mixed = (address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as usize * BUCKETS) >> 32
    }

    fn lock(&self, address: usize) -> SpinGuard<'_, Places> {
        self.0[Self::index(address)].0.lock()
    }

    /// Puts the place that `place` returns into the queue if the word has this value; false if not.
    /// The caller is not preempted, as in all functions below.
    ///
    /// # Safety
    /// Place and stand stay where they are until the place has left.
    #[inline]
    pub(crate) unsafe fn enter_if<'a>(
        &self,
        word: &AtomicU32,
        expected: u32,
        stand: &Stand,
        place: impl FnOnce(usize) -> &'a Place,
    ) -> bool {
        let places = self.lock(stand.address.load(Relaxed));
        let is_expected = word.load(Relaxed) == expected;
        if is_expected {
            // SAFETY: passed on.
            unsafe { places.push(place(stand.note()), false) };
        }
        is_expected
    }

    /// Puts a place of many into its queue.
    ///
    /// # Safety
    /// As `enter_if`.
    #[inline]
    pub(crate) unsafe fn enter(&self, stand: &Stand, place: &Place) {
        place.note.set(stand.note());
        let places = self.lock(stand.address.load(Relaxed));
        // SAFETY: passed on.
        unsafe { places.push(place, false) };
    }

    /// Takes a place out; false if it is no longer there.
    #[inline]
    pub(crate) fn leave(&self, stand: &Stand, place: &Place) -> bool {
        loop {
            let address = stand.address.load(Relaxed);
            let places = self.lock(address);
            if stand.is_at(address) {
                return places.remove(place);
            }
        }
    }

    /// Wakes up to so many, in their order; returns how many.
    #[inline]
    pub(crate) fn wake(&self, address: usize, most: usize, served: &mut ClaimedList) -> usize {
        let places = self.lock(address);
        let mut waker = Waker::new(served);
        for place in At::new(&places, address) {
            if waker.count == most {
                break;
            }
            waker.wake(&places, place);
        }
        waker.put_back(&places);
        waker.count
    }

    /// Wakes up to `wake` waiters at `from`, and moves up to `others` more to `to`. None if the
    /// word `from` does not have the expected value.
    pub(crate) fn requeue(
        &self,
        (from, expected): (&AtomicU32, Option<u32>),
        to: &AtomicU32,
        (wake, others): (usize, usize),
        served: &mut ClaimedList,
    ) -> Option<Requeued> {
        let (at_from, at_to) = (address(from), address(to));
        let (old, new) = self.lock_both(at_from, at_to);
        if expected.is_some_and(|expected| from.load(Relaxed) != expected) {
            return None;
        }
        let (mut waker, moving) = (Waker::new(served), Places::new());
        let mut moved = 0;
        let mut left = others;
        for place in At::new(&old, at_from) {
            if waker.count < wake {
                waker.wake(&old, place);
            } else if left == 0 {
                break;
            } else if !Stand::of(place).many.is_null() {
                // The other word is not one of those that it waits for.
                left -= usize::from(waker.wake(&old, place));
            } else {
                old.remove(place);
                Stand::of(place).address.store(at_to, Relaxed);
                // SAFETY: the place is to stay where it is until it has left the table.
                unsafe { moving.push(place, false) };
                (moved, left) = (moved + 1, left - 1);
            }
        }
        waker.put_back(&old);
        append(new.as_deref().unwrap_or(&old), &moving);
        Some(Requeued {
            woken: waker.count,
            moved,
        })
    }

    /// The lock of the first, and that of the second if it is another one (F4).
    fn lock_both(
        &self,
        first: usize,
        second: usize,
    ) -> (SpinGuard<'_, Places>, Option<SpinGuard<'_, Places>>) {
        let order = Self::index(first).cmp(&Self::index(second));
        let before = order.is_gt().then(|| self.lock(second));
        let lock = self.lock(first);
        (
            lock,
            before.or_else(|| order.is_lt().then(|| self.lock(second))),
        )
    }
}

pub(crate) fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// The places of one address, in their order. The place that was returned last may be taken out.
struct At<'a> {
    places: &'a Places,
    next: Option<&'a Place>,
    address: usize,
}

impl<'a> At<'a> {
    fn new(places: &'a Places, address: usize) -> At<'a> {
        At {
            places,
            next: places.first(),
            address,
        }
    }
}

impl<'a> Iterator for At<'a> {
    type Item = &'a Place;

    fn next(&mut self) -> Option<&'a Place> {
        loop {
            let place = self.next?;
            self.next = self.places.after(place);
            if Stand::of(place).is_at(self.address) {
                return Some(place);
            }
        }
    }
}

/// Wakes the waiters at the places that it is given, under their lock.
struct Waker<'a> {
    served: &'a mut ClaimedList,
    count: usize,
    /// Places of many, which go to the end of the queue.
    of_many: Places,
}

impl<'a> Waker<'a> {
    fn new(served: &'a mut ClaimedList) -> Waker<'a> {
        Waker {
            served,
            count: 0,
            of_many: Places::new(),
        }
    }

    /// False if its waiter does not wait now.
    #[inline(always)]
    fn wake(&mut self, places: &Places, place: &Place) -> bool {
        let stand = Stand::of(place);
        // SAFETY: null, or the one that has the place, and takes it out before it ends.
        let claimed = match unsafe { stand.many.as_ref() } {
            None => places.claim(place),
            Some(many) => match many.claim(stand.index) {
                Claim::Failed => return false,
                Claim::Served(claimed) => {
                    places.remove(place);
                    // SAFETY: the place is to stay where it is until it has left the table.
                    unsafe { self.of_many.push(place, false) };
                    claimed
                }
            },
        };
        if let Some(claimed) = claimed {
            self.served.push(claimed);
        }
        self.count += 1;
        true
    }

    fn put_back(&self, places: &Places) {
        append(places, &self.of_many);
    }
}

/// Moves all places to the end of a queue.
fn append(places: &Places, others: &Places) {
    while let Some(place) = others.first() {
        others.remove(place);
        // SAFETY: as where they were taken out.
        unsafe { places.push(place, false) };
    }
}
