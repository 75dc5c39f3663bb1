//! The descriptors of plain threads: each thread has one from its first wait to its end.

use super::{Task, locals};
use crate::rt::base::sync::HoldLock;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::fork::Part;
use umcg_core::{Granted, granted};

/// Descriptors of threads that have ended.
static SPARE: HoldLock<Vec<&'static Task>> = HoldLock::new(Vec::new());

static FORKS: Part = Part::new(Part::ABOVE, || SPARE.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(_in_child: bool) {
    // SAFETY: passed on.
    drop(unsafe { SPARE.adopt() });
}

/// The calling thread's descriptor. Not inlined: in a worker that moves the compiler must not keep
/// the address of a thread-local.
#[inline(never)]
pub(crate) fn of_thread() -> &'static Task {
    OF_THREAD.get().unwrap_or_else(|| {
        // Without memory for that a child has to do as well as it can.
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

thread_local! {
    static OF_THREAD: Cell<Option<&'static Task>> = const { Cell::new(None) };
    static END: End = const { End };
}

/// Ends the thread's part, among the destructors of its thread-locals.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        if let Some(task) = OF_THREAD.get() {
            end(task);
        }
    }
}

/// The calling thread's part ends: what it has as worker-locals, while it still has its descriptor,
/// and then that.
fn end(task: &'static Task) {
    locals::clear(task);
    OF_THREAD.set(None);
    // A section that it has not ended is over with it.
    task.depth.store(0, Relaxed);
    task.cancel.store(0, Relaxed);
    SPARE.lock().push(task);
}

/// For a part that was made by destructors of thread-locals, after that: it ends with the values of
/// `pthread_setspecific`, and as often as there is one. If the system has no key left it stays, for
/// good.
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
    // SAFETY: what `end_later` has set; descriptors are never freed.
    end(unsafe { &*task.cast_const().cast::<Task>() });
}
