//! The right to run a worker, and queues of it.

use super::Task;
use std::collections::VecDeque;

pub struct Runnable(&'static Task);

impl Runnable {
    /// # Safety
    /// As the library's.
    pub(crate) unsafe fn new(task: &'static Task) -> Runnable {
        Runnable(task)
    }

    pub(crate) fn into_task(self) -> &'static Task {
        self.0
    }

    pub(crate) fn task(&self) -> &'static Task {
        self.0
    }

    pub(crate) fn server(&self) -> Option<usize> {
        self.0.server.get()
    }
}

#[derive(Default)]
pub(crate) struct Queue(VecDeque<Runnable>);

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue::default()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push_back(&mut self, worker: Runnable) {
        self.0.push_back(worker);
    }

    pub(crate) fn insert(&mut self, worker: Runnable, is_before: impl Fn(&Task) -> bool) {
        let before = self.0.iter().rposition(|other| is_before(other.0));
        self.0.insert(before.map_or(0, |before| before + 1), worker);
    }

    pub(crate) fn front(&self) -> Option<&Task> {
        self.0.front().map(|first| first.0)
    }

    pub(crate) fn pop_front(&mut self) -> Option<Runnable> {
        self.0.pop_front()
    }

    pub(crate) fn pop_back(&mut self) -> Option<Runnable> {
        self.0.pop_back()
    }

    pub(crate) fn append(&mut self, other: &mut Queue) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn split_front(&mut self, count: usize) -> Queue {
        let count = count.min(self.0.len());
        Queue(self.0.drain(..count).collect())
    }
}
