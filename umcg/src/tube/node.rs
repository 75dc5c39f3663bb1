//! How a future stands in a tube's queue.
//!
//! A future may be moved, dropped and forgotten. So it stands there not with its frame, but with a
//! [`FutureNode`] in memory of its own, which has the place in the queue, the message, and the
//! waker. A claimer delivers there, and puts the node into a list ([`Calls`]) of those to be
//! called. Each operation that may have served a waiter looks at that list afterwards.
//!
//! ```text
//!            claimed, delivered              its waker is called
//!   WAITING --------------------> SERVED ------------------------> CALLED
//!      |                            |                                |
//!      '-- dropped: out of          '-- polled, or dropped: out of --'
//!          the queue                    the list
//! ```
//!
//! - F1: all but the message is under the tube's lock. The message belongs to the claimer of the
//!   waiter, from the claim until it is SERVED; otherwise to the future, except for F4.
//! - F2: the memory stays until the wait is over: taken out of the queue by its future, or served.
//!   A future that is dropped meanwhile waits for the delivery, which is a copy. A forgotten future
//!   leaves its node there for ever.
//! - F3: the operation that has served a future calls it, at its end: CALLS is in the tube's word
//!   as long as there is a future to call. A waker may run any code, so it is not called under a
//!   lock, nor with preemption off, and last of all (U1 of [`last`](crate::rt::last)).
//!   [`TubeState::operate`] is the one place that calls wakers, when the result of the operation
//!   has an owner. A waker is cloned before a future enters the queue. A waker that is no longer
//!   needed is dropped last, as the calls are made.
//! - F4: no message is lost with a future. A future that was served and is dropped puts its message
//!   back, before all others ([`back`](super::back)). Futures that were served after it, and do not
//!   know yet, have later messages. So it puts back the last of these, and each of those futures
//!   gets the message of the one before. For that no future may be on its way from WAITING to
//!   SERVED just then (`waiting`).
//!
//! A message that is put back where there is no room for it stands by itself before all waiting
//! senders, in the node of the dropped future. When it was received, the operation that would call
//! the future frees the node.

use super::core::ring::CALLS;
use super::core::{Core, LockedCore, NO_MORE, SERVED, WANTS_SLOT};
use super::ends::TubeState;
use super::layout::Typed;
use crate::rt::last::Last;
use crate::rt::sync::{Hold, give_way};
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, Waiter};
use std::cell::{Cell, UnsafeCell};
use std::iter::successors;
use std::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::task::Waker;

/// How far a wait is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is in its queue; or it is claimed, and about to be served.
    Waiting,
    /// It is in the list of those to be called.
    Served,
    /// It is in the list of those that were called.
    Called,
}

/// Whether this note of a receiver that was served is the number of a place, plus 1.
pub(super) fn is_slot(note: usize) -> bool {
    note != SERVED && note != NO_MORE
}

/// A tube's futures that were served and do not know it yet, in the order in which they were
/// served. Under its lock.
#[derive(Default)]
pub(super) struct Calls {
    to_call: Places,
    called: Places,
    /// How many are WAITING to receive.
    waiting: Cell<usize>,
}

/// A future's entry in a queue.
pub(super) struct FutureNode<T> {
    waiter: Waiter,
    place: Place,
    tube: *const TubeState<T>,
    receives: bool,
    stage: Cell<Stage>,
    waker: Cell<Option<Waker>>,
    message: UnsafeCell<MaybeUninit<T>>,
}

impl<T> FutureNode<T> {
    /// The node of a place.
    ///
    /// # Safety
    /// The place is in one of this tube's lists of calls, whose lock the caller has.
    unsafe fn of(place: &Place) -> Option<NonNull<FutureNode<T>>> {
        NonNull::new(place.object()?.cast_mut().cast())
    }

    fn address(&self) -> usize {
        self.message.get().expose_provenance()
    }

    /// The message in it.
    ///
    /// # Safety
    /// There is one, it belongs to the caller, and is not used here after this.
    pub(super) unsafe fn take(&self) -> T {
        // SAFETY: passed on.
        unsafe { self.message.get().cast::<T>().read() }
    }

    /// Takes the node out of its queue, and returns none. Or, if it was claimed, waits until it was
    /// served, and returns the lock. For a receiver, every other claimed receiver was served by
    /// then too, so that the lists have all nodes with messages. The caller is not preempted.
    fn leave_or_be_served<'a>(&self, tube: &'a TubeState<T>) -> Option<LockedCore<'a, Typed<T>>> {
        let queue = if self.receives {
            &tube.core.receivers
        } else {
            &tube.core.senders
        };
        loop {
            let mut locked = tube.core.lock();
            if self.stage.get() != Stage::Waiting {
                if !self.receives || tube.no_receiver_is_claimed() {
                    return Some(locked);
                }
            } else if queue.remove(&self.place) {
                tube.calls.count(self, -1);
                locked.note_receivers();
                locked.note_senders();
                locked.unlock();
                return None;
            }
            locked.unlock();
            give_way();
        }
    }

    /// Whether it was served with a message.
    fn has_message(&self) -> bool {
        self.receives && !self.place.is_ownerless() && self.place.note.get() != NO_MORE
    }

    /// Exchanges the messages of two that have one.
    fn exchange(&self, other: &FutureNode<T>) {
        if is_slot(self.place.note.get()) {
            return self.place.note.swap(&other.place.note);
        }
        // SAFETY: different ones, both served and not polled since, under the lock (F1).
        unsafe { std::ptr::swap(self.message.get(), other.message.get()) };
    }
}

// SAFETY: the queue is touched under the tube's lock only.
unsafe impl<T> Queued for FutureNode<T> {
    fn leave(&self, _: &Place, _: &mut ClaimedList) -> bool {
        unreachable!("no task knows of it")
    }

    fn called(&self) {
        let _hold = Hold::begin();
        // SAFETY: the claimer has an end of the tube.
        let tube = unsafe { &*self.tube };
        let mut locked = tube.core.lock();
        self.stage.set(Stage::Served);
        tube.calls.count(self, -1);
        // SAFETY: it leaves the list before it ends (F2).
        unsafe { tube.calls.to_call.push(&self.place, false) };
        locked.word |= CALLS;
        locked.unlock();
    }
}

/// The thing to do for a node that was served.
enum FutureCall<T> {
    Wake(Option<Waker>),
    /// The node has no owner.
    Free(NonNull<FutureNode<T>>),
}

impl<T> TubeState<T> {
    /// Runs an operation that may serve futures, and calls those last. The result of `operation`
    /// owns the messages that were taken from the tube, and no message that was sent. So nothing is
    /// lost or doubled if a waker panics, and the result is dropped.
    #[inline(always)]
    pub(super) fn operate<R>(&self, operation: impl FnOnce(&Core<Typed<T>>) -> R) -> R {
        let result = operation(&self.core);
        if self.core.has_none(CALLS) {
            result
        } else {
            self.call_futures(result)
        }
    }

    #[cold]
    fn call_futures<R>(&self, result: R) -> R {
        let mut last = Last::new();
        while let Some(call) = wait::undisturbed(|_| self.next_call()) {
            last.run(|| match call {
                FutureCall::Wake(waker) => waker.into_iter().for_each(Waker::wake),
                // SAFETY: it was left to the receiver of its message, and is in no list any more.
                FutureCall::Free(node) => drop(unsafe { Box::from_raw(node.as_ptr()) }),
            });
        }
        last.end(result)
    }

    fn next_call(&self) -> Option<FutureCall<T>> {
        let mut locked = self.core.lock();
        let calls = &self.calls;
        let call = calls.to_call.first().and_then(|place| {
            calls.to_call.remove(place);
            // SAFETY: the lock is held here.
            let node = unsafe { FutureNode::of(place) }?;
            if place.is_ownerless() {
                return Some(FutureCall::Free(node));
            }
            // SAFETY: it stays as long as it is in a list (F2).
            let node: &FutureNode<T> = unsafe { node.as_ref() };
            node.stage.set(Stage::Called);
            // SAFETY: as in `called`.
            unsafe { calls.called.push(place, false) };
            Some(FutureCall::Wake(node.waker.take()))
        });
        if calls.to_call.is_empty() {
            locked.word &= !CALLS;
        }
        locked.unlock();
        call
    }

    /// Whether no future that receives is claimed and not served yet. The caller has the lock.
    fn no_receiver_is_claimed(&self) -> bool {
        let receivers = &self.core.receivers;
        let queued = successors(receivers.first(), |place| receivers.after(place));
        self.calls.waiting.get() == queued.filter(|place| place.is_called()).count()
    }

    /// Whether futures receive messages by the numbers of their places.
    fn by_slot(&self) -> bool {
        Typed::<T>::IS_LARGE && self.core.capacity() > 0
    }
}

impl Calls {
    /// One more that is WAITING, or one less. The caller has the lock.
    fn count<T>(&self, node: &FutureNode<T>, more: isize) {
        if node.receives && !node.place.is_ownerless() {
            self.waiting
                .set(self.waiting.get().wrapping_add_signed(more));
        }
    }

    /// Takes a node out that was served. The caller holds the lock.
    fn remove<T>(&self, node: &FutureNode<T>) {
        let list = if node.stage.get() == Stage::Served {
            &self.to_call
        } else {
            &self.called
        };
        list.remove(&node.place);
    }

    /// Gives the node the message of the last one that was served after it, and each of those the
    /// message of the one before (F4). The caller holds the lock.
    fn rotate<T>(&self, node: &FutureNode<T>) {
        let is_called = node.stage.get() == Stage::Called;
        let list = if is_called {
            &self.called
        } else {
            &self.to_call
        };
        let behind = successors(list.after(&node.place), |place| list.after(place));
        let first = self.to_call.first().filter(|_| is_called);
        for place in behind.chain(successors(first, |place| self.to_call.after(place))) {
            // SAFETY: the caller has the lock.
            let Some(other) = (unsafe { FutureNode::<T>::of(place) }) else {
                continue;
            };
            // SAFETY: it stays as long as it is in a list (F2).
            let other = unsafe { other.as_ref() };
            if other.has_message() {
                node.exchange(other);
            }
        }
    }
}

/// The waits of a future, one after the other.
pub(super) struct FutureWaits<T> {
    /// Made for the first wait.
    node: Option<NonNull<FutureNode<T>>>,
    /// The node is in the queue, or was served and the future does not know it yet.
    pub(super) is_waiting: bool,
}

// SAFETY: it has a message, and refers to a tube that threads share.
unsafe impl<T: Send> Send for FutureWaits<T> {}
// SAFETY: shared, it gives access to nothing.
unsafe impl<T: Send> Sync for FutureWaits<T> {}
impl<T> UnwindSafe for FutureWaits<T> {}
impl<T> RefUnwindSafe for FutureWaits<T> {}

impl<T> FutureWaits<T> {
    pub(super) const fn new() -> FutureWaits<T> {
        FutureWaits {
            node: None,
            is_waiting: false,
        }
    }

    /// The node of the future.
    ///
    /// # Panics
    /// When it has never waited.
    pub(super) fn node(&self) -> &FutureNode<T> {
        // SAFETY: freed with the future at the earliest.
        unsafe { self.node.expect("a future that waits").as_ref() }
    }

    /// Prepares a wait.
    fn begin(&mut self, tube: &TubeState<T>, receives: bool, waker: Waker) -> &FutureNode<T> {
        let node = self.node.get_or_insert_with(|| {
            NonNull::from(Box::leak(Box::new(FutureNode {
                waiter: Waiter::to_be_called(),
                place: Place::new(),
                tube,
                receives,
                stage: Cell::new(Stage::Waiting),
                waker: Cell::new(None),
                message: UnsafeCell::new(MaybeUninit::uninit()),
            })))
        });
        // SAFETY: freed with the future at the earliest.
        let object = unsafe { node.as_ref() };
        object.stage.set(Stage::Waiting);
        // There is none: the end of a wait takes its waker out.
        let before = object.waker.replace(Some(waker));
        debug_assert!(before.is_none());
        let note = if receives && tube.by_slot() {
            WANTS_SLOT
        } else {
            object.address()
        };
        // SAFETY: it has memory of its own (F2).
        unsafe { object.waiter.stand(node.as_ptr(), &object.place, note) };
        object
    }

    /// Receives, and returns the note that a place would have; or enters the queue, and returns no
    /// note.
    pub(super) fn receive(&mut self, tube: &TubeState<T>, waker: Waker) -> Looked {
        let node = self.begin(tube, true, waker);
        let core = &tube.core;
        let note = wait::undisturbed(|served| {
            let taken = if tube.by_slot() {
                core.take_slot()
            } else {
                // SAFETY: a place for a message.
                unsafe { core.take(node.message.get().cast(), served) }
            };
            // SAFETY: it leaves the queue before it ends (F2).
            let enter = |locked: LockedCore<'_, _>| unsafe { locked.enter_receivers(&node.place) };
            taken
                .inspect_err(|_| tube.calls.count(node, 1))
                .map_err(enter)
                .ok()
        });
        self.begun(note)
    }

    /// Sends, or enters the queue, likewise.
    pub(super) fn send(&mut self, tube: &TubeState<T>, message: T, waker: Waker) -> Looked {
        let node = self.begin(tube, false, waker);
        // SAFETY: the future's (F1).
        unsafe { node.message.get().write(MaybeUninit::new(message)) };
        let note = wait::undisturbed(|served| {
            // SAFETY: there is a message.
            let given = unsafe { tube.core.give(node.message.get().cast(), served) };
            // SAFETY: as in `receive`.
            given
                .map_err(|locked| unsafe { locked.enter_senders(&node.place) })
                .ok()
        });
        self.begun(note)
    }

    fn begun(&mut self, note: Option<usize>) -> Looked {
        self.is_waiting = note.is_none();
        // A node that waits may be served by now, and called: other threads may use its waker.
        Looked {
            note,
            wakers: [note.and_then(|_| self.node().waker.take()), None],
        }
    }

    /// Looks whether it was served since. If not, this is the waker from now on.
    pub(super) fn look(&mut self, tube: &TubeState<T>, waker: Waker) -> Looked {
        let mut waker = Some(waker);
        let node = self.node();
        let (note, others) = wait::undisturbed(|_| {
            let locked = tube.core.lock();
            let is_served = node.stage.get() != Stage::Waiting;
            let others = if is_served {
                tube.calls.remove(node);
                node.waker.take()
            } else {
                node.waker.replace(waker.take())
            };
            let note = is_served.then(|| node.place.note.get());
            locked.unlock();
            (note, others)
        });
        self.is_waiting = note.is_none();
        Looked {
            note,
            wakers: [others, waker],
        }
    }

    /// The future gives its wait up. Returns the note if it was served; a message that it has
    /// received is put back.
    pub(super) fn give_up(&mut self, tube: &TubeState<T>) -> Looked {
        if !mem::take(&mut self.is_waiting) {
            return Looked {
                note: None,
                wakers: [None, None],
            };
        }
        let node = self.node();
        let (mut waker, mut is_left_behind) = (None, false);
        let note = wait::undisturbed(|served| {
            let Some(locked) = node.leave_or_be_served(tube) else {
                // No other thread knows of it any more.
                waker = node.waker.take();
                return None;
            };
            waker = node.waker.take();
            let has_message = node.has_message();
            if has_message {
                tube.calls.rotate(node);
            }
            tube.calls.remove(node);
            let note = node.place.note.get();
            if !has_message {
                locked.unlock();
            } else if is_slot(note) {
                tube.core.put_back_slot(locked, note - 1, served);
            } else {
                // SAFETY: a message that was received, and belongs to the future.
                is_left_behind = match unsafe {
                    tube.core
                        .put_back(locked, node.message.get().cast(), served)
                } {
                    Ok(()) => false,
                    Err(locked) => {
                        node.place.note.set(node.address());
                        node.waiter.disown();
                        // SAFETY: it has memory of its own, which is left to the receiver of the
                        // message.
                        unsafe { locked.enter_in_front(&node.place) };
                        true
                    }
                };
            }
            Some(note)
        });
        if is_left_behind {
            self.node = None;
        }
        Looked {
            note,
            wakers: [waker, None],
        }
    }
}

/// The state of a future's wait.
pub(super) struct Looked {
    /// The note with which it was served, if it was.
    pub(super) note: Option<usize>,
    /// Wakers that are no longer needed. To be dropped last (U1).
    pub(super) wakers: [Option<Waker>; 2],
}

impl<T> Drop for FutureWaits<T> {
    /// After `give_up`.
    fn drop(&mut self) {
        debug_assert!(!self.is_waiting);
        if let Some(node) = self.node {
            // SAFETY: it is in no queue and no list any more.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}
