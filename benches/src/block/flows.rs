//! Workers, threads and tasks that are there in any number.

use super::{THREADS, TOKIO, UMCG, UMCG_OFF};
use anyhow::{Result, bail};
use std::thread;
use tokio::runtime;
use umcg::Runtime;

/// Where flows are made.
pub(super) enum Flows {
    /// Workers of one server, with storage of their own.
    Workers(Runtime),
    /// Kernel threads of the standard library.
    Threads,
    /// Tasks on one thread.
    Tasks(runtime::Runtime),
}

/// Waits for the end of a flow.
pub(super) type Join = Box<dyn FnOnce()>;

impl Flows {
    pub(super) fn of(case: &str) -> Result<Self> {
        Ok(match case {
            UMCG | UMCG_OFF => Self::Workers(Runtime::builder().servers(1).build()?),
            THREADS => Self::Threads,
            TOKIO => {
                let mut builder = runtime::Builder::new_multi_thread();
                Self::Tasks(builder.worker_threads(1).enable_all().build()?)
            }
            _ => bail!("{case} is not in this program"),
        })
    }

    /// Makes a flow that blocks as threads do. Fails where there can be no more.
    pub(super) fn spawn(&self, body: impl FnOnce() + Send + 'static) -> Result<Join> {
        match self {
            Self::Workers(runtime) => {
                let worker = runtime.spawn(body);
                Ok(Box::new(move || worker.join().expect("a worker panicked")))
            }
            Self::Threads => {
                let thread = thread::Builder::new().spawn(body)?;
                Ok(Box::new(move || thread.join().expect("a thread panicked")))
            }
            Self::Tasks(_) => bail!("a task does not block"),
        }
    }

    /// Makes a task.
    pub(super) fn spawn_task(
        runtime: &runtime::Runtime,
        body: impl Future<Output = ()> + Send + 'static,
    ) -> Join {
        let (task, handle) = (runtime.spawn(body), runtime.handle().clone());
        Box::new(move || handle.block_on(task).expect("a task panicked"))
    }
}
