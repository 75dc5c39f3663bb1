//! Thread workers.

use crate::{Error, WorkerId};
use std::marker::PhantomData;
use umcg_core::raw;

/// The calling pthread as a worker. It stays one until this value is dropped, or the thread ends.
///
/// The guard does not leave the thread:
///
/// ```compile_fail,E0277
/// let worker = umcg::Worker::register(umcg::WorkerId::from_index(1)).unwrap();
/// std::thread::spawn(move || drop(worker));
/// ```
///
/// The worker's context moves to the kernel thread of the server that runs it, with its stack,
/// registers and thread-local storage. So everything that is sound in a thread is sound in a thread
/// worker, including values that must not leave their thread.
#[derive(Debug)]
pub struct Worker {
    worker: raw::Worker,
    /// Neither Send nor Sync: it stands for this thread.
    _here: PhantomData<*const ()>,
}

impl Worker {
    /// Makes the calling thread a worker. Some server gets [`Event::Wake`](crate::Event::Wake), and
    /// the call returns when a server switches to the worker. From then on the worker runs only
    /// when a server runs it.
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

    /// The worker's id.
    pub fn id(&self) -> WorkerId {
        WorkerId::from_raw(self.worker.id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // In a forked child the worker is a plain thread already.
        if raw::Worker::current().is_some() {
            // SAFETY: the value is not Send, so the caller is the worker itself. It is a thread
            // worker, and ends here.
            unsafe { self.worker.unregister() };
        }
    }
}
