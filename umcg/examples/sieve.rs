//! The sieve of Eratosthenes as a chain of workers: each keeps the first number that reaches it,
//! which is a prime, and passes on what that does not divide.
//!
//! Nothing but park and unpark stands under it: the pipes between the workers are a small queue, a
//! lock held for a few instructions, and two handles.
//!
//! Run it: `cargo run --release -p umcg --example sieve [limit]`

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use umcg::Handle;

/// Numbers that a pipe holds: its sender runs ahead so far, and then waits. More of them make fewer
/// switches.
const ROOM: usize = 16;

/// What both ends share.
#[derive(Default)]
struct Pipe {
    numbers: VecDeque<u64>,
    closed: bool,
    /// The end that found nothing to do, and is to be unparked. At most one of the two: a pipe is
    /// not empty and full at once.
    waiting: Option<Handle>,
}

#[derive(Clone, Default)]
struct End(Arc<Mutex<Pipe>>);

impl End {
    /// Does `step` as soon as it can be done, and unparks the other end, if that waits for it.
    fn when_possible<R>(&self, mut step: impl FnMut(&mut Pipe) -> Option<R>) -> R {
        loop {
            let mut pipe = self.0.lock().unwrap();
            if let Some(result) = step(&mut pipe) {
                let other = pipe.waiting.take();
                drop(pipe); // before anybody else runs
                other.into_iter().for_each(Handle::unpark);
                return result;
            }
            pipe.waiting = Some(Handle::current());
            drop(pipe);
            // It may return without a reason, so the loop looks again. An unpark that came just
            // before is not lost: this returns at once then.
            umcg::park();
        }
    }

    fn send(&self, number: u64) {
        self.when_possible(|pipe| {
            (pipe.numbers.len() < ROOM).then(|| pipe.numbers.push_back(number))
        });
    }

    fn close(&self) {
        self.when_possible(|pipe| {
            pipe.closed = true;
            Some(())
        });
    }

    /// The next number; none once the pipe is closed and empty.
    fn receive(&self) -> Option<u64> {
        self.when_possible(|pipe| match pipe.numbers.pop_front() {
            None if !pipe.closed => None,
            number => Some(number),
        })
    }
}

/// A worker's life; returns the primes that it and those behind it have found, the largest first.
fn filter(input: &End) -> Vec<u64> {
    let Some(prime) = input.receive() else {
        return Vec::new();
    };
    let output = End::default();
    let next = umcg::spawn({
        let input = output.clone();
        move || filter(&input)
    });
    while let Some(number) = input.receive() {
        if number % prime != 0 {
            output.send(number);
        }
    }
    output.close();
    let mut primes = next.join().expect("no filter panics");
    primes.push(prime);
    primes
}

fn main() {
    let limit = std::env::args()
        .nth(1)
        .map_or(2_000, |argument| argument.parse().expect("a limit"));
    let begin = Instant::now();
    // The main thread sends: an end of a pipe may be a plain thread as well as a worker.
    let first = End::default();
    let input = first.clone();
    let chain = umcg::spawn(move || filter(&input));
    (2..limit).for_each(|number| first.send(number));
    first.close();
    let primes = chain.join().expect("no filter panics");
    let is_prime = |number: &u64| {
        (2..)
            .take_while(|divisor| divisor * divisor <= *number)
            .all(|divisor| number % divisor != 0)
    };
    assert!(
        primes.iter().rev().copied().eq((2..limit).filter(is_prime)),
        "{primes:?}"
    );
    println!(
        "{} primes below {limit}, by as many workers, in {:.1?}",
        primes.len(),
        begin.elapsed()
    );
}
