//! The two kinds of workers, by one name each way to make them.
//!
//! Making a light worker is unsafe, since wherever it waits, yields or blocks it may find the
//! thread-local storage of another thread. The tests choose the worker's code, so it is argued
//! here, once, for all of them. A new test has to keep it so:
//!
//! - L: where a test's light worker calls a function that may switch, it is in no `LocalKey::with`,
//!   and has nothing that is not `Send`, such as a guard of one of std's locks; none of its
//!   destructors waits while it unwinds. Where preemption is on, all this holds at every
//!   instruction, so it does not even allocate.

use umcg::{Builder, JoinHandle, Runtime, Scope, ScopedJoinHandle, SpawnError};

/// The owner of a worker's thread-local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its own.
    Full,
    /// The server's.
    Light,
}

pub(crate) const KINDS: [Kind; 2] = [Kind::Full, Kind::Light];

impl Kind {
    pub(crate) fn spawn<R: Send + 'static>(
        self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        match self {
            Kind::Full => umcg::spawn(f),
            // SAFETY: L.
            Kind::Light => unsafe { umcg::spawn_light(f) },
        }
    }

    pub(crate) fn spawn_on<R: Send + 'static>(
        self,
        on: &Runtime,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        match self {
            Kind::Full => on.spawn(f),
            // SAFETY: L.
            Kind::Light => unsafe { on.spawn_light(f) },
        }
    }

    pub(crate) fn build<R: Send + 'static>(
        self,
        builder: &Builder<'_>,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        match self {
            Kind::Full => builder.spawn(f),
            // SAFETY: L.
            Kind::Light => unsafe { builder.spawn_light(f) },
        }
    }

    pub(crate) fn build_on<R: Send + 'static>(
        self,
        on: &Runtime,
        builder: &Builder<'_>,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        match self {
            Kind::Full => on.build(builder, f),
            // SAFETY: L.
            Kind::Light => unsafe { on.build_light(builder, f) },
        }
    }

    pub(crate) fn spawn_in<'s, R: Send + 's>(
        self,
        scope: &'s Scope<'s, '_>,
        f: impl FnOnce() -> R + Send + 's,
    ) -> ScopedJoinHandle<'s, R> {
        match self {
            Kind::Full => scope.spawn(f),
            // SAFETY: L.
            Kind::Light => unsafe { scope.spawn_light(f) },
        }
    }

    /// Runs `f` as a worker of the runtime, and goes on with its panic.
    pub(crate) fn run<R: Send + 'static>(
        self,
        on: &Runtime,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        self.spawn_on(on, f)
            .join()
            .unwrap_or_else(|error| error.resume_unwind())
    }
}
