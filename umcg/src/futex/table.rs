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
//!   When its `Many` is claimed the place goes to the end of the queue, at once; or out of it, if
//!   the waiter is one of a foreign call (`Stand::moving`), which ends with this wait.
//! - F4: `requeue` and `wake_with` take two locks, the bucket with the lower index first; nothing
//!   else takes two. So a place's address may change under the locks of both: a caller that wants
//!   to take a place out looks again once it holds the lock.
//! - F5: a waker that finds nobody takes no lock (`is_idle`). It has changed the word, passes a
//!   full fence, and then sees the lock free, and after that the queue empty. A party that enters
//!   takes the lock, passes a full fence, and then looks at the word. If the waker has seen the
//!   lock before it was taken, the two fences let the waiter see the change (`idle.1`, `idle.2`).
//!   If it has seen the lock after it was released, it sees the queue with the place in it
//!   (`spin.1`).
//!
//! The table does not grow: a bucket that two addresses share costs only the steps over the other's
//! places. Rejected: a queue for each address, in memory of its waiters. The head moves when its
//! waiter goes, and a wait for many words would have to bring memory for each. Rejected too: a
//! count of waiters that a waker looks at alone, as the kernel has it. It costs each wait two more
//! locked operations. A look at the head of the queue alone is no substitute: a waiter that has
//! compared, and not yet entered, would be lost.

use super::many::{Claim, Many};
use crate::rt::spin::{Spin, SpinGuard};
use crate::rt::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*, full_fence};
use crate::rt::wait::{ClaimedList, Place, Places};
use std::ops::Deref;
use std::ptr::null;

/// The bits of a waiter that any waker wakes, and of a waker that wakes any waiter.
pub(crate) const ALL: u32 = u32::MAX;

/// On a cache line of its own.
#[repr(C, align(64))]
struct Bucket {
    places: Spin<Places>,
    /// Whether there is a place in the queue. Written under the lock.
    is_used: AtomicBool,
}

/// The factor of the hash: Fibonacci hashing, by which the bits in which nearby words differ decide
/// the highest bits.
pub(crate) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where [`Table::is_idle`] looks, for code that does the same with few registers: a bucket's size,
/// and in it the word of the lock, which is 0 while it is free, and the byte that is 0 while the
/// queue is empty.
#[cfg(all(feature = "intercept", target_arch = "x86_64", not(loom)))]
pub(crate) mod bucket {
    use super::{Bucket, Places, Spin};
    use std::mem::offset_of;

    pub(crate) const SIZE: usize = size_of::<Bucket>();
    pub(crate) const LOCK: usize = offset_of!(Bucket, places) + Spin::<Places>::WORD;
    pub(crate) const IS_USED: usize = offset_of!(Bucket, is_used);
}

/// Holds the lock of a bucket. At its end `is_used` is as the queue is.
struct BucketGuard<'a> {
    places: SpinGuard<'a, Places>,
    is_used: &'a AtomicBool,
}

pub(crate) struct Table<const BUCKETS: usize>([Bucket; BUCKETS]);

/// The purpose of a place in the table. The place's note has the address of this.
pub(crate) struct Stand {
    address: AtomicUsize,
    /// Null for a single place.
    many: *const Many,
    index: u32,
    /// A waker has to have one of these bits.
    bits: u32,
}

/// In `Stand::index`, of a place of many: its waiter is one of futex_waitv(2). It agrees to wait at
/// another word, and a place at which it was woken does not come back.
const MOVES: u32 = 1 << 31;

/// The effect of a `requeue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeued {
    /// The number of waiters that go on.
    pub woken: usize,
    /// The number of waiters that wait at the other word now.
    pub moved: usize,
}

/// How many waiters a `wake_with` has woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for its calls")
)]
pub(crate) struct Operated {
    /// Of the first word.
    pub(crate) here: usize,
    /// Of the second. None if those were not to be woken.
    pub(crate) there: Option<usize>,
}

impl Operated {
    /// Of both.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its calls")
    )]
    pub(crate) fn woken(self) -> usize {
        self.here + self.there.unwrap_or(0)
    }
}

impl Stand {
    pub(crate) fn alone(address: usize, bits: u32) -> Stand {
        Stand {
            address: AtomicUsize::new(address),
            many: null(),
            index: 0,
            bits,
        }
    }

    pub(crate) fn of_many(address: usize, many: *const Many, index: usize) -> Stand {
        Stand {
            address: AtomicUsize::new(address),
            many,
            index: index as u32,
            bits: ALL,
        }
    }

    /// The same for a waiter that a `requeue` moves.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its waits")
    )]
    pub(crate) fn moving(mut self) -> Stand {
        self.index |= MOVES;
        self
    }

    /// The index of the word, for a place of many.
    pub(crate) fn index(&self) -> usize {
        (self.index & !MOVES) as usize
    }

    /// Whether a `requeue` moves the place, rather than to wake its waiter.
    fn moves(&self) -> bool {
        self.many.is_null() || self.index & MOVES != 0
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

impl Bucket {
    const fn new() -> Bucket {
        Bucket {
            places: Spin::new(Places::new()),
            is_used: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    fn lock(&self) -> BucketGuard<'_> {
        BucketGuard {
            places: self.places.lock(),
            is_used: &self.is_used,
        }
    }
}

impl Deref for BucketGuard<'_> {
    type Target = Places;

    #[inline(always)]
    fn deref(&self) -> &Places {
        &self.places
    }
}

impl Drop for BucketGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The lock is released after that.
        self.is_used.store(!self.places.is_empty(), Relaxed);
    }
}

impl<const BUCKETS: usize> Table<BUCKETS> {
    pub(crate) const fn new() -> Self {
        Table([const { Bucket::new() }; BUCKETS])
    }

    /// The index of the address's bucket.
    pub(crate) fn index(address: usize) -> usize {
        let mixed = (address as u64 >> 2).wrapping_mul(FACTOR);
        ((mixed >> 32) as usize * BUCKETS) >> 32
    }

    fn lock(&self, address: usize) -> BucketGuard<'_> {
        self.0[Self::index(address)].lock()
    }

    /// The same for a party that enters the queue, and looks at the word after that.
    #[inline(always)]
    fn lock_to_enter(&self, address: usize) -> BucketGuard<'_> {
        let places = self.lock(address);
        // On x86-64 the locked operation that has taken the lock is a full fence.
        if cfg!(any(not(target_arch = "x86_64"), loom)) {
            // ORDERING(idle.2): SeqCst, pairs with idle.1: this comes after the lock is seen to be
            // taken, and before the word is looked at.
            full_fence();
        }
        places
    }

    /// Whether nobody waits for a word of this bucket, so that a waker has nothing to do. The
    /// caller has changed the word, by any kind of store. False is only a guess.
    #[inline]
    pub(crate) fn is_idle(&self, address: usize) -> bool {
        let bucket = &self.0[Self::index(address)];
        // Most likely somebody waits, if it seems so; then the lock is the fence.
        if bucket.is_used.load(Relaxed) {
            return false;
        }
        // ORDERING(idle.1): SeqCst, pairs with idle.2: this comes after the word is changed, and
        // before the lock is seen to be free.
        full_fence();
        bucket.places.is_free() && !bucket.is_used.load(Relaxed)
    }

    /// Puts the place that `place` returns into the queue if `is_expected` says so, which looks at
    /// the word; false if not. The caller is not preempted, as in all functions below.
    ///
    /// # Safety
    /// Place and stand stay where they are until the place has left.
    #[inline]
    pub(crate) unsafe fn enter_if<'a>(
        &self,
        is_expected: impl FnOnce() -> bool,
        stand: &Stand,
        place: impl FnOnce(usize) -> &'a Place,
    ) -> bool {
        let places = self.lock_to_enter(stand.address.load(Relaxed));
        let is_expected = is_expected();
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
        let places = self.lock_to_enter(stand.address.load(Relaxed));
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

    /// Wakes up to so many that have one of these bits, in their order; returns how many.
    #[inline]
    pub(crate) fn wake(
        &self,
        address: usize,
        most: usize,
        bits: u32,
        served: &mut ClaimedList,
    ) -> usize {
        let places = self.lock(address);
        let mut waker = Waker::new(served);
        waker.wake_at(&places, address, most, bits);
        waker.put_back(&places);
        waker.count
    }

    /// Wakes up to `wake` waiters at `from`, and moves up to `others` more to `to`. None if
    /// `is_expected`, which looks at the word `from`, returns false. Waiters that are moved to the
    /// word at which they are stay where they are.
    pub(crate) fn requeue(
        &self,
        (from, to): (usize, usize),
        is_expected: impl FnOnce() -> bool,
        (wake, others): (usize, usize),
        served: &mut ClaimedList,
    ) -> Option<Requeued> {
        let (old, new) = self.lock_both(from, to);
        if !is_expected() {
            return None;
        }
        let (mut waker, moving) = (Waker::new(served), Places::new());
        let mut moved = 0;
        let mut left = others;
        for place in At::new(&old, from) {
            if waker.count < wake {
                waker.wake(&old, place);
            } else if left == 0 {
                break;
            } else if !Stand::of(place).moves() {
                // The other word is not one of those that it waits for.
                left -= usize::from(waker.wake(&old, place));
            } else {
                if from != to {
                    old.remove(place);
                    Stand::of(place).address.store(to, Relaxed);
                    // SAFETY: the place is to stay where it is until it has left the table.
                    unsafe { moving.push(place, false) };
                }
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

    /// Calls `change`, which changes the second word and says whether waiters of it are to be
    /// woken; then wakes up to so many of the first word, and of the second. It does nothing if
    /// `change` fails.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its calls")
    )]
    pub(crate) fn wake_with<E>(
        &self,
        (first, most): (usize, usize),
        (second, most_there): (usize, usize),
        change: impl FnOnce() -> Result<bool, E>,
        served: &mut ClaimedList,
    ) -> Result<Operated, E> {
        let (here, there) = self.lock_both(first, second);
        let both = change()?;
        let mut waker = Waker::new(served);
        waker.wake_at(&here, first, most, ALL);
        waker.put_back(&here);
        let mut done = Operated {
            here: waker.count,
            there: None,
        };
        if both {
            let there = there.as_deref().unwrap_or(&here);
            let mut waker = Waker::new(served);
            waker.wake_at(there, second, most_there, ALL);
            waker.put_back(there);
            done.there = Some(waker.count);
        }
        Ok(done)
    }

    /// The lock of the first, and that of the second if it is another one (F4).
    fn lock_both(&self, first: usize, second: usize) -> (BucketGuard<'_>, Option<BucketGuard<'_>>) {
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

    /// Wakes up to so many of this address that have one of these bits.
    #[inline(always)]
    fn wake_at(&mut self, places: &Places, address: usize, most: usize, bits: u32) {
        let before = self.count;
        for place in At::new(places, address) {
            if self.count - before == most {
                break;
            }
            if Stand::of(place).bits & bits != 0 {
                self.wake(places, place);
            }
        }
    }

    /// False if its waiter does not wait now.
    #[inline(always)]
    fn wake(&mut self, places: &Places, place: &Place) -> bool {
        let stand = Stand::of(place);
        // SAFETY: null, or the one that has the place, and takes it out before it ends.
        let claimed = match unsafe { stand.many.as_ref() } {
            None => places.claim(place),
            Some(many) => {
                let claimed = match many.claim(stand.index() as u32) {
                    Claim::Served(claimed) => claimed,
                    // As the kernel has it: it was woken here, too.
                    Claim::Second if stand.moves() => None,
                    Claim::Failed | Claim::Second => return false,
                };
                places.remove(place);
                if !stand.moves() {
                    // SAFETY: the place is to stay where it is until it has left the table.
                    unsafe { self.of_many.push(place, false) };
                }
                claimed
            }
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
