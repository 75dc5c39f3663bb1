//! The flows that do the work: kernel threads, or light workers of our runtime.

use super::request::Request;
use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use umcg::Runtime;
use umcg::sync::Semaphore;

/// A kind of thread.
pub(super) trait Flow: Sized + 'static {
    type Join<T: Send + 'static>;
    /// A gate at which several wait until all of them may begin. No thread spins there.
    type Gate: Default + Send + Sync + 'static;

    /// For this many CPUs.
    fn new(cpus: usize) -> Result<Self>;
    fn start<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Self::Join<T>;
    fn join<T: Send + 'static>(join: Self::Join<T>) -> Result<T>;
    fn pass(gate: &Self::Gate);
    /// Lets this many pass, of which none has yet.
    fn open(gate: &Self::Gate, count: usize);
}

/// Kernel threads.
pub(super) struct Threads;

impl Flow for Threads {
    type Join<T: Send + 'static> = thread::JoinHandle<T>;
    type Gate = (Mutex<bool>, Condvar);

    fn new(_: usize) -> Result<Self> {
        Ok(Threads)
    }

    fn start<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Self::Join<T> {
        thread::spawn(body)
    }

    fn join<T: Send + 'static>(join: Self::Join<T>) -> Result<T> {
        join.join().map_err(|_| anyhow!("a thread panicked"))
    }

    fn pass((is_open, changed): &Self::Gate) {
        let shut = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            changed
                .wait_while(shut, |is_open| !*is_open)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn open((is_open, changed): &Self::Gate, _: usize) {
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

/// Messages of 4 KiB are by value, and without optimisation each call has its own.
const STACK: usize = 256 * 1024;

/// Workers, on as many servers as there are CPUs.
pub(super) struct Workers(Runtime);

impl Flow for Workers {
    type Join<T: Send + 'static> = umcg::JoinHandle<T>;
    type Gate = Semaphore;

    fn new(cpus: usize) -> Result<Self> {
        Ok(Workers(
            Runtime::builder().servers(cpus).stack_size(STACK).build()?,
        ))
    }

    fn start<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Self::Join<T> {
        // SAFETY: nothing here keeps anything of the thread's across a switch.
        unsafe { self.0.spawn_light(body) }
    }

    fn join<T: Send + 'static>(join: Self::Join<T>) -> Result<T> {
        join.join().map_err(|error| anyhow!("{error}"))
    }

    fn pass(gate: &Self::Gate) {
        // It is never closed.
        let _ = gate.acquire();
    }

    fn open(gate: &Self::Gate, count: usize) {
        // A few at most: it keeps them.
        let _ = gate.release(count as u32);
    }
}

/// `count` threads of this kind that begin together, and their results.
pub(super) fn together<F: Flow, T: Send + 'static>(
    request: &Request,
    count: usize,
    body: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let flow = F::new(request.cpus()?)?;
    let shared = Arc::new((F::Gate::default(), AtomicUsize::new(0), body));
    let start = |index| {
        let shared = Arc::clone(&shared);
        flow.start(move || {
            shared.1.fetch_add(1, Relaxed);
            F::pass(&shared.0);
            (shared.2)(index)
        })
    };
    let joins: Vec<F::Join<T>> = (0..count).map(start).collect();
    settle(&shared.1, count);
    F::open(&shared.0, count);
    joins.into_iter().map(F::join).collect()
}

/// Waits until this many are there, and a moment longer, for the steps that follow their saying so.
pub(super) fn settle(there: &AtomicUsize, count: usize) {
    while there.load(Relaxed) < count {
        thread::sleep(Duration::from_micros(200));
    }
    thread::sleep(Duration::from_millis(1));
}

#[cfg(test)]
mod tests {
    use super::super::experiment::params;
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn begin_together<F: Flow>(cpus: u64) {
        let request = Request::new("sem", "test", "umcg", params([("cpus", cpus.into())]));
        let (seen, is_short) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (seen_there, short) = (Arc::clone(&seen), Arc::clone(&is_short));
        let indices = together::<F, usize>(&request, 20, move |index| {
            // A thread that has passed the gate finds that all others are there.
            short.fetch_or(seen_there.fetch_add(1, Relaxed) >= 20, Relaxed);
            index
        });
        assert_eq!(indices.unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(seen.load(Relaxed), 20);
        assert!(!is_short.load(Relaxed));
    }

    #[test]
    fn all_kinds_begin_together_and_return_in_order() {
        begin_together::<Threads>(1);
        begin_together::<Workers>(1);
        begin_together::<Workers>(2);
    }
}
