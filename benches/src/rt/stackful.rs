//! The benches for every runtime whose workers are like threads: ours, may, and threads themselves
//! run the same lines.

use super::side::{BUFFER, CHILDREN, Ready, Side, Subtree, chunk, compute, fibonacci};
use anyhow::{Result, ensure};
use std::array;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The operations of a runtime with stacks.
pub(super) trait Stackful: Sync + 'static {
    type Join<T: Send + 'static>;
    type Handle: Clone + Send + Sync + 'static;
    type Listener;
    type Stream: Read + Write + Send + 'static;

    /// Runs `f` on a worker, and returns when it is over.
    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T>;
    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Self::Join<T>;
    fn join<T: Send + 'static>(join: Self::Join<T>) -> T;
    fn handle<T: Send + 'static>(join: &Self::Join<T>) -> Self::Handle;
    fn park();
    fn unpark(handle: &Self::Handle);
    fn yield_now();
    fn sleep(nap: Duration);
    /// A socket on a free port of the loopback device.
    fn listen() -> io::Result<(Self::Listener, u16)>;
    fn accept(listener: &Self::Listener) -> io::Result<Self::Stream>;

    /// A worker whose work can wait.
    fn spawn_batch(f: impl FnOnce() + Send + 'static) {
        drop(Self::spawn(f));
    }

    /// A worker whose work cannot.
    fn spawn_urgent(f: impl FnOnce() + Send + 'static) {
        drop(Self::spawn(f));
    }
}

/// The part of [`Stackful`] that is there under std's names: in `$flow` those of `std::thread`, in
/// `$net` those of `std::net`.
macro_rules! with_names_of_std {
    ($($flow:ident)::+, $($net:ident)::+) => {
        type Join<T: Send + 'static> = $($flow)::+::JoinHandle<T>;
        type Listener = $($net)::+::TcpListener;
        type Stream = $($net)::+::TcpStream;

        fn join<T: Send + 'static>(join: Self::Join<T>) -> T {
            join.join().expect("a worker of the bench panicked")
        }

        fn park() {
            $($flow)::+::park();
        }

        fn unpark(handle: &Self::Handle) {
            handle.unpark();
        }

        fn yield_now() {
            $($flow)::+::yield_now();
        }

        fn sleep(nap: std::time::Duration) {
            $($flow)::+::sleep(nap);
        }

        fn listen() -> std::io::Result<(Self::Listener, u16)> {
            let listener = Self::Listener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        }

        fn accept(listener: &Self::Listener) -> std::io::Result<Self::Stream> {
            Ok(listener.accept()?.0)
        }
    };
}
pub(super) use with_names_of_std;

/// The benches of a runtime with stacks.
pub(super) struct Of<S>(pub(super) S);

impl<S: Stackful> Side for Of<S> {
    fn yields(&self, workers: usize, each: u64) -> Result<Duration> {
        self.0.enter(move || {
            let start = Instant::now();
            let body = move || (0..each).for_each(|_| S::yield_now());
            let joins: Vec<_> = (0..workers).map(|_| S::spawn(body)).collect();
            joins.into_iter().for_each(S::join);
            start.elapsed()
        })
    }

    fn ring(&self, workers: usize, hops: u64) -> Result<Duration> {
        self.0.enter(move || ring::<S>(workers, hops))
    }

    fn spawn_join(&self, times: u64) -> Result<Duration> {
        self.0.enter(move || {
            let start = Instant::now();
            (0..times).for_each(|_| S::join(S::spawn(|| ())));
            start.elapsed()
        })
    }

    fn skynet(&self, leaves: u64) -> Result<Duration> {
        let (sum, took) = self.0.enter(move || {
            let start = Instant::now();
            let sum = S::join(S::spawn(move || skynet::<S>(Subtree { first: 0, leaves })));
            (sum, start.elapsed())
        })?;
        ensure!(sum == Subtree::expected(leaves), "skynet came to {sum}");
        Ok(took)
    }

    fn sleepers(&self, workers: u64, nap: Duration) -> Result<Duration> {
        self.0.enter(move || {
            let start = Instant::now();
            let joins: Vec<_> = (0..workers)
                .map(|_| S::spawn(move || S::sleep(nap)))
                .collect();
            joins.into_iter().for_each(S::join);
            start.elapsed()
        })
    }

    fn fib(&self, n: u64) -> Result<Duration> {
        let (value, took) = self.0.enter(move || {
            let start = Instant::now();
            (fib::<S>(n), start.elapsed())
        })?;
        ensure!(value == fibonacci(n), "fib({n}) came to {value}");
        Ok(took)
    }

    fn serve(&self, batch: usize, ready: Ready) -> Result<()> {
        let steps = if batch == 0 { 0 } else { chunk() };
        let served: io::Result<()> = self.0.enter(move || {
            let (listener, port) = S::listen()?;
            let accepting = move || -> io::Result<()> {
                ready(port);
                loop {
                    let stream = S::accept(&listener)?;
                    S::spawn_urgent(move || echo(stream));
                }
            };
            for _ in 0..batch {
                S::spawn_batch(move || {
                    loop {
                        compute(steps);
                        S::yield_now();
                    }
                });
            }
            accepting()
        })?;
        Ok(served?)
    }
}

/// A place in a ring. The token is the number of hops that are left, and one; 0 is no token.
struct Place<H> {
    token: AtomicU64,
    next: OnceLock<H>,
}

fn ring<S: Stackful>(workers: usize, hops: u64) -> Duration {
    let ring: Arc<[Place<S::Handle>]> = (0..workers)
        .map(|_| Place {
            token: AtomicU64::new(0),
            next: OnceLock::new(),
        })
        .collect();
    let took = Arc::new(AtomicU64::new(0));
    let start = Arc::new(OnceLock::new());
    let joins: Vec<_> = (0..workers)
        .map(|me| {
            let (ring, took, start) = (Arc::clone(&ring), Arc::clone(&took), Arc::clone(&start));
            S::spawn(move || {
                let end = || {
                    took.store(
                        start
                            .get()
                            .map_or(0, |start: &Instant| start.elapsed().as_nanos() as u64),
                        Relaxed,
                    )
                };
                pass_on::<S>(&ring[me], &ring[(me + 1) % workers].token, end)
            })
        })
        .collect();
    for (me, place) in ring.iter().enumerate() {
        let next = S::handle(&joins[(me + 1) % workers]);
        let _ = place.next.set(next);
    }
    let _ = start.set(Instant::now());
    ring[0].token.store(hops + 1, Relaxed);
    S::unpark(&S::handle(&joins[0]));
    joins.into_iter().for_each(S::join);
    Duration::from_nanos(took.load(Relaxed))
}

/// One worker of the ring. The worker that takes the last hop says so; then the token goes round
/// once more, to end the others.
///
/// The token is all that is shared, and parking orders everything else: Relaxed will do.
fn pass_on<S: Stackful>(here: &Place<S::Handle>, there: &AtomicU64, end: impl Fn()) {
    let wait = || loop {
        match here.token.load(Relaxed) {
            0 => S::park(),
            token => break token,
        }
    };
    let mut token = wait();
    let Some(next) = here.next.get().cloned() else {
        return;
    };
    loop {
        here.token.store(0, Relaxed);
        if token == 2 {
            end();
        }
        there.store((token - 1).max(1), Relaxed);
        S::unpark(&next);
        if token == 1 {
            return;
        }
        token = wait();
    }
}

fn skynet<S: Stackful>(tree: Subtree) -> u64 {
    if tree.leaves == 1 {
        return tree.first;
    }
    let children: [_; CHILDREN] =
        array::from_fn(|index| S::spawn(move || skynet::<S>(tree.child(index))));
    children.into_iter().map(S::join).sum()
}

fn fib<S: Stackful>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let other = S::spawn(move || fib::<S>(n - 1));
    fib::<S>(n - 2) + S::join(other)
}

/// A connection ends when its client leaves.
fn echo(mut stream: impl Read + Write) {
    let mut buffer = [0; BUFFER];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
