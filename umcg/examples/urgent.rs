//! A server with mixed load: batch workers compute without ever giving way, more of them than there
//! are processors, and urgent requests over TCP keep their latency.
//!
//! Two settings do it. The scheduler `Priority` runs the most urgent worker. Preemption takes a
//! batch worker off its server when a more urgent one becomes ready; a request's bytes are seen
//! although all servers compute, because the runtime's watch waits for them then.
//!
//! A request is due at a time that does not depend on the answers before it, and its latency counts
//! from there: so no delay is overlooked.
//!
//! Run it: `cargo run --release -p umcg --example urgent [milliseconds] [--threads]`; `--threads`
//! runs the same load with plain threads beside it

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{net, thread};
use umcg::rt::scheduler::Priority;
use umcg::{Builder, Runtime};

const CONNECTIONS: u32 = 4;
/// Each connection has a request so often.
const EVERY: Duration = Duration::from_millis(4);
/// Batch workers for each processor.
const BATCH: usize = 2;
const URGENT: u8 = 255;
const LATER: u8 = 0;

static OVER: AtomicBool = AtomicBool::new(false);
static CHUNKS: AtomicU64 = AtomicU64::new(0);

/// Computes until it is over, and waits nowhere.
fn batch() {
    while !OVER.load(Relaxed) {
        black_box((0..10_000).fold(1u64, |x, y| black_box(x ^ y)));
        CHUNKS.fetch_add(1, Relaxed);
    }
}

/// A connection's urgent requests.
fn answer(mut stream: impl Read + Write) {
    let mut request = [0; 16];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&request).is_ok() {}
}

/// A client, on a thread of its own; returns how long its requests took.
fn ask(server: SocketAddr, first: Instant, last: Instant) -> io::Result<Vec<Duration>> {
    let mut stream = net::TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let (mut due, mut latencies) = (first, Vec::new());
    while due < last {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(&[1; 16])?;
        stream.read_exact(&mut [0; 16])?;
        latencies.push(due.elapsed());
        due += EVERY;
    }
    Ok(latencies)
}

/// All clients; returns the 99th percentile, having printed it.
fn measure(name: &str, server: SocketAddr, length: Duration) -> Duration {
    CHUNKS.store(0, Relaxed);
    let begin = Instant::now() + EVERY;
    let client = |index| {
        thread::spawn(move || ask(server, begin + EVERY * index / CONNECTIONS, begin + length))
    };
    let clients: Vec<_> = (0..CONNECTIONS).map(client).collect();
    let results = clients
        .into_iter()
        .map(|client| client.join().expect("no client panics").expect("an answer"));
    let mut all: Vec<Duration> = results.flatten().collect();
    all.sort_unstable();
    let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
    let (requests, chunks) = (all.len(), CHUNKS.load(Relaxed));
    println!(
        "{name:<8} {requests} requests: p50 {:>9.1?}, p99 {:>9.1?}; {chunks} chunks of batch work",
        at(50),
        at(99)
    );
    at(99)
}

/// The load on a runtime.
fn workers(length: Duration) -> Duration {
    let builder = Runtime::builder()
        .scheduler(Priority::new())
        .preemption(Some(Duration::from_millis(1)));
    let runtime = builder.build().expect("a runtime");
    OVER.store(false, Relaxed);
    let later = Builder::new().priority(LATER).name("batch");
    (0..runtime.servers() * BATCH)
        .for_each(|_| drop(runtime.build(&later, batch).expect("a worker")));
    let listener = umcg::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    let urgent = Builder::new().priority(URGENT);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).expect("a connection");
            drop(
                Builder::new()
                    .priority(URGENT)
                    .spawn(move || answer(stream))
                    .expect("a worker"),
            );
        }
    };
    let accept = runtime.build(&urgent, accept).expect("a worker");
    let p99 = measure("umcg", address, length);
    OVER.store(true, Relaxed);
    accept.abort();
    runtime.shutdown(); // waits for all
    p99
}

/// The same load on plain threads.
fn threads(length: Duration) -> Duration {
    OVER.store(false, Relaxed);
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let batch: Vec<_> = (0..processors * BATCH)
        .map(|_| thread::spawn(batch))
        .collect();
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || {
        for stream in listener.incoming().flatten().take(CONNECTIONS as usize) {
            stream.set_nodelay(true).expect("a connection");
            thread::spawn(move || answer(stream));
        }
    });
    let p99 = measure("threads", address, length);
    OVER.store(true, Relaxed);
    batch
        .into_iter()
        .for_each(|thread| thread.join().expect("batch work does not panic"));
    p99
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let length = Duration::from_millis(
        number.map_or(500, |argument| argument.parse().expect("milliseconds")),
    );
    let ours = workers(length);
    if arguments.iter().any(|argument| argument == "--threads") {
        let theirs = threads(length);
        println!(
            "p99 with threads: {:.1} times umcg's",
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
}
