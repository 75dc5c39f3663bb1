//! Thread workers.

use crate::{Error, WorkerId};
use std::marker::PhantomData;
use umcg_core::raw;

/// The calling pthread as a worker. It stays one until this is dropped, or the thread ends.
///
/// Its guard does not leave the thread:
///
/// ```compile_fail,E0277
/// let worker = umcg::Worker::register(umcg::WorkerId::from_index(1)).unwrap();
/// std::thread::spawn(move || drop(worker));
/// ```
///
/// Its context moves to the kernel thread of whichever server runs it, with its stack, registers
/// and thread-local storage; so all that is sound in a thread is sound in a thread worker, values
/// that must not leave their thread included.
#[derive(Debug)]
pub struct Worker {
    worker: raw::Worker,
    /// Not Send, not Sync: it is this thread.
    _here: PhantomData<*const ()>,
}

impl Worker {
    /// Makes the calling thread a worker: some server gets [`Event::Wake`](crate::Event::Wake), and
    /// the call returns when a server switches to it. From then on it runs only when a server lets
    /// it.
    ///
    /// # Errors
    /// [`Error::Registered`], [`Error::OutOfMemory`], [`Error::Os`].
    pub fn register(id: WorkerId) -> Result<Worker, Error> {
        match raw::Worker::register(raw::Group::first(), id.as_u64(), 0) {
            Ok(worker) => Ok(Worker {
                worker,
                _here: PhantomData,
            }),
            Err(error) => Err(Error::from_raw(error.raw_os_error())),
        }
    }

    /// Its id.
    pub fn id(&self) -> WorkerId {
        WorkerId::from_raw(self.worker.id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // In a forked child the worker is a plain thread already.
        if raw::Worker::current().is_some() {
            // SAFETY: the value is not Send, so this is the worker itself; it is a thread worker,
            // and ends here.
            unsafe { self.worker.unregister() };
        }
    }
}
