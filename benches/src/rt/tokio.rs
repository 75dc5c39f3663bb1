//! tokio's multi-threaded runtime. Workers are tasks; the batch load of `serve` is on its blocking
//! threads, as its documentation asks for.

use super::side::{BUFFER, CHILDREN, Ready, Side, Subtree, chunk, compute, fibonacci};
use anyhow::{Result, ensure};
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task;

pub(super) struct Tokio(Runtime);

impl Tokio {
    pub(super) fn start(servers: usize) -> Result<Self> {
        Ok(Self(
            Builder::new_multi_thread()
                .worker_threads(servers)
                .enable_all()
                .build()?,
        ))
    }

    /// As a task: `block_on` does not run its own future on a worker thread.
    fn enter<T: Send + 'static>(
        &self,
        body: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        Ok(self.0.block_on(self.0.spawn(body))?)
    }
}

impl Side for Tokio {
    fn yields(&self, workers: usize, each: u64) -> Result<Duration> {
        self.enter(async move {
            let start = Instant::now();
            let body = move || async move {
                for _ in 0..each {
                    task::yield_now().await;
                }
            };
            join_all((0..workers).map(|_| task::spawn(body())).collect()).await;
            start.elapsed()
        })
    }

    fn ring(&self, workers: usize, hops: u64) -> Result<Duration> {
        self.enter(ring(workers, hops))
    }

    fn spawn_join(&self, times: u64) -> Result<Duration> {
        self.enter(async move {
            let start = Instant::now();
            for _ in 0..times {
                join(task::spawn(async {})).await;
            }
            start.elapsed()
        })
    }

    fn skynet(&self, leaves: u64) -> Result<Duration> {
        let (sum, took) = self.enter(async move {
            let start = Instant::now();
            let sum = join(task::spawn(skynet(Subtree { first: 0, leaves }))).await;
            (sum, start.elapsed())
        })?;
        ensure!(sum == Subtree::expected(leaves), "skynet came to {sum}");
        Ok(took)
    }

    fn sleepers(&self, workers: u64, nap: Duration) -> Result<Duration> {
        self.enter(async move {
            let start = Instant::now();
            join_all(
                (0..workers)
                    .map(|_| task::spawn(tokio::time::sleep(nap)))
                    .collect(),
            )
            .await;
            start.elapsed()
        })
    }

    fn fib(&self, n: u64) -> Result<Duration> {
        let (value, took) = self.enter(async move {
            let start = Instant::now();
            (fib(n).await, start.elapsed())
        })?;
        ensure!(value == fibonacci(n), "fib({n}) came to {value}");
        Ok(took)
    }

    fn serve(&self, batch: usize, ready: Ready) -> Result<()> {
        let steps = if batch == 0 { 0 } else { chunk() };
        let served: io::Result<()> = self.enter(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            for _ in 0..batch {
                task::spawn_blocking(move || {
                    loop {
                        compute(steps);
                        thread::yield_now();
                    }
                });
            }
            ready(listener.local_addr()?.port());
            loop {
                task::spawn(echo(listener.accept().await?.0));
            }
        })?;
        Ok(served?)
    }
}

async fn join<T>(handle: task::JoinHandle<T>) -> T {
    handle.await.expect("a task of the bench panicked")
}

async fn join_all(handles: Vec<task::JoinHandle<()>>) {
    for handle in handles {
        join(handle).await;
    }
}

/// As in [`super::stackful`]: the token is the number of hops that are left, and one; 0 is no
/// token.
#[derive(Default)]
struct Place {
    token: AtomicU64,
    notify: Notify,
}

async fn ring(workers: usize, hops: u64) -> Duration {
    let ring: Arc<[Place]> = (0..workers).map(|_| Place::default()).collect();
    let took = Arc::new(AtomicU64::new(0));
    let start = Arc::new(OnceLock::new());
    let body = |me: usize| {
        let (ring, took, start) = (Arc::clone(&ring), Arc::clone(&took), Arc::clone(&start));
        async move {
            let end = || {
                took.store(
                    start
                        .get()
                        .map_or(0, |start: &Instant| start.elapsed().as_nanos() as u64),
                    Relaxed,
                )
            };
            pass_on(&ring[me], &ring[(me + 1) % ring.len()], end).await;
        }
    };
    let joins = (0..workers).map(|me| task::spawn(body(me))).collect();
    let _ = start.set(Instant::now());
    ring[0].token.store(hops + 1, Relaxed);
    ring[0].notify.notify_one();
    join_all(joins).await;
    Duration::from_nanos(took.load(Relaxed))
}

async fn pass_on(here: &Place, there: &Place, end: impl Fn()) {
    loop {
        let token = loop {
            match here.token.load(Relaxed) {
                0 => here.notify.notified().await,
                token => break token,
            }
        };
        here.token.store(0, Relaxed);
        if token == 2 {
            end();
        }
        there.token.store((token - 1).max(1), Relaxed);
        there.notify.notify_one();
        if token == 1 {
            return;
        }
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn skynet(tree: Subtree) -> Boxed<u64> {
    Box::pin(async move {
        if tree.leaves == 1 {
            return tree.first;
        }
        let children: [_; CHILDREN] =
            std::array::from_fn(|index| task::spawn(skynet(tree.child(index))));
        let mut sum = 0;
        for child in children {
            sum += join(child).await;
        }
        sum
    })
}

fn fib(n: u64) -> Boxed<u64> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let other = task::spawn(fib(n - 1));
        fib(n - 2).await + join(other).await
    })
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = [0; BUFFER];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
