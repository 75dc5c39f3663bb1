//! Worker-locals: a value of each worker's own, whatever kernel thread it runs on.
//!
//! The values of a worker, or of a plain thread, stand in a list that its descriptor points to, made when the first is used. They are dropped at its end, last made first, while it can still wait; one that
//! is used again meanwhile is made anew. Each is dropped, whatever the others do; a panic of a
//! destructor ends there.

use super::last::contained;
use super::task::Task;
use super::{handle, server};
use std::any::Any;
use std::cell::RefCell;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;

/// The values of one worker, by the addresses of their keys.
#[derive(Default)]
struct Values(RefCell<Vec<(usize, Rc<dyn Any>)>>);

/// The key of a worker-local, made by [`worker_local!`](crate::worker_local).
pub struct WorkerLocal<T: 'static> {
    init: fn() -> T,
    /// Its address is what tells keys apart, so it has one.
    _place: u8,
}

impl<T: 'static> WorkerLocal<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        WorkerLocal { init, _place: 0 }
    }

    /// Calls `f` with the calling worker's value, which is made first if there is none. `f` may wait: the value stays the worker's.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let value = with_values(|values| self.find(values)).unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new((self.init)());
            with_values(|values| values.0.borrow_mut().push((self.key(), made.clone())));
            made
        });
        match value.downcast_ref::<T>() {
            Some(value) => f(value),
            None => unreachable!("a key has values of one type"),
        }
    }

    fn key(&'static self) -> usize {
        (self as *const Self).addr()
    }

    fn find(&'static self, values: &Values) -> Option<Rc<dyn Any>> {
        let values = values.0.borrow();
        values.iter().find(|(key, _)| *key == self.key()).map(|(_, value)| value.clone())
    }
}

impl<T: 'static> std::fmt::Debug for WorkerLocal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerLocal").finish_non_exhaustive()
    }
}

/// Calls `f`, which does not switch, with the caller's values.
fn with_values<R>(f: impl FnOnce(&Values) -> R) -> R {
    let task = server::current_task().unwrap_or_else(handle::of_thread);
    if task.locals.load(Relaxed).is_null() {
        task.locals.store(Box::into_raw(Box::<Values>::default()).cast(), Relaxed);
    }
    // SAFETY: a box that lives until `clear`, and is touched by the worker alone.
    f(unsafe { &*task.locals.load(Relaxed).cast::<Values>() })
}

/// Drops the values of the caller, whose descriptor this is.
#[inline]
pub(crate) fn clear(task: &Task) {
    if !task.locals.load(Relaxed).is_null() {
        clear_slow(task);
    }
}

#[cold]
fn clear_slow(task: &Task) {
    // SAFETY: as in `with_values`; taken off first, so that values that are used meanwhile are new ones.
    while let Some(values) = unsafe { task.locals.swap(null_mut(), Relaxed).cast::<Values>().as_mut() } {
        // SAFETY: it came from a box.
        let values = unsafe { Box::from_raw(values) };
        values.0.take().into_iter().rev().for_each(|value| contained(|| drop(value)));
    }
}

/// Declares worker-locals: like `thread_local!`, with a value for each worker instead of each thread.
///
/// ```
/// use std::cell::Cell;
/// umcg::worker_local! {
///     static CALLS: Cell<u32> = Cell::new(0);
/// }
/// CALLS.with(|calls| calls.set(calls.get() + 1));
/// assert_eq!(umcg::spawn(|| CALLS.with(Cell::get)).join().unwrap(), 0);
/// ```
#[macro_export]
macro_rules! worker_local {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty = $init:expr;)*) => {
        $($(#[$attribute])* $visible static $name: $crate::rt::WorkerLocal<$type> = $crate::rt::WorkerLocal::new(|| $init);)*
    };
}
