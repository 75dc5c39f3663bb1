//! Full workers where only a thread can have thread-local storage: each is a pthread that registers
//! as a worker of the runtime's group.
//!
//! So `spawn` means the same with a C library, a processor or a sanitizer for which
//! `umcg_core::storage` is not available. It only costs as much as a thread. To the rest of the
//! runtime such a worker differs in three ways. Its first event brings it to a server
//! ([`EventKind::Wake`](umcg_core::raw::EventKind)). Its descriptor and packet lie on the heap. It
//! ends as a plain thread, so all work of its end is done from outside.

use super::body::run_body;
use super::count::{self, Count};
use super::end::{self, Packet, PacketFate};
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

/// The most bytes on a pthread's stack besides frames: its static thread-local storage, of which a
/// sanitizer has a lot. Untouched it takes no memory.
const BESIDES: usize = 128 << 10;

/// Makes a worker that is a thread. The caller has counted the worker. If none is made, the count
/// is taken back.
///
/// # Safety
/// Everything that `f` and R borrow lives until the worker has ended.
pub(crate) unsafe fn make<F, R>(
    builder: &Builder<'_>,
    shared: &RuntimeState,
    f: F,
    scope: Option<&Count>,
) -> Result<JoinHandle<R>, SpawnError>
where
    F: FnOnce() -> R,
{
    let Some(task) = heap::take() else {
        shared.spawned_outside.fetch_sub(1, Relaxed);
        return Err(SpawnError::Thread);
    };
    task.renew(shared.as_of(), IS_WORKER | IS_FULL | IS_THREAD);
    builder.set_hints(task);
    task.scope
        .store(scope.map_or(null_mut(), Count::as_ptr), Relaxed);
    if !raw::threads_move() {
        shared.has_staying.store(true, Relaxed);
    }
    // The worker's first event says that it came back from blocking.
    shared.blocked.fetch_add(1, Relaxed);
    let start = builder.class(shared).and_then(|class| {
        // Before the thread is made: then a shortage is an error for the maker, and not a worker
        // that never runs.
        let home = raw::Reservation::new().map_err(|_| SpawnError::Thread)?;
        let start_data = ThreadStart {
            home,
            name: builder.name_or(""),
            f,
        };
        let body = move || main::<F, R>(task, start_data);
        let size = class.size() + BESIDES;
        let thread = std::thread::Builder::new()
            .name(builder.name_or("umcg-worker"))
            .stack_size(size);
        // SAFETY: by the contract, everything that the body borrows outlives it.
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

/// The data given to a worker's thread.
struct ThreadStart<F> {
    home: raw::Reservation,
    /// Empty if the worker has no name.
    name: String,
    f: F,
}

// SAFETY: callers of `make` vouch for `f`, by their own bound F: Send, or as a scope does. A home
// belongs to its thread only once that thread has registered.
unsafe impl<F> Send for ThreadStart<F> {}

fn main<F: FnOnce() -> R, R>(task: &'static Task, start_data: ThreadStart<F>) {
    let ThreadStart { home, name, f } = start_data;
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
                // Dropped now: the data that it borrows is valid only as long as the worker counts.
                // A panic of its destructor changes nothing.
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
    // Counted first: a thread that sees the end sees one worker less.
    let _visit = shared.group.visit();
    shared.count_end_outside();
    match end::end_outside(task) {
        PacketFate::Wanted => {}
        PacketFate::Unwanted => {
            if !task.result.load(Relaxed).is_null() {
                // SAFETY: the handle is gone, and the packet was left just above, so this thread
                // may read it.
                end::forget_quietly(unsafe { end::read_packet::<R>(task) });
            }
            heap::give_back(task);
        }
    }
    // The scope is told last: the worker's packet may borrow from outside the scope.
    // SAFETY: the scope that the worker was put into, if any; this is called once for the worker.
    if let Some(owner) = unsafe { count::ended(scope) } {
        park::wake(owner.task());
    }
}
