//! A set of operations that is waited for again and again.

use super::engine;
use super::operation::{Operation, Selectable};
use super::order::{LookOrder, Turn};
use crate::rt::time;
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, SelectQueue, WaitEnd, Waiter};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;

const REASON: &&str = &"select";

/// Operations of one type, which may be a `Box<dyn Operation<Output = T>>`, that are kept for many
/// waits. Each wait does exactly one of them, as with [`Select`](super::Select). They stay in the
/// queues of their objects from one wait to the next, so a wait costs as much as one or two
/// operations, however many there are. But an object that was given something between two waits
/// makes the next wait look at all of them.
///
/// In a queue's order the set stands where it was put in, which may be before its wait. So it may
/// be served, once, before a waiter that came between two waits of the set. For a strict order of
/// waits use [`Select`](super::Select).
///
/// [`Set::get_mut`] and [`Set::outcome`] take an operation out for a while: for its result, and for
/// the next message to send.
///
/// ```
/// use umcg::select::Set;
/// use umcg::sync::Semaphore;
///
/// let semaphores: Vec<_> = (0..100).map(|_| Semaphore::new(0)).collect();
/// let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
/// std::thread::scope(|scope| {
///     scope.spawn(|| semaphores[7].release(3));
///     for _ in 0..3 {
///         let index = set.wait();
///         set.outcome(index).unwrap();
///         assert_eq!(index, 7);
///     }
/// });
/// assert_eq!(set.try_wait(), None);
/// ```
pub struct Set<O: Selectable> {
    /// In memory of its own, because other threads look at it; never referred to by `&mut`.
    core: NonNull<SetCore<O>>,
    turn: Turn,
    is_biased: bool,
}

/// The part of a set that is reached through queues.
struct SetCore<O> {
    waiter: Waiter,
    operations: NonNull<[O]>,
    missing: Missing,
    /// Some of the operations that were put in must not stay.
    has_guests: Cell<bool>,
}

/// The operations whose places are certainly in no queue. The places of the others may be in one.
struct Missing {
    list: RefCell<Vec<usize>>,
    is_listed: Box<[Cell<bool>]>,
}

impl Missing {
    fn all(count: usize) -> Missing {
        Missing {
            list: RefCell::new((0..count).collect()),
            is_listed: (0..count).map(|_| Cell::new(true)).collect(),
        }
    }

    fn len(&self) -> usize {
        self.list.borrow().len()
    }

    fn has(&self, index: usize) -> bool {
        self.is_listed[index].get()
    }

    fn add(&self, index: usize) {
        if !self.is_listed[index].replace(true) {
            self.list.borrow_mut().push(index);
        }
    }

    /// Calls `enter` for each that `leaves_out` does not leave out, until `enter` returns that it
    /// is enough. Those that were put in are not missing any more.
    fn take(&self, leaves_out: impl Fn(usize) -> bool, mut enter: impl FnMut(usize) -> bool) {
        let mut list = self.list.borrow_mut();
        let mut rest = list.len();
        while rest > 0 {
            rest -= 1;
            let index = list[rest];
            if leaves_out(index) {
                continue;
            }
            let is_enough = enter(index);
            list.swap_remove(rest);
            self.is_listed[index].set(false);
            if is_enough {
                return;
            }
        }
    }
}

impl<O: Selectable> Set<O> {
    /// A set in which none of those that are ready at once is preferred: over many waits of one
    /// set, and over the first waits of many sets.
    pub fn new(operations: impl IntoIterator<Item = O>) -> Set<O> {
        let operations: Box<[O]> = operations.into_iter().collect();
        let missing = Missing::all(operations.len());
        let operations = NonNull::from(Box::leak(operations));
        let core = Box::leak(Box::new(SetCore {
            waiter: Waiter::kept(),
            operations,
            missing,
            has_guests: Cell::new(false),
        }));
        Set {
            core: NonNull::from(core),
            turn: Turn::by_chance(),
            is_biased: false,
        }
    }

    /// They are looked at in their order: of those that are ready all the while the first is taken.
    pub fn biased(mut self) -> Set<O> {
        self.is_biased = true;
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.core().operations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until one of them is done, and returns its index. A point of cancellation if it has to
    /// wait. Switches.
    ///
    /// # Panics
    /// When there is none: it would wait for ever.
    pub fn wait(&mut self) -> usize {
        assert!(!self.is_empty(), "select: nothing to wait for");
        // Without a deadline it returns when something is done.
        self.wait_nanos(u64::MAX)
            .unwrap_or_else(|| unreachable!("a wait without a deadline was late"))
    }

    /// Like [`Set::wait`], if one can be done at once. None if there was a moment at which none
    /// could. Never waits. (Descriptors, of which only the kernel knows, are looked at one after
    /// the other.)
    pub fn try_wait(&mut self) -> Option<usize> {
        self.wait_until(None)
    }

    timed! {
        "Set::wait";
        pub fn wait_deadline, wait_timeout(&mut self) -> Option<usize>;
        |deadline| self.wait_nanos(deadline)
    }

    /// The operation with this index, which stands in no queue while it is borrowed.
    ///
    /// # Panics
    /// When there is none with this index.
    pub fn get_mut(&mut self, index: usize) -> &mut O {
        assert!(
            index < self.len(),
            "a set of {} has no operation {index}",
            self.len()
        );
        self.core().take_out(index);
        // SAFETY: it is in no queue, so no other thread looks at it; and the set is borrowed.
        unsafe { &mut *self.core().at(index) }
    }

    /// The result of the operation that was selected.
    ///
    /// # Panics
    /// When it was not.
    #[inline]
    pub fn outcome(&mut self, index: usize) -> O::Output
    where
        O: Operation,
    {
        self.get_mut(index).outcome()
    }

    fn core(&self) -> &SetCore<O> {
        // SAFETY: made by `new`, and there until the end.
        unsafe { self.core.as_ref() }
    }

    fn order(&self) -> LookOrder<'_> {
        if self.is_biased {
            LookOrder::in_turn(self.len())
        } else {
            self.turn.next(OWN as u64, self.len(), |_| OWN)
        }
    }

    pub(crate) fn wait_nanos(&mut self, deadline: u64) -> Option<usize> {
        self.wait_until(Some(deadline))
    }

    /// Without a deadline it only looks.
    fn wait_until(&mut self, deadline: Option<u64>) -> Option<usize> {
        let core = self.core();
        loop {
            // One missing operation is the one that was selected last: it is looked at when it is
            // put in. A caller that only looks may not put it in.
            let looked_at = usize::from(deadline.is_some());
            if core.waiter.was_passed() || core.missing.len() > looked_at {
                if let Some(index) = engine::scan(core, self.order()) {
                    return Some(index);
                }
            }
            if core.waiter.was_passed() {
                core.look_anew();
            }
            match core.wait(deadline) {
                Ok(Some(index)) => return Some(index),
                Ok(None) => {}
                Err(()) => return core.due(),
            }
        }
    }
}

impl<O: Selectable> FromIterator<O> for Set<O> {
    fn from_iter<I: IntoIterator<Item = O>>(operations: I) -> Set<O> {
        Set::new(operations)
    }
}

impl<O: Selectable> SetCore<O> {
    fn at(&self, index: usize) -> *mut O {
        // SAFETY: the callers pass an index within the operations.
        unsafe { self.operations.cast::<O>().add(index) }.as_ptr()
    }

    fn operation(&self, index: usize) -> &O {
        debug_assert!(index < self.operations.len());
        // SAFETY: while a place is in a queue there is no `&mut` to its operation.
        unsafe { &*self.at(index) }
    }

    /// The first whose time has come.
    fn due(&self) -> Option<usize> {
        let now = time::now();
        (0..self.operations.len()).find(|index| self.operation(*index).deadline() <= now)
    }

    /// The set was passed over: all places leave, to be put in again (K2).
    #[cold]
    fn look_anew(&self) {
        self.waiter.look_anew();
        self.leave_all();
    }

    fn leave_all(&self) {
        wait::undisturbed(|served| engine::leave_all(self, served));
        (0..self.operations.len()).for_each(|index| self.missing.add(index));
    }

    fn take_out(&self, index: usize) {
        if self.missing.has(index) {
            return;
        }
        if let Some(queue) = self.operation(index).queue() {
            wait::undisturbed(|served| queue.leave(self.operation(index).place(), served));
        }
        self.missing.add(index);
    }

    /// Waits unless one can be done at once. An error if the deadline has passed; or, without a
    /// deadline, if there was a moment at which none could be done.
    fn wait(&self, deadline: Option<u64>) -> Result<Option<usize>, ()> {
        let until = deadline.map(|deadline| engine::Alternatives::prepare(self).min(deadline));
        let taken = Cell::new(None);
        let end = wait::again(
            &self.waiter,
            REASON,
            until,
            |served| {
                taken.set(self.enter_missing(served, until.is_none()));
                taken.get().is_none()
            },
            || self.send_guests_away(),
        );
        let index = match (end, taken.get()) {
            (Some(WaitEnd::Revoked), _) => return Err(()),
            (Some(WaitEnd::Served(index)), _) => {
                self.missing.add(index);
                index
            }
            (None, Some(index)) => {
                // Its place may stand in the queue all the same.
                self.take_out(index);
                index
            }
            (None, None) => return Ok(None),
        };
        let note = self.operation(index).place().note.get();
        Ok(self.operation(index).finish(note).then_some(index))
    }

    /// Puts in those that are missing, until one can be served at once. Returns that one. Does not
    /// unwind.
    fn enter_missing(&self, served: &mut ClaimedList, looks: bool) -> Option<usize> {
        let mut taken = None;
        let leaves_out = |index| looks && self.operation(index).is_elsewhere();
        self.missing.take(leaves_out, |index| {
            let operation = self.operation(index);
            let Some(queue) = operation.queue() else {
                return false;
            };
            if !operation.may_stay() {
                self.has_guests.set(true);
            }
            operation
                .place()
                .begin(&self.waiter, index, operation.note());
            let mut claim = || {
                taken = Some(index);
                true
            };
            queue.enter_or_claim(operation.place(), &mut claim, served);
            taken.is_some()
        });
        taken
    }

    fn send_guests_away(&self) {
        if self.has_guests.replace(false) {
            self.leave_all();
        }
    }
}

/// The key of all operations of a set, which shares its turn with no other.
const OWN: usize = 0;

impl<O: Selectable> engine::Alternatives for SetCore<O> {
    fn key(&self, _: usize) -> usize {
        OWN
    }

    fn len(&self) -> usize {
        self.operations.len()
    }

    fn queue(&self, index: usize) -> Option<&dyn SelectQueue> {
        self.operation(index).queue()
    }

    fn place(&self, index: usize) -> &Place {
        self.operation(index).place()
    }

    fn note(&self, index: usize) -> usize {
        self.operation(index).note()
    }

    fn prepare(&self) -> u64 {
        (0..self.operations.len())
            .map(|index| self.operation(index).prepare())
            .fold(u64::MAX, u64::min)
    }

    fn is_elsewhere(&self, index: usize) -> bool {
        self.operation(index).is_elsewhere()
    }

    fn finish(&self, index: usize, note: usize) -> bool {
        self.operation(index).finish(note)
    }
}

impl<O: Selectable> Drop for Set<O> {
    fn drop(&mut self) {
        self.core().leave_all();
        // SAFETY: made by `new` from a box, and in no queue any more.
        let core = unsafe { Box::from_raw(self.core.as_ptr()) };
        // SAFETY: likewise.
        drop(unsafe { Box::from_raw(core.operations.as_ptr()) });
    }
}

impl<O: Selectable> fmt::Debug for Set<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("len", &self.len())
            .field("biased", &self.is_biased)
            .finish()
    }
}
