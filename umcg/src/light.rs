//! Light workers, with or without storage of their own.

use crate::{Error, Ready, WorkerId};
use umcg_core::raw;
use umcg_core::uth::UthError;

/// A light worker to be made: a function on a pooled stack, without a kernel thread of its own.
#[derive(Clone, Debug)]
pub struct LightBuilder<'a> {
    id: WorkerId,
    stack_size: usize,
    name: &'a str,
}

/// A builder for a light worker with this id.
pub fn light<'a>(id: WorkerId) -> LightBuilder<'a> {
    LightBuilder {
        id,
        stack_size: 0,
        name: "",
    }
}

impl<'a> LightBuilder<'a> {
    /// Bytes of stack, rounded up to a power of two; 64 KiB if not set.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// The worker's name, of which 23 bytes are kept: messages about the worker show it.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    /// Makes the worker. It runs `f` when a server first switches to it, and exits when `f`
    /// returns. A panic that leaves `f` ends the process with the worker's name. Does not switch.
    /// Dropping the result gives the new worker to the first server that asks for one.
    ///
    /// # Errors
    /// [`Error::Stack`]: no memory for a stack, or no such size.
    ///
    /// # Safety
    /// The worker shares the thread-local storage of the kernel thread that runs it. It may be on
    /// another kernel thread after each call that switches ([`wait`](crate::wait),
    /// [`switch_to`](crate::switch_to), [`blocking`](crate::blocking), or preemption if that is
    /// on). So `f` keeps across such a call
    /// - no reference into thread-local storage (`LocalKey::with` around it, for one), and
    /// - no value that must stay on its thread (that is not `Send`), such as a guard of a lock that
    ///   knows its owner.
    ///
    /// With preemption on, the same holds at every instruction outside a
    /// [`critical`](crate::critical) section.
    pub unsafe fn spawn<F: FnOnce() + Send + 'static>(self, f: F) -> Result<Ready, Error> {
        // SAFETY: passed on.
        let worker = unsafe {
            raw::Worker::sharing(
                raw::Group::first(),
                self.id.as_u64(),
                self.stack_size,
                self.name,
                f,
            )
        };
        made(worker)
    }

    /// Like [`LightBuilder::spawn`], for a worker with thread-local storage of its own. That is
    /// safe: to the functions that `f` calls, the worker is a thread. It costs some memory, 4.5 KiB
    /// in most programs, and a write of the thread pointer each way. When `f` has returned, the
    /// destructors of the thread-locals that it used run.
    ///
    /// # Errors
    /// [`Error::Stack`]: no memory for a stack or a storage, no such size, or no such storage with
    /// this C library ([`umcg_core::storage::available`]).
    pub fn spawn_owning<F: FnOnce() + Send + 'static>(self, f: F) -> Result<Ready, Error> {
        let worker = raw::Worker::owning(
            raw::Group::first(),
            self.id.as_u64(),
            self.stack_size,
            self.name,
            f,
        );
        made(worker)
    }
}

fn made(worker: Result<raw::Worker, UthError>) -> Result<Ready, Error> {
    // SAFETY: the maker of a new worker has the right to run it.
    worker
        .map(|worker| unsafe { Ready::new(worker) })
        .map_err(Error::Stack)
}
