//! The name of something that parks.

use super::sync::HoldLock;
use super::task::Task;
use super::{local, server};
use crate::WorkerId;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::fork::Part;
use umcg_core::raw;
use umcg_core::{Granted, granted};

/// A worker or a thread, as somebody who may unpark it. A plain copyable word: it may outlive what
/// it names, and then wakes, without a reason, whoever has the descriptor by then, or nobody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle(&'static TaskRef);

/// Hides the descriptor's type.
#[repr(transparent)]
struct TaskRef(Task);

impl PartialEq for TaskRef {
    fn eq(&self, other: &TaskRef) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TaskRef {}

impl Handle {
    /// The caller's.
    #[inline]
    pub fn current() -> Handle {
        if let Some(running) = server::running() {
            return Handle::of(running.task());
        }
        match raw::Worker::current() {
            // In a blocking scope.
            Some(worker) if server::is_ours(worker) => Handle::of(Task::of(worker)),
            _ => Handle::of(of_thread()),
        }
    }

    #[inline(always)]
    pub(crate) fn of(task: &'static Task) -> Handle {
        // SAFETY: the same type behind a transparent wrapper.
        Handle(unsafe { &*(task as *const Task).cast::<TaskRef>() })
    }

    #[inline(always)]
    pub(crate) fn task(self) -> &'static Task {
        &self.0.0
    }

    /// Makes it go on: its [`park`](super::park()) returns, or the next one will at once, whatever
    /// it waits for otherwise before that. Does not switch.
    #[inline]
    pub fn unpark(self) {
        super::park::unpark(self.task());
    }

    /// The handle as a word, for structures that hold one.
    #[inline]
    pub fn into_raw(self) -> *const () {
        (self.0 as *const TaskRef).cast()
    }

    /// The handle again.
    ///
    /// # Safety
    /// The word came from [`Handle::into_raw`].
    #[inline]
    pub unsafe fn from_raw(raw: *const ()) -> Handle {
        // SAFETY: by the contract; descriptors are never freed.
        Handle(unsafe { &*raw.cast::<TaskRef>() })
    }

    /// The worker's id; that of its descriptor for a thread.
    pub fn id(self) -> WorkerId {
        WorkerId::from_raw(self.into_raw().addr() as u64)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({:p})", self.into_raw())
    }
}

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
pub(super) fn of_thread() -> &'static Task {
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
    local::clear(task);
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
