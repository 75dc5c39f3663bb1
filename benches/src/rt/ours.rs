//! Our own runtime, with both kinds of workers.

use super::stackful::{Stackful, with_names_of_std};
use crate::block::notice;
use anyhow::{Result, anyhow};
use std::time::Duration;
use umcg::rt::scheduler::Priority;
use umcg::{Builder, Handle, JoinHandle, Runtime};

/// How long a worker may run beside urgent ones before it is preempted.
const TICK: Duration = Duration::from_millis(1);
const URGENT: u8 = 255;
const BATCH: u8 = 1;
/// Bytes of a worker's stack. Rows of other releases had the same.
const STACK: usize = 64 << 10;

/// Workers that call the standard library, and are noticed.
pub(super) struct Noticed(Runtime);

impl Noticed {
    pub(super) fn start(servers: usize) -> Result<Self> {
        notice()?;
        let builder = Runtime::builder().servers(servers).stack_size(STACK);
        Ok(Self(builder.build()?))
    }
}

impl Stackful for Noticed {
    with_names_of_std!(umcg, std::net);

    type Handle = Handle;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.0.spawn(f).join().map_err(|error| anyhow!("{error}"))
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        umcg::spawn(f)
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Handle {
        join.handle()
    }
}

/// `LIGHT` workers share their server's thread-local storage.
pub(super) struct Ours<const LIGHT: bool>(Runtime);

impl<const LIGHT: bool> Ours<LIGHT> {
    pub(super) fn start(servers: usize) -> Result<Self> {
        Ok(Self(
            Runtime::builder()
                .servers(servers)
                .stack_size(STACK)
                .build()?,
        ))
    }

    /// With the stacks of a program that does not choose a size.
    pub(super) fn with_default_stacks(servers: usize) -> Result<Self> {
        Ok(Self(Runtime::builder().servers(servers).build()?))
    }

    /// For work that can wait beside work that cannot.
    pub(super) fn with_priorities(servers: usize) -> Result<Self> {
        Ok(Self(
            Runtime::builder()
                .servers(servers)
                .stack_size(STACK)
                .scheduler(Priority::new())
                .preemption(Some(TICK))
                .build()?,
        ))
    }

    fn spawn_at(priority: u8, f: impl FnOnce() + Send + 'static) {
        let builder = Builder::new().priority(priority);
        let spawned = if LIGHT {
            // SAFETY: nothing here keeps anything of the thread's across a switch.
            unsafe { builder.spawn_light(f) }
        } else {
            builder.spawn(f)
        };
        drop(spawned.expect("no memory for a worker of the bench"));
    }
}

impl<const LIGHT: bool> Stackful for Ours<LIGHT> {
    with_names_of_std!(umcg, umcg::net);

    type Handle = Handle;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let worker = if LIGHT {
            // SAFETY: nothing here keeps anything of the thread's across a switch.
            unsafe { self.0.spawn_light(f) }
        } else {
            self.0.spawn(f)
        };
        worker.join().map_err(|error| anyhow!("{error}"))
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        if LIGHT {
            // SAFETY: nothing here keeps anything of the thread's across a switch.
            unsafe { umcg::spawn_light(f) }
        } else {
            umcg::spawn(f)
        }
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Handle {
        join.handle()
    }

    fn spawn_batch(f: impl FnOnce() + Send + 'static) {
        Self::spawn_at(BATCH, f);
    }

    fn spawn_urgent(f: impl FnOnce() + Send + 'static) {
        Self::spawn_at(URGENT, f);
    }
}
