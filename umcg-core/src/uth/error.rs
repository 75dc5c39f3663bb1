//! The errors of calls on uths.

use crate::storage;
use umcg_context::stack::StackError;

/// Why a call on a uth or a virtual processor was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
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
    Storage(storage::Error),
    /// No memory for a descriptor.
    OutOfMemory,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::AlreadyInitialised => "the library has been initialised before",
            Error::NoVp => "this kernel thread is no virtual processor",
            Error::AlreadyVp => "this kernel thread is a virtual processor already",
            Error::RankTaken => "another kernel thread is the virtual processor of this rank",
            Error::Running => "the uth is running",
            Error::Finished => "the uth has finished",
            Error::Discarded => "the uth was left by a switch that did not save it",
            Error::Deleted => "the uth has been deleted",
            Error::MethodMismatch => "the uth was made for another switch method",
            Error::NotCurrent => "the uth to be saved does not run on this virtual processor",
            Error::Native => "the uth stands for a kernel thread",
            Error::Worker => "the uth is a worker's",
            Error::MethodMissing => "the switch method is not part of this build",
            Error::Stack(error) => return error.fmt(f),
            Error::Storage(error) => return error.fmt(f),
            Error::OutOfMemory => "no memory for a descriptor",
        })
    }
}

impl std::error::Error for Error {}

impl From<StackError> for Error {
    fn from(error: StackError) -> Self {
        Error::Stack(error)
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Error::Storage(error)
    }
}
