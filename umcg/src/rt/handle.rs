//! The name of something that parks.

use super::server;
use super::task::Task;
use crate::WorkerId;
use std::sync::Mutex;
use umcg_core::raw;

/// A worker or a thread, as somebody who may unpark it. A plain copyable word: it may outlive what it names, and then wakes, without a reason, whoever
/// has the descriptor by then, or nobody.
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

    /// Makes it go on: its [`park`](super::park()) returns, or the next one will at once. Does not switch.
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
static SPARE: Mutex<Vec<&'static Task>> = Mutex::new(Vec::new());

/// A thread's descriptor, given back at its end.
struct OfThread(&'static Task);

impl OfThread {
    fn new() -> OfThread {
        let spare = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        OfThread(spare.unwrap_or_else(|| Box::leak(Box::new(Task::of_thread()))))
    }
}

impl Drop for OfThread {
    fn drop(&mut self) {
        SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.0);
    }
}

/// The calling thread's descriptor. Not inlined: in a worker that moves the compiler must not keep the address of a thread-local.
#[inline(never)]
fn of_thread() -> &'static Task {
    thread_local!(static OF_THREAD: OfThread = OfThread::new());
    // While the thread ends its own is gone already: then a new one, for good.
    OF_THREAD.try_with(|own| own.0).unwrap_or_else(|_| OfThread::new().leak())
}

impl OfThread {
    fn leak(self) -> &'static Task {
        std::mem::ManuallyDrop::new(self).0
    }
}
