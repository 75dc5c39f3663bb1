//! The name of something that parks.

use super::Task;
use crate::WorkerId;

/// Names a worker or a thread that can be unparked. It is a plain copyable word and may outlive the
/// worker or thread. It then wakes the one that has the descriptor now, without a reason, or wakes
/// none.
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
    #[inline(always)]
    pub(crate) fn of(task: &'static Task) -> Handle {
        // SAFETY: the same type behind a transparent wrapper.
        Handle(unsafe { &*(task as *const Task).cast::<TaskRef>() })
    }

    #[inline(always)]
    pub(crate) fn task(self) -> &'static Task {
        &self.0.0
    }

    /// The handle as a word, for data structures that store one.
    #[inline]
    pub fn into_raw(self) -> *const () {
        (self.0 as *const TaskRef).cast()
    }

    /// The handle from its word.
    ///
    /// # Safety
    /// The word came from [`Handle::into_raw`].
    #[inline]
    pub unsafe fn from_raw(raw: *const ()) -> Handle {
        // SAFETY: by the contract; descriptors are never freed.
        Handle(unsafe { &*raw.cast::<TaskRef>() })
    }

    /// The worker's id. For a thread: the id of its descriptor.
    pub fn id(self) -> WorkerId {
        WorkerId::from_raw(self.into_raw().addr() as u64)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({:p})", self.into_raw())
    }
}
