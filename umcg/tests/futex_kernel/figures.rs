//! Figures: `cargo test --release --features intercept --test futex_kernel -- --ignored --nocapture
//! --test-threads 1`.

use crate::side::{PRIVATE, Side, WAIT, at, wait};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Instant;
use umcg::{Runtime, futex};

/// Nanoseconds of a turn, the least of some runs.
fn least(turns: u32, run: impl Fn(u32)) -> f64 {
    let runs = (0..7).map(|_| {
        let begun = Instant::now();
        run(turns);
        begun.elapsed().as_nanos() as f64 / f64::from(turns)
    });
    runs.fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "figures"]
fn wake_ups_that_find_nobody() {
    let word = AtomicU32::new(0);
    let ours = least(1_000_000, |turns| {
        for _ in 0..turns {
            black_box(Side::Ours.wake(black_box(&word), 1));
        }
    });
    let library = least(1_000_000, |turns| {
        for _ in 0..turns {
            black_box(futex::wake(black_box(&word), 1));
        }
    });
    let kernel = least(1_000_000, |turns| {
        for _ in 0..turns {
            black_box(Side::Kernel.wake(black_box(&word), 1));
        }
    });
    println!("wake, nobody waits: {ours:.1} ns; umcg::futex {library:.1}; kernel {kernel:.1}");
}

/// Starts a party; the function that is returned waits for its end.
type Start<'a> = dyn Fn(Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()> + 'a;

/// Two parties that tell each other a number by two words: so many waits and wake-ups in all.
fn ping_pong(
    turns: u32,
    wait: fn(&AtomicU32, u32) -> isize,
    wake: fn(&AtomicU32) -> isize,
    start: &Start<'_>,
) {
    let words: Arc<[AtomicU32; 2]> = Arc::default();
    let until = move |word: &AtomicU32, turn: u32| {
        while word.load(Acquire) < turn {
            wait(word, turn - 1);
        }
    };
    let tell = move |word: &AtomicU32, turn: u32| {
        word.store(turn, Release);
        wake(word);
    };
    let joins = [true, false].map(|is_first| {
        let words = words.clone();
        start(Box::new(move || {
            for turn in 1..=turns / 2 {
                if is_first {
                    tell(&words[1], turn);
                    until(&words[0], turn);
                } else {
                    until(&words[1], turn);
                    tell(&words[0], turn);
                }
            }
        }))
    });
    joins.into_iter().for_each(|join| join());
}

#[test]
#[ignore = "figures"]
fn round_trips() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let worker = |f: Box<dyn FnOnce() + Send>| -> Box<dyn FnOnce()> {
        let worker = runtime.spawn(f);
        Box::new(move || worker.join().unwrap())
    };
    let thread = |f: Box<dyn FnOnce() + Send>| -> Box<dyn FnOnce()> {
        let thread = std::thread::spawn(f);
        Box::new(move || thread.join().unwrap())
    };
    let by_call = least(400_000, |turns| {
        let wake = |word: &AtomicU32| Side::Ours.wake(word, 1);
        ping_pong(turns, wait, wake, &worker);
    });
    let by_library = least(400_000, |turns| {
        let wait = |word: &AtomicU32, value| futex::wait(word, value).map_or(-1, |()| 0);
        let wake = |word: &AtomicU32| futex::wake(word, 1) as isize;
        ping_pong(turns, wait, wake, &worker);
    });
    let in_kernel = least(20_000, |turns| {
        let wait = |word: &AtomicU32, value: u32| {
            Side::Kernel.futex([at(word), WAIT | PRIVATE, value as usize, 0, 0, 0])
        };
        let wake = |word: &AtomicU32| Side::Kernel.wake(word, 1);
        ping_pong(turns, wait, wake, &thread);
    });
    println!(
        "a hop of two workers, one server: {by_call:.1} ns; umcg::futex {by_library:.1}; \
         two threads in the kernel {in_kernel:.1}"
    );
}
