//! The crate may: stackful coroutines on a pool of threads.

use super::stackful::{Stackful, with_names_of_std};
use anyhow::{Result, anyhow};
use may::coroutine::{self, Coroutine, JoinHandle};

/// There is one runtime in a process, which starts by itself.
pub(super) struct May;

impl May {
    pub(super) fn start(servers: usize) -> Self {
        may::config().set_workers(servers);
        Self
    }
}

impl Stackful for May {
    with_names_of_std!(may::coroutine, may::net);

    type Handle = Coroutine;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        Self::spawn(f)
            .join()
            .map_err(|_| anyhow!("a coroutine panicked"))
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // SAFETY: the conditions of `may`: nothing here keeps thread-local storage across a switch,
        // and stacks are not used up.
        unsafe { coroutine::spawn(f) }
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Coroutine {
        join.coroutine().clone()
    }
}
