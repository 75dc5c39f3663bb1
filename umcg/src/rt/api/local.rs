//! Worker-locals: a value of each worker's own, whatever kernel thread it runs on.
//!
//! The values of a worker, or of a plain thread, stand in a list that its descriptor points to. The
//! list is made when the first value is used. The values are dropped at the end of the worker or
//! thread, last made first, while it can still wait. A value that is used again meanwhile is made
//! anew. Each is dropped, whatever the others do. A panic of a destructor ends there.

use crate::rt::engine::server;
use crate::rt::task::locals::LocalValues;
use crate::rt::task::thread;
use std::any::Any;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;

/// The key of a worker-local, made by [`worker_local!`](crate::worker_local).
///
/// A worker's values are dropped at its end, last made first. A destructor may use worker-locals.
/// If the value it uses is dropped already, it is made anew, and dropped in turn. There is no bound
/// on that: if the destructor of a worker-local always uses that same worker-local, the worker
/// never ends.
pub struct WorkerLocal<T: 'static> {
    init: fn() -> T,
    /// Keys are told apart by their addresses. This byte makes the address unique.
    _place: u8,
}

impl<T: 'static> WorkerLocal<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        WorkerLocal { init, _place: 0 }
    }

    /// Calls `f` with the calling worker's value, which is made first if there is none. `f` may
    /// wait: the value stays the worker's. If making the value panics there is still none, and the
    /// next call tries again.
    ///
    /// # Panics
    /// If the value is being made, and its initializer uses it.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let value = match with_values(|values| self.find(values)) {
            Some(Some(value)) => value,
            Some(None) => panic!("a worker-local is used while its value is being made"),
            None => self.make(),
        };
        match value.downcast_ref::<T>() {
            Some(value) => f(value),
            None => unreachable!("a key has values of one type"),
        }
    }

    #[cold]
    fn make(&'static self) -> Rc<dyn Any> {
        /// The value is being made, until this is dropped.
        struct Making(usize);
        impl Drop for Making {
            fn drop(&mut self) {
                with_values(|values| {
                    values
                        .0
                        .borrow_mut()
                        .retain(|(key, value)| *key != self.0 || value.is_some())
                });
            }
        }
        let push = |value| with_values(|values| values.0.borrow_mut().push((self.key(), value)));
        push(None);
        let making = Making(self.key());
        let made: Rc<dyn Any> = Rc::new((self.init)());
        drop(making);
        // Behind the values that it has used: they are dropped after it.
        push(Some(made.clone()));
        made
    }

    fn key(&'static self) -> usize {
        (self as *const Self).addr()
    }

    fn find(&'static self, values: &LocalValues) -> Option<Option<Rc<dyn Any>>> {
        let values = values.0.borrow();
        values
            .iter()
            .find(|(key, _)| *key == self.key())
            .map(|(_, value)| value.clone())
    }
}

impl<T: 'static> std::fmt::Debug for WorkerLocal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerLocal").finish_non_exhaustive()
    }
}

/// Calls `f`, which does not switch, with the caller's values.
fn with_values<R>(f: impl FnOnce(&LocalValues) -> R) -> R {
    let task = server::current_task().unwrap_or_else(thread::of_thread);
    if task.locals.load(Relaxed).is_null() {
        task.locals
            .store(Box::into_raw(Box::<LocalValues>::default()).cast(), Relaxed);
    }
    // SAFETY: a box that lives until `clear`, and that only the worker touches.
    f(unsafe { &*task.locals.load(Relaxed).cast::<LocalValues>() })
}

/// Declares worker-locals: like `thread_local!`, with a value for each worker instead of each
/// thread.
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
        $(
            $(#[$attribute])*
            $visible static $name: $crate::rt::WorkerLocal<$type> =
                $crate::rt::WorkerLocal::new(|| $init);
        )*
    };
}
