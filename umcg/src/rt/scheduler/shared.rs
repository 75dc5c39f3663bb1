//! Parts of more than one scheduler: a queue in any order that all servers share, and a queue for
//! each server.

use super::Wake;
use crate::rt::base::here::Here;
use crate::rt::base::sync::{AtomicBool, AtomicU64, HoldLock, Ordering::*};
use crate::rt::task::runnable::{Queue, Runnable};

/// Ready workers, in the order in which they are to run.
pub(crate) trait RunQueue: Send {
    /// Adds a worker.
    fn push(&mut self, worker: Runnable);

    /// Removes the worker that is to run next.
    fn pop(&mut self) -> Option<Runnable>;

    /// The rank of the worker that is next, 0 where workers have none; [`EMPTY`] if there is no
    /// worker.
    fn first(&self) -> u64;

    /// Another queue with the same order, without workers.
    fn another(&self) -> Self;
}

/// Less urgent than any worker.
pub(crate) const EMPTY: u64 = u64::MAX;

impl RunQueue for Queue {
    fn push(&mut self, worker: Runnable) {
        self.push_back(worker);
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.pop_front()
    }

    fn first(&self) -> u64 {
        if self.is_empty() { EMPTY } else { 0 }
    }

    fn another(&self) -> Queue {
        Queue::new()
    }
}

/// A queue under a lock. The rank of its next worker can be read without the lock.
pub(crate) struct SharedQueue<Q = Queue> {
    queue: HoldLock<Q>,
    first: AtomicU64,
}

impl<Q: RunQueue + Default> Default for SharedQueue<Q> {
    fn default() -> Self {
        SharedQueue::new(Q::default())
    }
}

impl<Q: RunQueue> SharedQueue<Q> {
    fn new(queue: Q) -> SharedQueue<Q> {
        SharedQueue {
            queue: HoldLock::new(queue),
            first: AtomicU64::new(EMPTY),
        }
    }

    /// The rank of the worker that is next.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Relaxed)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first() == EMPTY
    }

    fn with<R>(&self, f: impl FnOnce(&mut Q) -> R) -> R {
        let mut queue = self.queue.lock();
        let result = f(&mut queue);
        self.first.store(queue.first(), Relaxed);
        result
    }

    #[inline(never)]
    pub(crate) fn push(&self, worker: Runnable) {
        self.with(|queue| queue.push(worker));
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        if self.is_empty() {
            None
        } else {
            self.with(Q::pop)
        }
    }
}

impl SharedQueue {
    /// Takes the first `count` workers.
    pub(crate) fn take(&self, count: usize) -> Queue {
        self.with(|queue| queue.split_front(count))
    }

    /// Adds workers at the end.
    pub(crate) fn put(&self, mut workers: Queue) {
        self.with(|queue| queue.append(&mut workers));
    }
}

/// Workers that are for one server only.
pub(crate) struct Bound<Q = Queue>(Vec<ServerQueue<Q>>);

struct ServerQueue<Q> {
    queue: SharedQueue<Q>,
    /// This server's own workers come first now, if others are equally urgent.
    has_turn: AtomicBool,
}

impl<Q> Default for Bound<Q> {
    fn default() -> Self {
        Bound(Vec::new())
    }
}

impl<Q: RunQueue> Bound<Q> {
    pub(crate) fn start(&mut self, servers: usize, another: impl Fn() -> Q) {
        let own = |_| ServerQueue {
            queue: SharedQueue::new(another()),
            has_turn: AtomicBool::new(true),
        };
        self.0 = (0..servers).map(own).collect();
    }

    /// Keeps a worker that is bound to one server. Gives the worker back if it is not bound, or if
    /// that server does not exist.
    #[inline(always)]
    pub(crate) fn put(&self, worker: Runnable) -> Result<Wake, Runnable> {
        if worker.server().is_none() {
            Err(worker)
        } else {
            self.put_bound(worker)
        }
    }

    #[cold]
    #[inline(never)]
    fn put_bound(&self, worker: Runnable) -> Result<Wake, Runnable> {
        match worker.server().filter(|server| *server < self.0.len()) {
            None => Err(worker),
            Some(server) => {
                self.0[server].queue.push(worker);
                Ok(Wake::Server(server))
            }
        }
    }

    /// The workers of one server.
    #[inline]
    pub(crate) fn of(&self, server: usize) -> &SharedQueue<Q> {
        &self.0[server].queue
    }

    /// Whether the server's own workers come first now. The two classes take turns. Called by the
    /// server.
    fn takes_turn(&self, server: usize) -> bool {
        let turn = &self.0[server].has_turn;
        let has_turn = turn.load(Relaxed);
        turn.store(!has_turn, Relaxed);
        has_turn
    }
}

/// The workers of a scheduler that has one queue for all servers: under a lock, so the order is
/// exact. Workers bound to one server stand in a queue of their own, and take turns with others of
/// their rank: neither class starves the other.
pub(crate) struct Ordered<Q> {
    all: SharedQueue<Q>,
    bound: Bound<Q>,
}

impl<Q: RunQueue + Default> Default for Ordered<Q> {
    fn default() -> Self {
        Ordered::new(Q::default())
    }
}

impl<Q: RunQueue> Ordered<Q> {
    pub(crate) fn new(queue: Q) -> Ordered<Q> {
        Ordered {
            all: SharedQueue::new(queue),
            bound: Bound::default(),
        }
    }

    pub(crate) fn start(&mut self, servers: usize) {
        let queue = self.all.queue.lock();
        self.bound.start(servers, || queue.another());
    }

    pub(crate) fn ready(&self, worker: Runnable) -> Wake {
        self.bound.put(worker).unwrap_or_else(|worker| {
            self.all.push(worker);
            Wake::One
        })
    }

    pub(crate) fn next(&self, here: &Here) -> Option<Runnable> {
        let bound = self.bound.of(here.index());
        let (mine, all) = (bound.first(), self.all.first());
        let mine_first = if mine == all {
            mine != EMPTY && self.bound.takes_turn(here.index())
        } else {
            mine < all
        };
        let first = if mine_first {
            bound.pop()
        } else {
            self.all.pop()
        };
        // Another server may have taken the last worker of the queue for all.
        first.or_else(|| bound.pop())
    }

    pub(crate) fn has_work(&self, here: &Here) -> bool {
        !self.all.is_empty() || !self.bound.of(here.index()).is_empty()
    }

    pub(crate) fn next_bound(&self, here: &Here) -> Option<Runnable> {
        self.bound.of(here.index()).pop()
    }

    pub(crate) fn has_bound(&self, here: &Here) -> bool {
        !self.bound.of(here.index()).is_empty()
    }

    pub(crate) fn most_urgent(&self, server: Option<usize>) -> u64 {
        server
            .map_or(&self.all, |server| self.bound.of(server))
            .first()
    }
}

/// Implements [`Scheduler`](super::Scheduler) for a type around [`Ordered`]; with a function that
/// gives a worker's rank if workers have ranks.
macro_rules! ordered {
    ($scheduler:ty $(, $rank_of:expr)?) => {
        impl $crate::rt::scheduler::Scheduler for $scheduler {
            fn start(&mut self, servers: usize) {
                self.0.start(servers);
            }

            fn ready(
                &self,
                worker: $crate::rt::task::runnable::Runnable,
                _why: $crate::rt::scheduler::Why,
                _here: Option<&$crate::rt::base::here::Here>,
            ) -> $crate::rt::scheduler::Wake {
                self.0.ready(worker)
            }

            fn next(
                &self,
                here: &$crate::rt::base::here::Here,
            ) -> Option<$crate::rt::task::runnable::Runnable> {
                self.0.next(here)
            }

            fn has_work(&self, here: &$crate::rt::base::here::Here) -> bool {
                self.0.has_work(here)
            }

            fn next_bound(
                &self,
                here: &$crate::rt::base::here::Here,
            ) -> Option<$crate::rt::task::runnable::Runnable> {
                self.0.next_bound(here)
            }

            fn has_bound(&self, here: &$crate::rt::base::here::Here) -> bool {
                self.0.has_bound(here)
            }

            $(
                fn is_ranked(&self) -> bool {
                    true
                }

                fn rank(&self, worker: &$crate::rt::task::runnable::Runnable) -> u64 {
                    $rank_of(worker)
                }

                fn most_urgent(&self, server: Option<usize>) -> u64 {
                    self.0.most_urgent(server)
                }
            )?
        }
    };
}

pub(super) use ordered;
