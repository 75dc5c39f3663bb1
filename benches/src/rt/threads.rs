//! Kernel threads, one a worker, as the standard library has them.

use super::stackful::{Stackful, with_names_of_std};
use anyhow::Result;
use std::thread::{self, JoinHandle, Thread};

pub(super) struct Threads;

impl Stackful for Threads {
    with_names_of_std!(std::thread, std::net);

    type Handle = Thread;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        Ok(f())
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        thread::spawn(f)
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Thread {
        join.thread().clone()
    }
}
