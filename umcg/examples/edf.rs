//! Earliest deadline first, beside first come first served, on the same periodic tasks.
//!
//! Every job of a task is a light worker of its own, which is cheap enough, so the server learns
//! from the events all that it must know: Wait means that a slice is done, Exit that the job is.
//! Between slices it picks again: the job whose deadline is nearest, or the one that was released
//! first.
//!
//! Run it: `cargo run --release -p umcg --example edf [milliseconds]`

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use umcg::{Event, Server, WorkerId};

/// Period, which is the deadline too, and work, in microseconds. Together they need half of one
/// processor.
const TASKS: [(u64, u64); 3] = [(2_000, 300), (5_000, 750), (20_000, 4_000)];
/// How long a job runs before it lets the server choose again, in microseconds.
const SLICE: u64 = 50;

/// One job of a task: so much work.
fn job(work: u64) {
    for _ in 0..work / SLICE {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(SLICE) {}
        umcg::wait().expect("a worker");
    }
}

/// Runs the tasks for a while. A job is chosen by its `key`, given its release and its deadline.
/// Returns how many jobs each task had, and how many of them missed their deadline.
fn schedule(server: &Server, length: u64, key: fn(u64, u64) -> u64) -> [(u32, u32); TASKS.len()] {
    let begin = Instant::now();
    let mut releases = [0; TASKS.len()];
    let mut result = [(0, 0); TASKS.len()];
    let mut jobs = HashMap::new(); // of each worker: its task, its deadline, its place in the queue
    let mut queue = BTreeMap::new(); // smallest key first; equal ones in order of their ids
    loop {
        let now = begin.elapsed().as_micros() as u64;
        for (task, &(period, work)) in TASKS.iter().enumerate() {
            while releases[task] <= now && releases[task] < length {
                let deadline = releases[task] + period;
                let id = WorkerId::from_index(jobs.len() as u64);
                // SAFETY: there is no preemption, and `job` keeps nothing across its waits but two
                // numbers.
                let ready = unsafe { umcg::light(id).spawn(move || job(work)) }
                    .expect("memory for a stack");
                jobs.insert(id, (task, deadline, key(releases[task], deadline)));
                queue.insert((key(releases[task], deadline), id), ready);
                releases[task] += period;
            }
        }
        let next = releases
            .into_iter()
            .filter(|&release| release < length)
            .min();
        let event = match (queue.pop_first(), next) {
            (Some((_, ready)), _) => Ok(server.switch_to(ready)),
            (None, Some(next)) => server.wait_deadline(begin + Duration::from_micros(next)),
            (None, None) => return result,
        };
        match event {
            Ok(Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready)) => {
                queue.insert((jobs[&ready.id()].2, ready.id()), ready);
            }
            Ok(Event::Exit(id)) => {
                let (task, deadline, _) = jobs[&id];
                result[task].0 += 1;
                result[task].1 += u32::from(begin.elapsed().as_micros() as u64 > deadline);
            }
            // no job does that; it is time to release one
            Ok(Event::Block(_) | Event::Timeout(_)) | Err(_) => {}
        }
    }
}

fn main() {
    let length = std::env::args()
        .nth(1)
        .map_or(1_000, |argument| argument.parse().expect("milliseconds"))
        * 1_000;
    let server = Server::register().expect("no server yet");
    let first_come = schedule(&server, length, |release, _| release);
    let earliest = schedule(&server, length, |_, deadline| deadline);
    println!("deadlines missed     first come first served    earliest deadline first");
    for (task, (period, work)) in TASKS.into_iter().enumerate() {
        let [a, b] =
            [first_come[task], earliest[task]].map(|(jobs, missed)| format!("{missed} of {jobs}"));
        println!(
            "{:>4.2} ms every {:>2} ms {a:>24} {b:>26}",
            work as f64 / 1e3,
            period / 1_000
        );
    }
}
