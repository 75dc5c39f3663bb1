//! Turns of those that wait for another thread. The checker lets others run when a thread yields;
//! but two that yield take turns for ever, as an execution of its own each. So a thread that has
//! yielded a few times in vain is stopped until something is stored.
//!
//! The thread that makes it go on then is ordered before it, by the checker. An ordering that is
//! missing shows where a thread had not to be stopped.

use loom::thread::{self, Thread, ThreadId};
use real::cell::{Cell, RefCell};
use real::collections::HashMap;

/// How often a thread yields in vain.
const TURNS: u32 = 2;

#[derive(Default)]
struct Turns {
    /// How often something was stored.
    stores: Cell<u64>,
    /// The value loaded last is not the value stored last: so looking again is not in vain.
    is_stale: Cell<bool>,
    /// For each thread that has yielded: how often since which store.
    of_threads: RefCell<HashMap<ThreadId, (u64, u32)>>,
    stopped: RefCell<Vec<Thread>>,
}

thread_local! {
    static TURNS_TAKEN: Turns = Turns::default();
}

/// At the beginning of an execution.
pub(crate) fn begin() {
    TURNS_TAKEN.with(|turns| {
        turns.of_threads.borrow_mut().clear();
        turns.stopped.borrow_mut().clear();
    });
}

/// Something was stored.
pub(crate) fn stored() {
    TURNS_TAKEN.with(|turns| {
        turns.stores.set(turns.stores.get() + 1);
        turns.is_stale.set(false);
        turns
            .stopped
            .borrow_mut()
            .drain(..)
            .for_each(|thread| thread.unpark());
    });
}

/// Something was loaded.
pub(crate) fn loaded(is_stale: bool) {
    TURNS_TAKEN.with(|turns| turns.is_stale.set(is_stale));
}

/// Lets others run, as the caller has looked for something in vain.
pub(crate) fn pass() {
    let has_to_stop = TURNS_TAKEN.with(|turns| {
        let stores = turns.stores.get();
        let mut of_threads = turns.of_threads.borrow_mut();
        let (since, count) = of_threads
            .entry(thread::current().id())
            .or_insert((stores, 0));
        if *since != stores || turns.is_stale.take() {
            (*since, *count) = (stores, 0);
        }
        *count += 1;
        *count > TURNS
    });
    if !has_to_stop {
        return thread::yield_now();
    }
    let stores = TURNS_TAKEN.with(|turns| turns.stores.get());
    while TURNS_TAKEN.with(|turns| turns.stores.get()) == stores {
        TURNS_TAKEN.with(|turns| turns.stopped.borrow_mut().push(thread::current()));
        thread::park();
    }
}
