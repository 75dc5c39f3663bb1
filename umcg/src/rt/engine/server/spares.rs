//! Workers that have ended on a server, kept to be used again as they are.

use super::ServerState;
use crate::rt::task::{IS_FULL, IS_PLAIN, Task, WorkerKind};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::raw;

/// A list of workers that have ended, linked through their descriptors.
pub(super) struct Spares {
    first: Cell<Option<&'static Task>>,
    count: Cell<u32>,
}

/// The most spares that are kept of a kind. The others go to the pools of stacks, for all servers.
const MOST_SPARES: u32 = 128;

impl Spares {
    pub(super) const fn new() -> Spares {
        Spares {
            first: Cell::new(None),
            count: Cell::new(0),
        }
    }
}

impl ServerState {
    /// Takes an ended worker of this kind, with the right to run it.
    #[inline(always)]
    pub(crate) fn take_spare(&self, kind: WorkerKind) -> Option<&'static Task> {
        let spares = &self.spares[kind as usize];
        let task = spares.first.get()?;
        // SAFETY: null, or the next in the list, which is never freed.
        spares
            .first
            .set(unsafe { task.next.load(Relaxed).as_ref() });
        spares.count.set(spares.count.get() - 1);
        Some(task)
    }

    /// Recycles a worker that has ended.
    ///
    /// # Safety
    /// The caller is on this server, and has the right to run the worker, which is one of this
    /// runtime's.
    #[inline(always)]
    pub(crate) unsafe fn recycle(&self, task: &'static Task) {
        let flags = task.flags.load(Relaxed);
        let spares = &self.spares[usize::from(flags & IS_FULL != 0)];
        if flags & IS_PLAIN == 0 || spares.count.get() == MOST_SPARES {
            // SAFETY: passed on.
            return unsafe { task.worker().discard() };
        }
        task.flags.store(0, Relaxed);
        let next = spares.first.replace(Some(task));
        task.next.store(
            next.map_or(null_mut(), |next| (next as *const Task).cast_mut()),
            Relaxed,
        );
        spares.count.set(spares.count.get() + 1);
    }

    pub(crate) fn discard_spares(&self) {
        for kind in [WorkerKind::Sharing, WorkerKind::Full] {
            while let Some(task) = self.take_spare(kind) {
                // SAFETY: the list gave the right to it.
                unsafe { task.worker().discard() };
            }
        }
    }

    /// Gives the stacks and blocks that this server keeps to all servers. Called by this server, or
    /// by a worker that it runs.
    pub(crate) fn share_spares(&self) {
        self.discard_spares();
        raw::Server::share_pools();
    }
}
