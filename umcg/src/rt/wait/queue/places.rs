//! Queues of places, in which waiters stand, and the waiters claimed from them.

use super::{WAITING, Waiter, resume};
use crate::rt::engine::server::ServerState;
use std::cell::Cell;
use std::ptr::null;

/// Where a waiter stands in a queue. Its cells belong to the holder of the queue's lock.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub struct Place {
    next: Cell<*const Place>,
    before: Cell<*const Place>,
    pub(super) waiter: Cell<*const Waiter>,
    claim: Cell<u32>,
    is_queued: Cell<bool>,
    /// A number that the object keeps with it.
    pub(crate) note: Cell<usize>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    pub(crate) const fn new() -> Place {
        Place::of(null(), WAITING, 0)
    }

    #[inline(always)]
    pub(super) const fn of(waiter: *const Waiter, claim: u32, note: usize) -> Place {
        Place {
            next: Cell::new(null()),
            before: Cell::new(null()),
            waiter: Cell::new(waiter),
            claim: Cell::new(claim),
            is_queued: Cell::new(false),
            note: Cell::new(note),
        }
    }

    /// Makes it a place of this waiter, which is told the index when it is served here. The place
    /// is in no queue yet.
    #[inline]
    pub(crate) fn begin(&self, waiter: &Waiter, index: usize, note: usize) {
        self.waiter.set(waiter);
        self.claim.set(index as u32 + 1);
        self.note.set(note);
    }

    /// Whether the same wait stands in both.
    pub(crate) fn is_of_same_wait(&self, other: &Place) -> bool {
        std::ptr::eq(self.waiter.get(), other.waiter.get())
    }

    /// Claims its waiter. The caller has the place to itself, because it is in no queue.
    pub(in crate::rt) fn claim_alone(&self) -> Option<Claimed> {
        self.claim().then_some(Claimed(self))
    }

    /// Claims its waiter. The caller holds the queue's lock. False if another party has claimed it.
    #[inline]
    fn claim(&self) -> bool {
        // SAFETY: a waiter that stands in a queue lives until it has left it, which takes the lock
        // that the caller holds.
        unsafe { &*self.waiter.get() }.claim(self.claim.get())
    }
}

/// A queue of places, under its object's lock.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub struct Places {
    /// The last in a circle; null for none.
    last: Cell<*const Place>,
}

impl Default for Places {
    fn default() -> Places {
        Places::new()
    }
}

// SAFETY: all that touches it holds the lock of its object.
unsafe impl Send for Places {}

impl Places {
    pub(crate) const fn new() -> Places {
        Places {
            last: Cell::new(null()),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.last.get().is_null()
    }

    /// The first, as long as the caller holds the lock.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Place> {
        // SAFETY: null, or in the queue, which places leave before they end.
        let last = unsafe { self.last.get().as_ref() }?;
        // SAFETY: likewise, as the circle is closed.
        Some(unsafe { &*last.next.get() })
    }

    /// Whether no worker or thread waits in it. Places that are there all the same were forgotten,
    /// by a set or a future, and lie in memory that stays.
    #[cold]
    pub(crate) fn has_no_waiter(&self) -> bool {
        // SAFETY: a waiter that stands in a queue lives until it has left it.
        self.find(|place| !unsafe { &*place.waiter.get() }.may_be_forgotten())
            .is_none()
    }

    /// The one behind `place`, which is in the queue.
    pub(crate) fn after(&self, place: &Place) -> Option<&Place> {
        // SAFETY: as in `first`.
        (!std::ptr::eq(self.last.get(), place)).then(|| unsafe { &*place.next.get() })
    }

    /// The number of places in it, for people.
    #[cold]
    pub(crate) fn len(&self) -> usize {
        std::iter::successors(self.first(), |place| self.after(place)).count()
    }

    /// Puts a place behind all others, or before them.
    ///
    /// # Safety
    /// The place stays where it is until it has left the queue.
    #[inline]
    pub(crate) unsafe fn push(&self, place: &Place, in_front: bool) {
        let was_empty = self.is_empty();
        self.insert(place);
        if was_empty || !in_front {
            self.last.set(place);
        }
    }

    /// Between the last and the first.
    #[inline]
    fn insert(&self, place: &Place) {
        let (next, before) = match self.first() {
            Some(first) => (std::ptr::from_ref(first), self.last.get()),
            None => (std::ptr::from_ref(place), std::ptr::from_ref(place)),
        };
        place.next.set(next);
        place.before.set(before);
        // SAFETY: both are in the queue, or the place itself.
        unsafe { &*next }.before.set(place);
        // SAFETY: likewise.
        unsafe { &*before }.next.set(place);
        place.is_queued.set(true);
    }

    /// Takes a place out. False if it is no longer there.
    #[inline]
    pub(crate) fn remove(&self, place: &Place) -> bool {
        if !place.is_queued.replace(false) {
            return false;
        }
        let (next, before) = (place.next.get(), place.before.get());
        if std::ptr::eq(next, place) {
            self.last.set(null());
            return true;
        }
        // SAFETY: neighbours in the queue.
        unsafe { &*next }.before.set(before);
        // SAFETY: likewise.
        unsafe { &*before }.next.set(next);
        if std::ptr::eq(self.last.get(), place) {
            self.last.set(before);
        }
        true
    }

    /// Takes the first whose waiter the caller can claim, and claims it.
    #[inline]
    pub(crate) fn claim_first(&self) -> Option<Claimed> {
        loop {
            let claimed = self.claim(self.first()?);
            if claimed.is_some() {
                return claimed;
            }
        }
    }

    /// The first that is wanted.
    #[inline]
    pub(crate) fn find(&self, mut is_wanted: impl FnMut(&Place) -> bool) -> Option<&Place> {
        let mut place = self.first()?;
        loop {
            if is_wanted(place) {
                return Some(place);
            }
            if std::ptr::eq(place, self.last.get()) {
                return None;
            }
            // SAFETY: the circle is closed, and places leave it before they end.
            place = unsafe { &*place.next.get() };
        }
    }

    /// Takes the first that is wanted and whose waiter the caller can claim, and claims it.
    #[inline]
    pub(crate) fn claim_where(&self, mut is_wanted: impl FnMut(&Place) -> bool) -> Option<Claimed> {
        loop {
            let claimed = self.claim(self.find(&mut is_wanted)?);
            if claimed.is_some() {
                return claimed;
            }
        }
    }

    /// Takes a place out, and claims its waiter; none if another party has claimed that.
    #[inline]
    pub(crate) fn claim(&self, place: &Place) -> Option<Claimed> {
        self.remove(place);
        place.claim().then_some(Claimed(place))
    }
}

/// A waiter that the caller has claimed, with the place at which it did. The caller delivers to it,
/// and then resumes it.
#[must_use = "nobody else makes it go on"]
pub(crate) struct Claimed(*const Place);

impl Claimed {
    /// The place; it lives until the waiter is resumed.
    #[inline]
    pub(crate) fn place(&self) -> &Place {
        // SAFETY: the waiter does not go on before `resume`.
        unsafe { &*self.0 }
    }

    /// Resumes the waiter. Not called under a lock; `local` is the server whose worker the caller
    /// is.
    #[inline(always)]
    pub(crate) fn resume(self, local: Option<&ServerState>) {
        let waiter = self.place().waiter.get();
        // SAFETY: as in `place`; claimed by the caller.
        unsafe { resume(waiter, local) };
    }
}

/// Waiters that were claimed under locks, to be resumed when the caller holds none.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub struct ClaimedList {
    first: *const Place,
    last: *const Place,
}

impl ClaimedList {
    pub(crate) const fn new() -> ClaimedList {
        ClaimedList {
            first: null(),
            last: null(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, claimed: Claimed) {
        claimed.place().next.set(null());
        // SAFETY: null, or claimed and not resumed.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(claimed.0),
            None => self.first = claimed.0,
        }
        self.last = claimed.0;
    }

    /// Resumes them, in their order.
    #[inline(always)]
    pub(crate) fn resume(self, local: Option<&ServerState>) {
        let mut next = self.first;
        while !next.is_null() {
            let claimed = Claimed(next);
            next = claimed.place().next.get();
            claimed.resume(local);
        }
    }
}
