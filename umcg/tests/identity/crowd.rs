//! A process with every sort of kernel thread that umcg has, each in every state.

use crate::support::eventually;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;
use umcg::{Event, JoinHandle, Ready, Runtime, Server, Worker, WorkerId};

/// The thread worker that no server runs.
const LEFT_ALONE: u64 = 3;
/// Servers beside the runtime's: one for the worker that computes, one for the test's, one that is
/// idle.
const SERVERS: usize = 3;

/// The state that all of the crowd look at.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// How many have come to where they are to be.
    arrived: AtomicUsize,
    /// Thread workers that have not ended.
    left: AtomicUsize,
    kept: Mutex<Vec<Ready>>,
}

impl Shared {
    fn compute(&self) {
        self.arrived.fetch_add(1, Relaxed);
        while !self.over.load(Relaxed) {
            std::hint::spin_loop();
        }
    }

    fn block(&self) {
        umcg::blocking(|| {
            self.arrived.fetch_add(1, Relaxed);
            while !self.over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn serve(&self) {
        let server = Server::register().unwrap();
        while !self.over.load(Relaxed) || self.left.load(Relaxed) > 0 {
            let kept = if self.over.load(Relaxed) {
                self.kept.lock().unwrap().pop()
            } else {
                None
            };
            let mut event = match kept {
                Some(ready) => Some(server.switch_to(ready)),
                None => server.wait_timeout(Duration::from_millis(20)).ok(),
            };
            while let Some(Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready)) = event
            {
                event = None;
                if ready.id() == WorkerId::from_index(LEFT_ALONE) && !self.over.load(Relaxed) {
                    self.kept.lock().unwrap().push(ready);
                    self.arrived.fetch_add(1, Relaxed);
                } else {
                    event = Some(server.switch_to(ready));
                }
            }
            if matches!(event, Some(Event::Exit(_))) {
                self.left.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// Kernel threads that run, wait and block until this is dropped.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    pub(crate) runtime: Runtime,
    workers: Vec<JoinHandle<()>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crowd {
    /// All kinds of threads: plain threads; a runtime's servers and its watch; helpers that carry a
    /// worker, and helpers that wait for one; homes of thread workers that are away, at home, and
    /// run by no server; servers of the program's own, at work and idle.
    pub(crate) fn gather() -> Crowd {
        let runtime = Runtime::builder().servers(3).build().unwrap();
        let mut crowd = Crowd {
            shared: Arc::default(),
            runtime,
            workers: Vec::new(),
            threads: Vec::new(),
        };
        for f in [Shared::compute as fn(&Shared), Shared::block] {
            let shared = crowd.shared.clone();
            crowd.workers.push(crowd.runtime.spawn(move || f(&shared)));
        }
        for _ in 0..2 {
            let nap = || umcg::blocking(|| std::thread::sleep(Duration::from_millis(20)));
            crowd.workers.push(crowd.runtime.spawn(nap));
        }
        for _ in 0..SERVERS {
            crowd.thread(Shared::serve);
        }
        crowd.thread_worker(1, Shared::compute);
        crowd.thread_worker(2, Shared::block);
        crowd.thread_worker(LEFT_ALONE, |_| {});
        eventually("all are where they are to be", || {
            crowd.shared.arrived.load(Relaxed) >= 5
        });
        crowd
    }

    fn thread(&mut self, f: impl FnOnce(&Shared) + Send + 'static) {
        let shared = self.shared.clone();
        self.threads.push(std::thread::spawn(move || f(&shared)));
    }

    fn thread_worker(&mut self, index: u64, f: impl FnOnce(&Shared) + Send + 'static) {
        self.shared.left.fetch_add(1, Relaxed);
        self.thread(move |shared| {
            let _worker = Worker::register(WorkerId::from_index(index)).unwrap();
            f(shared);
        });
    }

    /// Calls `f` in a thread worker of the crowd, and waits for its end.
    pub(crate) fn in_thread_worker(&mut self, f: impl FnOnce() + Send + 'static) {
        self.thread_worker(10, |_| f());
        self.threads.pop().unwrap().join().unwrap();
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        self.workers
            .drain(..)
            .for_each(|worker| worker.join().unwrap());
        self.threads
            .drain(..)
            .for_each(|thread| thread.join().unwrap());
    }
}

/// Calls `worker` in a plain thread that may become a worker, and runs it on another one, a server
/// that has called `server` first.
pub(crate) fn with_server(server: impl FnOnce() + Send, worker: impl FnOnce() + Send) {
    static ONE: Mutex<()> = Mutex::new(()); // the events are the process's
    let _turn = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let server_role = Server::register().unwrap();
            server();
            while !over.load(Relaxed) {
                let mut event = server_role.wait_timeout(Duration::from_millis(20)).ok();
                while let Some(Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready)) =
                    event
                {
                    event = Some(server_role.switch_to(ready));
                }
            }
        });
        let ended = scope.spawn(worker).join();
        over.store(true, Relaxed);
        ended.unwrap();
    });
}

/// Calls `f` as a thread worker, on the server.
pub(crate) fn on_server(f: impl FnOnce()) {
    let _worker = Worker::register(WorkerId::from_index(1)).unwrap();
    f();
}
