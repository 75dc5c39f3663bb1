//! Tasks of tokio's multi-threaded runtime: they have no stacks, and so lines of their own.

mod select;
mod sem;
pub(super) mod tube;

pub(super) use select::{blocking, ready};
pub(super) use sem::sem;

use anyhow::Result;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};

/// As many threads as there are CPUs.
fn runtime(cpus: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(cpus).build()?)
}

/// As a task: `block_on` does not run its own future on a worker thread.
fn enter<T: Send + 'static>(
    runtime: &Runtime,
    body: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    Ok(runtime.block_on(runtime.spawn(body))?)
}

/// `harness::measure` for futures.
macro_rules! measure {
    ($budget:expr, $count:ident => $batch:expr) => {{
        let mut pace = $crate::harness::Pace::new($budget);
        for $count in &mut pace {
            $batch
        }
        pace.sample()
    }};
}
use measure;
