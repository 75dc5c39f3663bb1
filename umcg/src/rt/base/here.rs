//! The proof of being on a server's kernel thread.
//!
//! What a server owns it touches without locked operations
//! ([`PerServer::own`](super::per_server::PerServer::own)), and that is sound only on one kernel
//! thread. A `Here` stays where it was made: it is neither `Send` nor `Sync`. The type cannot see a
//! switch, though: a worker that borrows one, leaves its server and is run by another would have it
//! on the wrong kernel thread. That is what `unsafe` in [`Here::new`] is about.
//!
//! Each has a number of its own, so that what belongs to a server of one runtime is not mistaken
//! for that of the server with the same index in another.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A server, as known on its own kernel thread.
#[derive(Debug)]
pub struct Here {
    index: usize,
    identity: usize,
    /// What is of this kernel thread stays there.
    _not_send: PhantomData<*const ()>,
}

impl Here {
    /// The calling kernel thread is the server with this index.
    ///
    /// # Safety
    /// No reference to the value is used on another kernel thread: a worker that borrows it gives
    /// the borrow up before it leaves its server, and keeps preemption off as long as it has it.
    pub unsafe fn new(index: usize) -> Here {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Here {
            index,
            identity: NEXT.fetch_add(1, Relaxed),
            _not_send: PhantomData,
        }
    }

    /// Which of its runtime's servers this is, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Unlike that of any other `Here` of the process; never 0.
    #[inline]
    pub(crate) fn identity(&self) -> usize {
        self.identity
    }
}
