//! What more than one scheduler is made of: a queue that all servers share, in whatever order, and one for each of them.

use super::super::here::Here;
use super::super::runnable::{Queue, Runnable};
use super::Wake;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::context::lock::HoldLock;

/// A queue under a lock; how long it is can be seen without.
#[derive(Default)]
pub(crate) struct SharedQueue {
    queue: HoldLock<Queue>,
    len: AtomicUsize,
}

impl SharedQueue {
    pub(crate) const fn new() -> SharedQueue {
        SharedQueue { queue: HoldLock::new(Queue::new()), len: AtomicUsize::new(0) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    #[inline(never)]
    pub(crate) fn push(&self, worker: Runnable) {
        let mut queue = self.queue.lock();
        queue.push_back(worker);
        self.len.store(queue.len(), Relaxed);
    }

    /// Takes the first `count`.
    pub(crate) fn take(&self, count: usize) -> Queue {
        let mut queue = self.queue.lock();
        let front = queue.split_front(count);
        self.len.store(queue.len(), Relaxed);
        front
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        let mut queue = self.queue.lock();
        let first = queue.pop_front();
        self.len.store(queue.len(), Relaxed);
        first
    }
}

/// Workers that are for one server only.
#[derive(Default)]
pub(crate) struct Bound(Vec<SharedQueue>);

impl Bound {
    pub(crate) fn start(&mut self, servers: usize) {
        self.0 = (0..servers).map(|_| SharedQueue::new()).collect();
    }

    /// Keeps a worker that is for one server. One that is not, or for a server that there is not, is given back.
    #[inline(always)]
    pub(crate) fn put(&self, worker: Runnable) -> Result<Wake, Runnable> {
        if worker.server().is_none() { Err(worker) } else { self.put_bound(worker) }
    }

    #[cold]
    #[inline(never)]
    fn put_bound(&self, worker: Runnable) -> Result<Wake, Runnable> {
        match worker.server().filter(|server| *server < self.0.len()) {
            None => Err(worker),
            Some(server) => {
                self.0[server].push(worker);
                Ok(Wake::Server(server))
            }
        }
    }

    #[inline]
    pub(crate) fn pop(&self, here: &Here) -> Option<Runnable> {
        self.0[here.index()].pop()
    }

    pub(crate) fn has_work(&self, here: &Here) -> bool {
        !self.0[here.index()].is_empty()
    }
}

/// In which order the workers of one shared queue run.
pub(crate) trait Order: Send {
    /// Takes a worker in.
    fn push(&mut self, worker: Runnable);

    /// Gives out the worker that is to run next.
    fn pop(&mut self) -> Option<Runnable>;
}

impl Order for Queue {
    fn push(&mut self, worker: Runnable) {
        self.push_back(worker);
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.pop_front()
    }
}

/// The workers of a scheduler that has one queue for all servers: under a lock, so that the order is exact. Those for one server only stand apart, and come first there.
#[derive(Default)]
pub(crate) struct Ordered<O> {
    order: HoldLock<O>,
    len: AtomicUsize,
    bound: Bound,
}

impl<O: Order> Ordered<O> {
    pub(crate) fn new(order: O) -> Ordered<O> {
        Ordered { order: HoldLock::new(order), len: AtomicUsize::new(0), bound: Bound::default() }
    }

    pub(crate) fn start(&mut self, servers: usize) {
        self.bound.start(servers);
    }

    pub(crate) fn ready(&self, worker: Runnable) -> Wake {
        self.bound.put(worker).unwrap_or_else(|worker| {
            let mut order = self.order.lock();
            order.push(worker);
            self.len.store(self.len.load(Relaxed) + 1, Relaxed);
            Wake::One
        })
    }

    pub(crate) fn next(&self, here: &Here) -> Option<Runnable> {
        if let Some(bound) = self.bound.pop(here) {
            return Some(bound);
        }
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut order = self.order.lock();
        let worker = order.pop()?;
        self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        Some(worker)
    }

    pub(crate) fn has_work(&self, here: &Here) -> bool {
        self.len.load(Relaxed) != 0 || self.bound.has_work(here)
    }
}
