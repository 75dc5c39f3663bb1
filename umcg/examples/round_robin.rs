//! Round robin: one server runs the worker that has been ready for longest. Half of the workers are
//! threads, half are light, and the server need not care.
//!
//! A worker gives way with `umcg::wait`, and comes back to the end of the queue. One that sleeps
//! says so with `umcg::blocking`: the server runs the others meanwhile, and gets it back by an
//! event. There is no lock here: a worker is a value that only its owner can run.
//!
//! Run it: `cargo run --release -p umcg --example round_robin`

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;
use umcg::{Event, Server, Worker, WorkerId};

const WORKERS: u64 = 6;
const TURNS: u32 = 4;

/// What every worker does, whatever it is made of.
fn work(index: u64, kind: &str) {
    for turn in 1..=TURNS {
        println!("{kind} worker {index}: turn {turn}");
        if turn == 2 && index < 2 {
            umcg::blocking(|| thread::sleep(Duration::from_millis(20)));
            println!("{kind} worker {index}: slept");
        }
        umcg::wait().expect("a worker");
    }
}

fn main() {
    let server = Server::register().expect("no server yet");
    let mut queue = VecDeque::new();
    let mut threads = Vec::new();
    for index in 0..WORKERS {
        let id = WorkerId::from_index(index);
        if index % 2 == 0 {
            threads.push(thread::spawn(move || {
                // the server hears of it by Event::Wake
                let _worker = Worker::register(id).expect("a plain thread");
                work(index, "thread");
            }));
        } else {
            // SAFETY: there is no preemption, and `work` keeps no thread-local and no lock while it
            // waits or blocks.
            let light = unsafe { umcg::light(id).spawn(move || work(index, "light")) };
            queue.push_back(light.expect("memory for a stack"));
        }
    }

    let (mut alive, mut switches) = (WORKERS, 0);
    while alive > 0 {
        // Events of workers that woke come first, so that they are in the queue by the time we look
        // into it.
        let event = match server.try_wait() {
            Some(event) => event,
            None => match queue.pop_front() {
                Some(next) => {
                    switches += 1;
                    server.switch_to(next)
                }
                None => match server.wait() {
                    Ok(event) => event,
                    Err(_) => continue, // somebody called umcg::wake: look again
                },
            },
        };
        match event {
            Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => {
                queue.push_back(ready)
            }
            Event::Exit(_) => alive -= 1,
            // Wake follows the one; the other, which nobody asks for here, changes nothing
            Event::Block(_) | Event::Timeout(_) => {}
        }
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ended well"));
    println!("{WORKERS} workers, {TURNS} turns each: {switches} switches");
}
