//! The descriptors of plain threads: each thread has one from its first wait to its end.

use super::{Task, locals};
use crate::rt::base::sync::HoldLock;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::fork::Part;
use umcg_core::{Granted, granted};

/// Descriptors of threads that have ended, for reuse.
static SPARE: HoldLock<Vec<&'static Task>> = HoldLock::new(Vec::new());

static FORKS: Part = Part::new(Part::ABOVE, || SPARE.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(_in_child: bool) {
    // SAFETY: passed on.
    drop(unsafe { SPARE.adopt() });
}

/// The calling thread's descriptor. Not inlined: in a worker that moves between threads, the
/// compiler must not keep the address of a thread-local.
#[inline(never)]
pub(crate) fn of_thread() -> &'static Task {
    OF_THREAD.get().unwrap_or_else(|| {
        // A forked child without memory for that goes on without it.
        let _ = FORKS.enter();
        let spare = SPARE.lock().pop();
        let task = spare.unwrap_or_else(|| Box::leak(Box::new(Task::of_thread())));
        OF_THREAD.set(Some(task));
        if END.try_with(|_| {}).is_err() {
            end_later(task);
        }
        task
    })
}

/// Makes this the descriptor of the calling thread, if that has none yet. The caller takes it back
/// once the thread has ended, and [`forget`]s what that left.
#[inline(never)]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn begin_with(task: &'static Task) -> &'static Task {
    if OF_THREAD.get().is_none() {
        OF_THREAD.set(Some(task));
    }
    OF_THREAD.get().unwrap_or(task)
}

thread_local! {
    static OF_THREAD: Cell<Option<&'static Task>> = const { Cell::new(None) };
    static END: ThreadExit = const { ThreadExit };
}

/// Ends the thread's use of the library. Runs among the destructors of its thread-locals.
struct ThreadExit;

impl Drop for ThreadExit {
    fn drop(&mut self) {
        if let Some(task) = OF_THREAD.get() {
            end(task);
        }
    }
}

/// Ends the calling thread's use of the library. Drops its worker-locals first, while it still has
/// its descriptor. Then gives the descriptor back.
fn end(task: &'static Task) {
    locals::clear(task);
    OF_THREAD.set(None);
    forget(task);
    SPARE.lock().push(task);
}

/// Makes the descriptor of a thread that has ended one for another thread.
pub(crate) fn forget(task: &Task) {
    // A section that the thread has not ended ends here.
    task.depth.store(0, Relaxed);
    task.cancel.store(0, Relaxed);
    task.is_cut.store(false, Relaxed);
}

/// For a descriptor that the destructors of thread-locals made after the first one was given back.
/// It is given back with the values of `pthread_setspecific`, each time that there is one. If the
/// system has no key left, the descriptor is never given back.
#[cold]
fn end_later(task: &'static Task) {
    static KEY: Granted<libc::pthread_key_t> = Granted::new();
    let make = || {
        let mut key = 0;
        // SAFETY: `key` is written by the call; the destructor does not unwind.
        granted(unsafe { libc::pthread_key_create(&mut key, Some(on_end)) }).map(|()| key)
    };
    if let Ok(&key) = KEY.get_or_ask(make) {
        // SAFETY: the key was created.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(task).cast()) };
    }
}

unsafe extern "C" fn on_end(task: *mut c_void) {
    // SAFETY: the pointer that `end_later` has set; descriptors are never freed.
    end(unsafe { &*task.cast_const().cast::<Task>() });
}
