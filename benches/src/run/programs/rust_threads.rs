//! Rust: eight client threads ask one server thread through channels of the standard library, and
//! wait for the answer at a condition variable. An operation is a request and its answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;

#[derive(Default)]
struct Answer {
    value: Mutex<Option<u64>>,
    is_there: Condvar,
}

impl Answer {
    fn give(&self, value: u64) {
        *self.value.lock().unwrap() = Some(value);
        self.is_there.notify_one();
    }

    fn take(&self) -> u64 {
        let value = self.value.lock().unwrap();
        let mut value = self.is_there.wait_while(value, |value| value.is_none()).unwrap();
        value.take().unwrap()
    }
}

fn serve(requests: Receiver<(usize, u64)>, answers: &[Answer]) -> u64 {
    let mut served = 0;
    for (client, number) in requests {
        answers[client].give(number.wrapping_mul(3) + 1);
        served += 1;
    }
    served
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let budget = Duration::from_secs_f64(seconds);
    let answers: Vec<Answer> = (0..CLIENTS).map(|_| Answer::default()).collect();
    let (sender, requests) = sync_channel(1);
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (served, asked, counted, took) = thread::scope(|scope| {
        let server = scope.spawn(|| serve(requests, &answers));
        let (is_over, done) = (&is_over, &done);
        let ask = |client: usize| {
            let (sender, answer) = (sender.clone(), &answers[client]);
            move || {
                let mut number = 0;
                while !is_over.load(Relaxed) {
                    sender.send((client, number)).unwrap();
                    assert_eq!(answer.take(), number * 3 + 1);
                    number += 1;
                    done.fetch_add(1, Relaxed);
                }
                number
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(ask(client))).collect();
        drop(sender);
        thread::sleep(budget / 8);
        let (start, before) = (Instant::now(), done.load(Relaxed));
        thread::sleep(budget);
        let (counted, took) = (done.load(Relaxed) - before, start.elapsed());
        is_over.store(true, Relaxed);
        let asked: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        (server.join().unwrap(), asked, counted, took)
    });
    assert_eq!((served, served), (asked, done.into_inner()));
    println!("ops {counted} seconds {:.9} all {asked}", took.as_secs_f64());
}
