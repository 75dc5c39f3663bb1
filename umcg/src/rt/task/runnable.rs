//! The right to run a worker of a runtime, and queues of it.

use super::{NO_SERVER, Task};
use crate::WorkerId;
use crate::rt::base::clock;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

/// Called with a dropped [`Runnable`]: gives the worker back to its runtime. The engine sets it
/// before there are workers.
static DROPPED: OnceLock<fn(Runnable)> = OnceLock::new();

/// Sets the function that receives dropped values.
pub(crate) fn when_dropped(ready: fn(Runnable)) {
    let _ = DROPPED.set(ready);
}

/// The right to run one worker, as a [`Scheduler`](crate::rt::Scheduler) receives and returns it.
/// At most one exists for each worker.
///
/// Dropping it does not lose the worker: its runtime gives the worker to its scheduler again.
#[must_use = "a worker runs only when a scheduler gives it to a server"]
pub struct Runnable(&'static Task);

impl Runnable {
    /// # Safety
    /// The caller has the right to run the worker, and gives it up to this value.
    #[inline(always)]
    pub(crate) unsafe fn new(task: &'static Task) -> Runnable {
        Runnable(task)
    }

    #[inline(always)]
    pub(crate) fn into_task(self) -> &'static Task {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn task(&self) -> &'static Task {
        self.0
    }

    /// The worker's id.
    pub fn id(&self) -> WorkerId {
        WorkerId::from_raw((self.0 as *const Task).addr() as u64)
    }

    /// Its name; empty if it has none.
    pub fn name(&self) -> String {
        self.0.worker().name()
    }

    /// The worker's priority: 255 is the most urgent, 128 the default.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.0.hints.priority.load(Relaxed)
    }

    /// The worker's deadline: when it should be done.
    pub fn deadline(&self) -> Option<Instant> {
        match self.0.hints.deadline.load(Relaxed) {
            u64::MAX => None,
            nanos => Some(clock::instant(nanos)),
        }
    }

    /// The worker's deadline in nanoseconds since a point in the past; `u64::MAX` for none.
    #[inline]
    pub fn deadline_nanos(&self) -> u64 {
        self.0.hints.deadline.load(Relaxed)
    }

    /// The server that it should run on.
    #[inline]
    pub fn server(&self) -> Option<usize> {
        match self.0.hints.server.load(Relaxed) {
            NO_SERVER => None,
            index => Some(usize::from(index)),
        }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        // SAFETY: this value was the right to run it, and ends here.
        let again = unsafe { Runnable::new(self.0) };
        match DROPPED.get() {
            Some(ready) => ready(again),
            None => unreachable!("a worker has a runtime, which has set it"),
        }
    }
}

impl std::fmt::Debug for Runnable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runnable")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish()
    }
}

/// How far [`Queue::insert`] looks.
const MOST_STEPS: usize = 100;

/// A queue of workers, linked through their descriptors. It allocates nothing. All operations but
/// [`Queue::split_front`] take constant time.
///
/// ```
/// let queue = umcg::rt::Queue::new();
/// assert!(queue.is_empty());
/// ```
#[derive(Debug)]
pub struct Queue {
    first: *mut Task,
    last: *mut Task,
    len: usize,
}

// SAFETY: it owns the workers in it, as values.
unsafe impl Send for Queue {}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Queue {
        Queue {
            first: null_mut(),
            last: null_mut(),
            len: 0,
        }
    }

    /// How many workers are in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a worker at the end.
    #[inline]
    pub fn push_back(&mut self, worker: Runnable) {
        let task = worker.into_task();
        let place = (task as *const Task).cast_mut();
        task.next.store(null_mut(), Relaxed);
        task.before.store(self.last, Relaxed);
        // SAFETY: null, or a task in this queue.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(place, Relaxed),
            None => self.first = place,
        }
        self.last = place;
        self.len += 1;
    }

    /// Puts a worker behind the last one of which `is_before` is true, at the front if there is
    /// none. Looks from the end, at [`MOST_STEPS`] workers at most.
    pub(crate) fn insert(&mut self, worker: Runnable, is_before: impl Fn(&Task) -> bool) {
        let mut before = self.last;
        for _ in 0..MOST_STEPS {
            // SAFETY: null, or a task in this queue.
            match unsafe { before.as_ref() } {
                Some(other) if !is_before(other) => before = other.before.load(Relaxed),
                _ => break,
            }
        }
        let task = worker.into_task();
        let place = (task as *const Task).cast_mut();
        // SAFETY: null, or a task in this queue.
        let next = match unsafe { before.as_ref() } {
            Some(before) => before.next.swap(place, Relaxed),
            None => std::mem::replace(&mut self.first, place),
        };
        // SAFETY: likewise.
        match unsafe { next.as_ref() } {
            Some(next) => next.before.store(place, Relaxed),
            None => self.last = place,
        }
        task.next.store(next, Relaxed);
        task.before.store(before, Relaxed);
        self.len += 1;
    }

    /// The first worker's descriptor.
    pub(crate) fn front(&self) -> Option<&Task> {
        // SAFETY: null, or a task in this queue.
        unsafe { self.first.as_ref() }
    }

    /// Takes the first worker.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Runnable> {
        // SAFETY: null, or a task in this queue.
        let task: &'static Task = unsafe { self.first.as_ref() }?;
        self.first = task.next.load(Relaxed);
        // SAFETY: likewise.
        match unsafe { self.first.as_ref() } {
            Some(first) => first.before.store(null_mut(), Relaxed),
            None => self.last = null_mut(),
        }
        self.len -= 1;
        // SAFETY: the queue owned it.
        Some(unsafe { Runnable::new(task) })
    }

    /// Takes the last worker.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Runnable> {
        // SAFETY: null, or a task in this queue.
        let task: &'static Task = unsafe { self.last.as_ref() }?;
        self.last = task.before.load(Relaxed);
        // SAFETY: likewise.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(null_mut(), Relaxed),
            None => self.first = null_mut(),
        }
        self.len -= 1;
        // SAFETY: the queue owned it.
        Some(unsafe { Runnable::new(task) })
    }

    /// Puts all of `other` at the end.
    pub fn append(&mut self, other: &mut Queue) {
        // SAFETY: null, or a task in that queue.
        let Some(first) = (unsafe { other.first.as_ref() }) else {
            return;
        };
        first.before.store(self.last, Relaxed);
        // SAFETY: null, or a task in this queue.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(other.first, Relaxed),
            None => self.first = other.first,
        }
        self.last = other.last;
        self.len += other.len;
        (other.first, other.last, other.len) = (null_mut(), null_mut(), 0);
    }

    /// Takes the first `count` workers, or all if there are fewer.
    pub fn split_front(&mut self, count: usize) -> Queue {
        let mut front = Queue::new();
        while front.len < count {
            let Some(worker) = self.pop_front() else {
                break;
            };
            front.push_back(worker);
        }
        front
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while let Some(worker) = self.pop_front() {
            drop(worker);
        }
    }
}
