//! The proof of being on a server's kernel thread.
//!
//! A server touches its own data without locked operations
//! ([`PerServer::own`](super::per_server::PerServer::own)). That is sound only on one kernel
//! thread. A `Here` stays where it was made: it is neither `Send` nor `Sync`. But the type cannot
//! see a switch: a worker that borrows a `Here`, leaves its server and is run by another would have
//! it on the wrong kernel thread. Preventing that is the contract of [`Here::new`], which is
//! therefore `unsafe`.
//!
//! Each `Here` has a number of its own. So the data of a server of one runtime is not mistaken for
//! that of the server with the same index in another.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A server, as known on its own kernel thread.
#[derive(Debug)]
pub struct Here {
    index: usize,
    identity: usize,
    /// Data of this kernel thread stays on it.
    _not_send: PhantomData<*const ()>,
}

impl Here {
    /// Declares the calling kernel thread to be the server with this index.
    ///
    /// # Safety
    /// No reference to the value is used on another kernel thread. A worker that borrows it keeps
    /// preemption off as long as it has the borrow, and gives the borrow up before it leaves its
    /// server.
    pub unsafe fn new(index: usize) -> Here {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Here {
            index,
            identity: NEXT.fetch_add(1, Relaxed),
            _not_send: PhantomData,
        }
    }

    /// The index of this server among its runtime's servers, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// A number that no other `Here` of the process has; never 0.
    #[inline]
    pub(crate) fn identity(&self) -> usize {
        self.identity
    }
}
