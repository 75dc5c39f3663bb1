//! Runs a test everywhere that it can run.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::sync::Arc;
use umcg::Runtime;
use umcg::io::DriverKind;

/// Calls `f` on a plain thread, and in workers.
pub(crate) fn everywhere(f: impl Fn() + Send + Sync + 'static) {
    f();
    in_workers(f);
}

/// Calls `f` in workers over both drivers and 1, 2 and 4 servers, by itself each time.
pub(crate) fn in_workers(f: impl Fn() + Send + Sync + 'static) {
    let f = Arc::new(f);
    for kind in drivers() {
        for servers in [1, 2, 4] {
            let runtime = Runtime::builder()
                .servers(servers)
                .driver(kind)
                .build()
                .unwrap();
            let f = f.clone();
            // SAFETY: as in `spawn`.
            unsafe { runtime.spawn_light(move || f()) }.join().unwrap();
            assert_eq!(runtime.driver(), kind);
        }
    }
}

/// The drivers that this kernel has.
pub(crate) fn drivers() -> Vec<DriverKind> {
    let mut kinds = vec![DriverKind::Epoll];
    match Runtime::builder()
        .servers(1)
        .driver(DriverKind::IoUring)
        .build()
    {
        Ok(_) => kinds.push(DriverKind::IoUring),
        Err(error) => eprintln!("no io_uring here: {error}"),
    }
    kinds
}

/// A thread or a worker, like its maker.
pub(crate) enum Joiner<R> {
    Thread(std::thread::JoinHandle<R>),
    Worker(umcg::JoinHandle<R>),
}

pub(crate) fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Joiner<R> {
    match umcg::current_id() {
        // SAFETY: nothing that the tests call keeps a value in thread-local storage across a
        // switch.
        Some(_) => Joiner::Worker(unsafe { umcg::spawn_light(f) }),
        None => Joiner::Thread(std::thread::spawn(f)),
    }
}

impl<R> Joiner<R> {
    pub(crate) fn join(self) -> Result<R, String> {
        match self {
            Joiner::Thread(thread) => thread.join().map_err(|_| "panicked".into()),
            Joiner::Worker(worker) => worker.join().map_err(|error| format!("{error:?}")),
        }
    }
}

/// How many descriptors the process has.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
