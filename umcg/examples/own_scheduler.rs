//! A scheduler of one's own: a lottery. Each worker has as many tickets as its priority says, and
//! whose ticket is drawn runs next.
//!
//! It is what docs/schedulers.md explains. Source: Waldspurger, Weihl, "Lottery scheduling:
//! flexible proportional-share resource management", 1994.
//!
//! Run it: `cargo run --release -p umcg --example own_scheduler [milliseconds]`

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use umcg::Runtime;
use umcg::rt::{Here, Runnable, Scheduler, Wake, Why};

/// Of each kind.
const WORKERS: usize = 20;

#[derive(Default)]
struct Lottery {
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    workers: Vec<Runnable>,
    tickets: u64,
    drawn: u64,
}

impl Pool {
    fn put(&mut self, worker: Runnable) {
        self.tickets += tickets(&worker);
        self.workers.push(worker);
    }

    fn draw(&mut self) -> Option<Runnable> {
        if self.workers.is_empty() {
            return None;
        }
        self.drawn += 1;
        let mut ticket = mix(self.drawn) % self.tickets;
        let holder = self.workers.iter().position(|worker| {
            let holds_it = ticket < tickets(worker);
            ticket = ticket.wrapping_sub(tickets(worker));
            holds_it
        });
        let worker = self.workers.swap_remove(holder?);
        self.tickets -= tickets(&worker);
        Some(worker)
    }
}

fn tickets(worker: &Runnable) -> u64 {
    1 + u64::from(worker.priority())
}

impl Scheduler for Lottery {
    fn start(&mut self, _servers: usize) {}

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.pool.lock().unwrap().put(worker);
        Wake::One
    }

    fn next(&self, _here: &Here) -> Option<Runnable> {
        self.pool.lock().unwrap().draw()
    }

    fn has_work(&self, _here: &Here) -> bool {
        !self.pool.lock().unwrap().workers.is_empty()
    }
}

/// A number that looks random (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn mix(number: u64) -> u64 {
    let a = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    c ^ (c >> 31)
}

fn main() {
    let length = std::env::args()
        .nth(1)
        .map_or(200, |argument| argument.parse().expect("milliseconds"));
    let runtime = Runtime::builder()
        .servers(1)
        .scheduler(Lottery::default())
        .build()
        .expect("a runtime");
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static OVER: AtomicBool = AtomicBool::new(false);
    // Workers of two kinds give way all the time, and count how often it was their turn, from when
    // they are all there.
    let turns = || {
        let mut turns = 0;
        while !OVER.load(Relaxed) {
            umcg::yield_now();
            turns += u64::from(BEGUN.load(Relaxed));
        }
        turns
    };
    let spawn = |priority| {
        runtime
            .build(&umcg::Builder::new().priority(priority), turns)
            .expect("a worker")
    };
    let [few, many] = [49, 149].map(|priority| [(); WORKERS].map(|()| spawn(priority)));
    BEGUN.store(true, Relaxed);
    std::thread::sleep(Duration::from_millis(length));
    OVER.store(true, Relaxed);
    let [few, many] = [few, many].map(|kind| {
        kind.map(|worker| worker.join().unwrap())
            .iter()
            .sum::<u64>()
    });
    println!(
        "{few} turns with 50 tickets, {many} turns with 150: {:.2} times as many",
        many as f64 / few as f64
    );
    runtime.shutdown();
}
