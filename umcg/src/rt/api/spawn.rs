//! Making workers in the caller's runtime.

use super::global;
use super::join::JoinHandle;
use super::making::{Builder, PLAIN, SpawnError, no_worker};
use crate::rt::engine::server;
use crate::rt::task::WorkerKind;

impl Builder<'_> {
    /// Makes a worker with thread-local storage of its own: everything that is sound in a thread is
    /// sound in it. Its thread-locals are made anew for it, and their destructors run at its end.
    ///
    /// # Errors
    /// [`SpawnError`].
    #[inline]
    pub fn spawn<F, R>(&self, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: the worker's storage moves along with it.
        unsafe { self.make(WorkerKind::Full, f) }
    }

    /// Makes a worker that shares the thread-local storage of the server that runs it: the lightest
    /// kind, and the fastest to switch to. If it blocks outside of
    /// [`blocking`](crate::blocking) it keeps its server, also where other workers' blocking is
    /// noticed (`intercept::notice_blocking`): suspended, it could hold a lock that the server
    /// needs.
    ///
    /// # Errors
    /// [`SpawnError`].
    ///
    /// # Safety
    /// The worker may be on another kernel thread after each call that waits, yields or blocks, and
    /// other workers run there meanwhile. So `f` keeps across such a call
    /// - no reference into thread-local storage (`LocalKey::with` around it, for one), and
    /// - no value that must stay on its thread (that is not `Send`), such as a guard of a lock that
    ///   knows its owner.
    ///
    /// Nor may a destructor wait while it unwinds. With preemption on, the same holds at every
    /// instruction outside a [`critical`](crate::critical) section.
    #[inline]
    pub unsafe fn spawn_light<F, R>(&self, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { self.make(WorkerKind::Sharing, f) }
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[inline]
    unsafe fn make<F, R>(&self, kind: WorkerKind, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R,
    {
        match server::running() {
            // SAFETY: passed on.
            Some(running) => unsafe { self.make_here(kind, &running, f, None) },
            // SAFETY: passed on.
            None => unsafe { self.make_outside(kind, global::shared_of_caller()?, f, None) },
        }
    }
}

/// Makes a worker that shares the thread-local storage of the server that runs it. See
/// [`Builder::spawn_light`].
///
/// # Panics
/// If there is no memory for its stack, or the global runtime is needed and cannot be started.
///
/// # Safety
/// As [`Builder::spawn_light`].
#[inline]
pub unsafe fn spawn_light<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    // SAFETY: passed on.
    unsafe { PLAIN.spawn_light(f) }.unwrap_or_else(|error| no_worker(error))
}

/// Makes a worker with thread-local storage of its own, in the caller's runtime, or in the global
/// one. It is like `std::thread::spawn`, at a thousandth of the price.
///
/// # Panics
/// If there is no memory for it, or the global runtime is needed and cannot be started.
/// [`Builder::spawn`] returns an error then.
///
/// ```
/// let worker = umcg::spawn(|| 6 * 7);
/// assert_eq!(worker.join().unwrap(), 42);
/// ```
#[inline]
pub fn spawn<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    PLAIN.spawn(f).unwrap_or_else(|error| no_worker(error))
}
