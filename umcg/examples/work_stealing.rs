//! Work stealing: a server for each processor, with a queue of its own; one that has nothing left
//! takes half of another's queue, or sleeps.
//!
//! The load is as unbalanced as can be: all workers begin in the first server's queue. The same
//! load on one server shows what stealing gains.
//!
//! Run it: `cargo run --release -p umcg --example work_stealing [workers]`

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{hint::black_box, thread};
use umcg::{Event, Ready, Server, WorkerId};

const SLICES: u32 = 20;
/// `umcg::wake` remembers nothing: a server that had not quite gone to sleep when the call came
/// looks for work again after this.
const NAP: Duration = Duration::from_millis(1);

struct Group {
    queues: Vec<Mutex<VecDeque<Ready>>>,
    /// Workers that have not ended.
    alive: AtomicU64,
}

impl Group {
    /// The newest of its own queue, which the cache still knows; else the first of the oldest half
    /// of another's, which moves over.
    fn next(&self, me: usize, stolen: &mut usize) -> Option<Ready> {
        let own = self.queues[me].lock().unwrap().pop_back();
        own.or_else(|| {
            let half = |queue: &mut VecDeque<Ready>| {
                queue
                    .drain(..queue.len().div_ceil(2))
                    .collect::<VecDeque<_>>()
            };
            let mut loot = self
                .queues
                .iter()
                .map(|queue| half(&mut queue.lock().unwrap()))
                .find(|loot| !loot.is_empty())?;
            *stolen += loot.len();
            let first = loot.pop_front();
            // no other lock is held: no two servers wait for each other
            self.queues[me].lock().unwrap().append(&mut loot);
            first
        })
    }

    /// A server's life.
    fn serve(&self, me: usize) {
        let server = Server::register().expect("a plain thread");
        let (mut turns, mut stolen) = (0, 0);
        while self.alive.load(SeqCst) > 0 {
            let event = server.try_wait().or_else(|| {
                self.next(me, &mut stolen)
                    .map(|ready| server.switch_to(ready))
            });
            let Some(event) = event.or_else(|| server.wait_timeout(NAP).ok()) else {
                continue;
            };
            turns += 1;
            self.alive
                .fetch_sub(u64::from(matches!(event, Event::Exit(_))), SeqCst);
            let mut queue = self.queues[me].lock().unwrap();
            queue.extend(event.into_ready());
            if queue.len() > 1 {
                umcg::wake(); // there is something to steal
            }
        }
        println!(
            "server {} of {}: {turns:>6} turns, {stolen:>4} workers stolen",
            me + 1,
            self.queues.len()
        );
    }
}

/// Runs the load on so many servers.
fn run(servers: usize, workers: u64) -> Duration {
    let work = || {
        for _ in 0..SLICES {
            black_box((0..100_000).fold(1u64, |x, y| black_box(x ^ y)));
            umcg::wait().expect("a worker");
        }
    };
    let light = |index| {
        // SAFETY: there is no preemption, and nothing but a counter is kept across the wait.
        unsafe { umcg::light(WorkerId::from_index(index)).spawn(work) }.expect("memory for a stack")
    };
    let group = &Group {
        queues: (0..servers).map(|_| Mutex::default()).collect(),
        alive: workers.into(),
    };
    group.queues[0]
        .lock()
        .unwrap()
        .extend((0..workers).map(light));
    let begin = Instant::now();
    thread::scope(|scope| (0..servers).for_each(|me| drop(scope.spawn(move || group.serve(me)))));
    begin.elapsed()
}

fn main() {
    let workers = std::env::args().nth(1).map_or(1_500, |argument| {
        argument.parse().expect("a number of workers")
    });
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let (alone, together) = (run(1, workers), run(processors, workers));
    let gain = alone.as_secs_f64() / together.as_secs_f64();
    println!("{alone:.1?} on one server, {together:.1?} on {processors}: {gain:.2} times as fast");
}
