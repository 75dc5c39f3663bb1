//! Workers that borrow: a scope does not end before they do.

use super::count::{Count, Counted, OPEN};
use super::global;
use super::join::{JoinError, JoinHandle};
use super::making::{Builder, PLAIN, SpawnError, no_worker};
use crate::rt::engine::server;
use crate::rt::task::{Handle, WorkerKind};
use crate::rt::wait::cancel::Shield;
use crate::rt::wait::park;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A scope: everything that its workers borrow outlives it.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    count: &'scope Count,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// The right to the end of a worker of a scope. Dropping it leaves the worker to the scope. The
/// result is dropped as with a [`JoinHandle`].
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, R>(JoinHandle<R>, &'scope Count);

impl<R> ScopedJoinHandle<'_, R> {
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    #[inline]
    pub fn join(self) -> Result<R, JoinError> {
        let joined = self.0.join();
        if matches!(joined, Err(JoinError::Panicked(_))) {
            // The caller has received the panic.
            self.1.panics.fetch_sub(1, Relaxed);
        }
        joined
    }

    /// As [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.0.abort();
    }

    /// As [`JoinHandle::handle`].
    pub fn handle(&self) -> Handle {
        self.0.handle()
    }
}

/// Calls `f` with a scope in which it can make workers that borrow from outside the scope. Returns
/// when all of them have ended. Switches. Not a point of cancellation itself: a caller that is
/// asked to end while it waits here ends once its workers have ended.
///
/// # Panics
/// If `f` panics, or a worker panics and no `join` has returned that panic. So a scope that returns
/// has done all of its work. A worker that was aborted has not panicked.
///
/// ```
/// let mut words = vec!["a", "b"];
/// umcg::scope(|scope| {
///     for word in &mut words {
///         scope.spawn(move || *word = "c");
///     }
/// });
/// assert_eq!(words, ["c", "c"]);
/// ```
#[track_caller]
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let count = Count {
        remaining: AtomicUsize::new(OPEN),
        panics: AtomicUsize::new(0),
        owner: Handle::current(),
    };
    let scope = Scope {
        count: &count,
        _scope: PhantomData,
        _env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // ORDERING(scope.2): Acquire, pairs with scope.1.
    if count.remaining.fetch_sub(OPEN, Acquire) != OPEN {
        let _shield = server::current_task().map(Shield::new);
        // ORDERING(scope.2): as above.
        while count.remaining.load(Acquire) != 0 {
            park::park_shielded(&"scope");
        }
    }
    match result {
        Ok(_) if count.panics.load(Relaxed) != 0 => panic!("a worker of a scope panicked"),
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Makes a light worker in the scope. See [`Builder::spawn_light`].
    ///
    /// # Panics
    /// If there is no memory for its stack.
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    #[inline]
    pub unsafe fn spawn_light<F, R>(&'scope self, f: F) -> ScopedJoinHandle<'scope, R>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        // SAFETY: passed on.
        unsafe { self.build_light(&PLAIN, f) }.unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a light worker in the scope, with the builder's options.
    ///
    /// # Errors
    /// [`SpawnError`].
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    pub unsafe fn build_light<F, R>(
        &'scope self,
        builder: &Builder<'_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        // SAFETY: passed on.
        unsafe { self.make(WorkerKind::Sharing, builder, f) }
    }

    /// Makes a worker in the scope, with thread-local storage of its own.
    ///
    /// # Panics
    /// If there is no memory for it.
    #[inline]
    pub fn spawn<F, R>(&'scope self, f: F) -> ScopedJoinHandle<'scope, R>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        self.build(&PLAIN, f)
            .unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a worker in the scope, with the builder's options.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn build<F, R>(
        &'scope self,
        builder: &Builder<'_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        // SAFETY: the worker's storage moves along with it.
        unsafe { self.make(WorkerKind::Full, builder, f) }
    }

    /// # Safety
    /// For a light worker: as [`Builder::spawn_light`].
    unsafe fn make<F, R>(
        &'scope self,
        kind: WorkerKind,
        builder: &Builder<'_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'scope,
        R: Send + 'scope,
    {
        let count = self.count;
        let counted = Counted::new(count);
        let handle = match server::running() {
            // SAFETY: passed on; `scope` waits for the worker.
            Some(running) => unsafe { builder.make_here(kind, &running, f, Some(count)) },
            // SAFETY: as above.
            None => unsafe {
                builder.make_outside(kind, global::shared_of_caller()?, f, Some(count))
            },
        }?;
        std::mem::forget(counted);
        Ok(ScopedJoinHandle(handle, count))
    }
}
