//! Fork and join: a problem is cut in two until its parts are small, and each part is a worker of
//! its own that borrows its half.
//!
//! The servers run new workers newest first and steal the oldest, the largest parts, so few workers
//! are alive at a time and few are stolen.
//!
//! Run it: `cargo run --release -p umcg --example fork_join [n of fib] [numbers to sort]`

use std::time::{Duration, Instant};

/// Parts that are sorted at once.
const SMALL: usize = 256;

/// As many workers as additions: it measures what a worker costs, not how to compute this.
fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    umcg::scope(|scope| {
        // SAFETY: `fib` keeps but numbers across its waits, and there is no preemption. It is the
        // lightest kind of worker; `scope.spawn` is the safe one.
        let one = unsafe { scope.spawn_light(move || fib(n - 1)) };
        fib(n - 2) + one.join().expect("fib does not panic")
    })
}

/// Sorts: a worker for each part below a pivot, while the caller goes on with the part above.
fn quicksort(numbers: &mut [u64]) {
    umcg::scope(|scope| {
        let mut rest = numbers;
        while rest.len() > SMALL {
            let middle = partition(rest);
            let (low, high) = rest.split_at_mut(middle);
            scope.spawn(move || quicksort(low));
            rest = high;
        }
        rest.sort_unstable();
    }); // returns when all workers have ended, so the borrows have, too
}

/// Moves what is less than some pivot before the rest; returns where that begins, which is neither
/// the beginning nor the end. By Hoare.
fn partition(numbers: &mut [u64]) -> usize {
    let middle = numbers.len() / 2;
    let mut three = [numbers[0], numbers[middle], numbers[numbers.len() - 1]];
    three.sort_unstable();
    let pivot = three[1];
    let (mut low, mut high) = (0, numbers.len() - 1);
    loop {
        while numbers[low] < pivot {
            low += 1;
        }
        while numbers[high] > pivot {
            high -= 1;
        }
        if low >= high {
            return low.max(1);
        }
        numbers.swap(low, high);
        low += 1;
        high -= 1;
    }
}

fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    (f(), begin.elapsed())
}

fn main() {
    let argument = |index, default| {
        std::env::args()
            .nth(index)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (n, len) = (argument(1, 20), argument(2, 200_000));

    let (result, time) = timed(|| umcg::rt::global().run(|| fib(n)));
    let expected = (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    assert_eq!(result, expected);
    println!("fib({n}) = {result} in {time:.1?}");

    // Numbers without an order, always the same ones.
    let mut numbers: Vec<u64> = (1..=len)
        .map(|index| index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32)
        .collect();
    let mut alone = numbers.clone();
    let (_, time) = timed(|| umcg::rt::global().run(|| quicksort(&mut numbers)));
    let (_, time_alone) = timed(|| alone.sort_unstable());
    assert!(numbers == alone, "not sorted");
    println!(
        "{len} numbers sorted in {time:.1?}; by one thread, with the library's function, in \
         {time_alone:.1?}"
    );
}
