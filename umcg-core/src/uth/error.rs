//! The errors of calls on uths.

use crate::storage;
use umcg_context::stack::StackError;

/// Why a call on a uth or a virtual processor was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UthError {
    /// [`init`](super::init) has been called before.
    AlreadyInitialised,
    /// The calling kernel thread is no virtual processor.
    NoVp,
    /// The calling kernel thread is a virtual processor already.
    AlreadyVp,
    /// Another kernel thread is the virtual processor of this rank.
    RankTaken,
    /// The uth is running, perhaps on another virtual processor.
    Running,
    /// The uth's function has returned.
    Finished,
    /// The uth was left by a switch that did not save it.
    Discarded,
    /// The uth has been deleted.
    Deleted,
    /// The uth was made for another switch method than this virtual processor's.
    MethodMismatch,
    /// The uth to be saved is not the one that runs on this virtual processor.
    NotCurrent,
    /// The uth stands for a kernel thread: it cannot be deleted or made anew.
    Native,
    /// The uth belongs to a light worker: only a server runs it.
    Worker,
    /// The switch method was left out of this build (feature `portable`).
    MethodMissing,
    /// There is no stack.
    Stack(StackError),
    /// There is no thread-local storage for a worker.
    Storage(storage::StorageError),
    /// No memory for a descriptor.
    OutOfMemory,
}

impl std::fmt::Display for UthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            UthError::AlreadyInitialised => "the library has been initialised before",
            UthError::NoVp => "this kernel thread is no virtual processor",
            UthError::AlreadyVp => "this kernel thread is a virtual processor already",
            UthError::RankTaken => "another kernel thread is the virtual processor of this rank",
            UthError::Running => "the uth is running",
            UthError::Finished => "the uth has finished",
            UthError::Discarded => "the uth was left by a switch that did not save it",
            UthError::Deleted => "the uth has been deleted",
            UthError::MethodMismatch => "the uth was made for another switch method",
            UthError::NotCurrent => "the uth to be saved does not run on this virtual processor",
            UthError::Native => "the uth stands for a kernel thread",
            UthError::Worker => "the uth is a worker's",
            UthError::MethodMissing => "the switch method is not part of this build",
            UthError::Stack(error) => return error.fmt(f),
            UthError::Storage(error) => return error.fmt(f),
            UthError::OutOfMemory => "no memory for a descriptor",
        })
    }
}

impl std::error::Error for UthError {}

impl From<StackError> for UthError {
    fn from(error: StackError) -> Self {
        UthError::Stack(error)
    }
}

impl From<storage::StorageError> for UthError {
    fn from(error: storage::StorageError) -> Self {
        UthError::Storage(error)
    }
}
