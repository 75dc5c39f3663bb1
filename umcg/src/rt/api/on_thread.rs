//! Full workers where there is no thread-local storage to be had but a thread's: each is a pthread
//! that registers as a worker of the runtime's group.
//!
//! So `spawn` means the same with a C library, a processor or a sanitizer for which
//! `umcg_core::storage` is not available; it only costs what a thread costs. To the rest of the
//! runtime such a worker differs in three ways: its first event brings it to a server
//! ([`Kind::Wake`](umcg_core::raw::Kind)); its descriptor and packet lie on the heap; and it ends
//! as a plain thread, so that all it does then is done from outside.

use super::body::run_body;
use super::count::{self, Count};
use super::end::{self, Ending, Packet};
use super::join::JoinHandle;
use super::making::{Builder, SpawnError};
use super::names;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::task::{IS_FULL, IS_THREAD, IS_WORKER, Task, WorkerKind, heap};
use crate::rt::wait::park;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;
use umcg_core::raw;
use umcg_core::storage;

/// Whether a worker of this kind has to be a thread here.
#[inline]
pub(crate) fn is_needed(kind: WorkerKind) -> bool {
    kind == WorkerKind::Full && storage::is_ruled_out()
}

/// What there is on a pthread's stack besides frames, in bytes at most: its static thread-local
/// storage, which a sanitizer has a lot of. Untouched it is no memory.
const BESIDES: usize = 128 << 10;

/// Makes a worker that is a thread. The caller has counted it, which is taken back when there is
/// none.
///
/// # Safety
/// What `f` and R borrow lives until the worker has ended.
pub(crate) unsafe fn make<F, R>(
    builder: &Builder<'_>,
    shared: &RuntimeState,
    f: F,
    scope: Option<&Count>,
) -> Result<JoinHandle<R>, SpawnError>
where
    F: FnOnce() -> R,
{
    let task = heap::take();
    task.renew(shared.as_of(), IS_WORKER | IS_FULL | IS_THREAD);
    builder.set_hints(task);
    task.scope
        .store(scope.map_or(null_mut(), Count::as_ptr), Relaxed);
    if !raw::threads_move() {
        shared.has_staying.store(true, Relaxed);
    }
    // Its first event says that it came back from somewhere.
    shared.blocked.fetch_add(1, Relaxed);
    let start = builder.class(shared).and_then(|class| {
        // Before there is the thread: a shortage is the maker's error, and not a worker that never
        // runs.
        let home = raw::Reserved::new().map_err(|_| SpawnError::Thread)?;
        let parts = Parts {
            home,
            name: builder.name_or(""),
            f,
        };
        let body = move || main::<F, R>(task, parts);
        let size = class.size() + BESIDES;
        let thread = std::thread::Builder::new()
            .name(builder.name_or("umcg-worker"))
            .stack_size(size);
        // SAFETY: by the contract what the body borrows outlives it.
        unsafe { thread.spawn_unchecked(body) }.map_err(|_| SpawnError::Thread)
    });
    if let Err(error) = start {
        shared.blocked.fetch_sub(1, Relaxed);
        shared.spawned_outside.fetch_sub(1, Relaxed);
        heap::give_back(task);
        return Err(error);
    }
    // SAFETY: the worker is new, and leaves a packet of R.
    Ok(unsafe { JoinHandle::new(task) })
}

/// What a worker's thread is given.
struct Parts<F> {
    home: raw::Reserved,
    /// Empty where it has none.
    name: String,
    f: F,
}

// SAFETY: callers of `make` vouch for `f`, by F: Send of their own, or as a scope does; a home is
// its thread's only once that has registered.
unsafe impl<F> Send for Parts<F> {}

fn main<F: FnOnce() -> R, R>(task: &'static Task, parts: Parts<F>) {
    let Parts { home, name, f } = parts;
    let shared = RuntimeState::of(task);
    let id = (task as *const Task).addr() as u64;
    let packet: Option<Packet<R>> =
        match raw::Worker::register_with(home, shared.group, id, shared.watch.preemption()) {
            Ok(worker) => {
                if !name.is_empty() {
                    worker.set_name(&name);
                    names::tell_in_panics();
                }
                let packet = run_body(task, f);
                if raw::Worker::current().is_some() {
                    // SAFETY: the caller is that worker, which is a thread's.
                    unsafe { worker.unregister() };
                }
                packet
            }
            Err(error) => {
                shared.blocked.fetch_sub(1, Relaxed);
                // Now: what it borrows is there only as long as the worker counts. Its destructor's
                // panic changes nothing.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(f)));
                let payload: Box<dyn Any + Send> = Box::new(format!(
                    "the thread of a worker could not register: {error}"
                ));
                // SAFETY: the worker's scope, if any, which is told of the end below.
                unsafe { count::note_unwound(task.scope.load(Relaxed), &*payload) };
                Some(Err(payload))
            }
        };
    let scope = task.scope.load(Relaxed);
    if let Some(packet) = packet {
        task.result
            .store(Box::into_raw(Box::new(packet)).cast(), Relaxed);
    }
    // Counted first: who sees the end sees that there is a worker less.
    let _visit = shared.group.visit();
    shared.count_end_outside();
    match end::end_outside(task) {
        Ending::Wanted => {}
        Ending::Unwanted => {
            if !task.result.load(Relaxed).is_null() {
                // SAFETY: the handle is gone, so the packet, left just above, is ours.
                end::forget_quietly(unsafe { end::read_packet::<R>(task) });
            }
            heap::give_back(task);
        }
    }
    // Told last: what the worker left may have borrowed from outside its scope.
    // SAFETY: the scope that the worker was put into, if any; it is told once.
    if let Some(owner) = unsafe { count::ended(scope) } {
        park::wake(owner.task());
    }
}
