//! The waiters: workers, workers in blocking scopes, and plain threads.

use crate::support::{Kind, eventually, over};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use umcg::{JoinError, JoinHandle, Runtime};

/// How a party runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Worker,
    /// A worker, in a blocking scope.
    Blocking,
    Thread,
}

pub(crate) const SORTS: [Sort; 3] = [Sort::Worker, Sort::Blocking, Sort::Thread];

/// Where parties come from.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) kind: Kind,
}

/// A test over numbers of servers and kinds of workers.
pub(crate) fn everywhere(name: &'static str, test: impl Fn(Place<'_>)) {
    over(name, |runtime, kind| test(Place { runtime, kind }));
}

/// A party that does something.
pub(crate) enum Party<R> {
    Worker(JoinHandle<R>),
    Thread(std::thread::JoinHandle<R>),
}

impl Place<'_> {
    pub(crate) fn start<R: Send + 'static>(
        &self,
        sort: Sort,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Party<R> {
        match sort {
            Sort::Worker => Party::Worker(self.kind.spawn_on(self.runtime, f)),
            Sort::Blocking => {
                Party::Worker(self.kind.spawn_on(self.runtime, move || umcg::blocking(f)))
            }
            Sort::Thread => Party::Thread(std::thread::spawn(f)),
        }
    }

    pub(crate) fn worker<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.kind.spawn_on(self.runtime, f)
    }

    /// As many of each sort, with a number each.
    pub(crate) fn crowd<R: Send + 'static, F: FnOnce() -> R + Send + 'static>(
        &self,
        of_each: usize,
        body: impl Fn(usize) -> F,
    ) -> Vec<Party<R>> {
        (0..of_each * SORTS.len())
            .map(|n| self.start(SORTS[n % SORTS.len()], body(n)))
            .collect()
    }
}

impl Place<'_> {
    /// Threads that do it all the time, beside workers that do it until they are aborted, over and
    /// over. Then all are told to stop. None panics.
    pub(crate) fn crowd_with_aborts<F: FnOnce() + Send + 'static>(
        &self,
        stop: &AtomicBool,
        body: impl Fn(usize) -> F,
    ) {
        let threads: Vec<_> = (0..2).map(|n| self.start(Sort::Thread, body(n))).collect();
        for round in 0..10 {
            let workers: Vec<_> = (0..4).map(|n| self.worker(body(n + round))).collect();
            umcg::sleep(Duration::from_micros(200));
            workers.iter().for_each(JoinHandle::abort);
            workers.into_iter().for_each(abort);
        }
        stop.store(true, Relaxed);
        join_all(threads);
    }
}

impl<R> Party<R> {
    pub(crate) fn join(self) -> R {
        match self {
            Party::Worker(worker) => worker.join().unwrap_or_else(|error| error.resume_unwind()),
            Party::Thread(thread) => thread
                .join()
                .unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
        }
    }
}

pub(crate) fn join_all<R>(parties: impl IntoIterator<Item = Party<R>>) -> Vec<R> {
    parties.into_iter().map(Party::join).collect()
}

/// How many wait, as the object says.
pub(crate) fn waiters(object: &impl Debug) -> usize {
    let text = format!("{object:?}");
    let (_, after) = text
        .split_once(" waiters: ")
        .unwrap_or_else(|| panic!("{text}"));
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Waits until this many wait.
#[track_caller]
pub(crate) fn until_waiting(object: &impl Debug, count: usize) {
    eventually("they wait", || waiters(object) == count);
}

/// Aborts it, and it ends so.
#[track_caller]
pub(crate) fn abort<R: Debug>(worker: JoinHandle<R>) {
    worker.abort();
    match worker.join() {
        Err(JoinError::Cancelled) => {}
        other => panic!("not cancelled: {other:?}"),
    }
}
