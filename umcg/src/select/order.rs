//! In which order things are looked at of which the first that is ready is taken.
//!
//! For none to be preferred it is not enough to begin somewhere else each time: of several that are
//! ready the one behind many that are not would be found more often. So both the first and the step
//! from one to the next are drawn by chance. With a prime number of steps, of which those that lead
//! nowhere are left out, each of two comes before the other equally often.
//!
//! The numbers are those of a sequence that all callers share, the multiples of an irrational one:
//! whatever part of it a call gets is spread evenly, so that two calls which take turns do not get the
//! even ones and the odd ones. That two threads get the same now and then does not matter.

use std::sync::atomic::{AtomicUsize, Ordering::*};

/// Up to so many the order is that of a prime number of steps; of more the step is one, forwards or
/// backwards.
const FEW: usize = 64;

/// For each number the least prime that is not smaller; for the smallest, themselves.
const PRIMES: [u8; FEW + 1] = primes();

/// Indices, each once.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    len: usize,
    steps: usize,
    first: usize,
    step: usize,
}

impl Order {
    /// From the first to the last.
    pub(crate) fn in_turn(len: usize) -> Order {
        Order { len, steps: len, first: 0, step: 1 }
    }

    /// By chance.
    #[inline]
    pub(crate) fn fair(len: usize) -> Order {
        if len <= 1 {
            return Order::in_turn(len);
        }
        let chance = draw();
        let (high, low) = (chance >> 32, chance & u64::from(u32::MAX));
        if len > FEW {
            return Order { len, steps: len, first: below(high, len), step: if low & 1 == 0 { 1 } else { len - 1 } };
        }
        let steps = usize::from(PRIMES[len]);
        Order { len, steps, first: below(high, steps), step: 1 + below(low, steps.saturating_sub(1)) }
    }

    #[inline]
    pub(crate) fn indices(self) -> impl Iterator<Item = usize> {
        let mut next = self.first;
        (0..self.steps).filter_map(move |_| {
            let index = next;
            next += self.step;
            if next >= self.steps {
                next -= self.steps;
            }
            (index < self.len).then_some(index)
        })
    }
}

/// A number of 32 bits, scaled.
fn below(chance: u64, len: usize) -> usize {
    ((chance * len as u64) >> 32) as usize
}

fn draw() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.load(Relaxed);
    NEXT.store(next.wrapping_add(1), Relaxed);
    // The golden ratio's fraction: its multiples are spread evenly, those of every so manieth call as well.
    (next as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn primes() -> [u8; FEW + 1] {
    let mut primes = [0; FEW + 1];
    let mut number = 0;
    while number <= FEW {
        let mut prime = number;
        while !is_prime(prime) && prime > 1 {
            prime += 1;
        }
        primes[number] = prime as u8;
        number += 1;
    }
    primes
}

const fn is_prime(number: usize) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number % divisor == 0 {
            return false;
        }
        divisor += 1;
    }
    number > 1
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_index_once() {
        for len in (0..=70).chain([1000]) {
            for order in [Order::in_turn(len), Order::fair(len), Order::fair(len)] {
                let mut indices: Vec<_> = order.indices().collect();
                indices.sort_unstable();
                assert!(indices.into_iter().eq(0..len), "{len}");
            }
        }
    }

    /// Two calls that take turns, of any number of things: the first is any of them, and of two
    /// others each comes first as often.
    #[test]
    fn none_is_preferred() {
        const MANY: usize = 40_000;
        for len in 2..=9 {
            for (turn, calls) in [(0, 1), (0, 2), (1, 2), (2, 3)] {
                let (mut first, mut before) = (vec![0; len], 0);
                for n in 0..MANY * calls {
                    let order = Order::fair(len);
                    if n % calls != turn {
                        continue;
                    }
                    let indices: Vec<_> = order.indices().collect();
                    first[indices[0].min(len - 1)] += 1;
                    let at = |index| indices.iter().position(|found| *found == index);
                    before += usize::from(at(len - 2) < at(len - 1));
                }
                assert!(before.abs_diff(MANY / 2) < MANY / 40, "{len}: {before} of {MANY}");
                assert!(first.iter().all(|count| *count > MANY / len / 2), "{len}: {first:?}");
            }
        }
    }
}
