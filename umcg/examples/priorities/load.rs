//! The load of the example, and its measurement: the same for workers and for plain threads.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// So many workers are urgent; the next ones are polite, the last two hogs.
pub(crate) const URGENT: u64 = 4;
pub(crate) const ALL: u64 = 12;
const HOGS: u64 = 2;
const PERIOD: Duration = Duration::from_millis(4);

static STOP: AtomicBool = AtomicBool::new(false);
static CHUNKS: AtomicU64 = AtomicU64::new(0);
static LATENCIES: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

/// What a worker or thread does: requests with some 30 us of work each, or such work without end.
pub(crate) fn load(index: u64, sleep_until: fn(Instant), give_way: fn()) {
    let compute = || black_box((0..100_000).fold(1u64, |x, y| black_box(x ^ y)));
    let mut due = Instant::now() + PERIOD.mul_f64(index as f64 / URGENT as f64);
    loop {
        if index < URGENT {
            due += PERIOD;
            sleep_until(due);
            let latency = due.elapsed();
            compute();
            // If it were preempted with the lock, the next urgent worker would block the very
            // server that has to run this one.
            umcg::critical(|| LATENCIES.lock().unwrap().push(latency));
        } else {
            compute();
            CHUNKS.fetch_add(1, Relaxed);
            if index < ALL - HOGS {
                give_way();
            }
        }
        if STOP.load(Relaxed) {
            break; // after one request at least
        }
    }
}

/// Has so many threads run `body` for so long, and says how it went. Returns the 99th percentile of
/// the latencies in seconds.
pub(crate) fn measure(
    name: &str,
    length: Duration,
    threads: u64,
    body: impl Fn(u64) + Sync,
) -> f64 {
    STOP.store(false, Relaxed);
    let body = &body;
    thread::scope(|scope| {
        (0..threads).for_each(|index| drop(scope.spawn(move || body(index))));
        // not measured: the kernel spreads the threads over the processors
        thread::sleep(length / 5);
        LATENCIES.lock().unwrap().clear();
        CHUNKS.store(0, Relaxed);
        thread::sleep(length);
        STOP.store(true, Relaxed);
    });
    let mut sorted = std::mem::take(&mut *LATENCIES.lock().unwrap());
    sorted.sort();
    let [p50, p99, max] = [50, 99, 100].map(|percent| sorted[(sorted.len() - 1) * percent / 100]);
    println!(
        "{name:18} p50 {p50:9.1?}  p99 {p99:9.1?}  max {max:9.1?}  {:>6} chunks of batch work",
        CHUNKS.load(Relaxed)
    );
    p99.as_secs_f64()
}
