//! In which order things are looked at of which the first that is ready is taken.
//!
//! None is preferred: a look begins with the one that was taken last, and when that has been taken
//! [`IN_A_ROW`] times, behind it. So each that is ready all the while is taken equally often, however
//! many lie between them that are not. To begin with the next one each time would not do, as the one
//! behind many that are not ready would be taken more often. And where all comes by one of them, as
//! often happens, that one is the first that is looked at, nearly always.
//!
//! A [`Turn`] is where a sequence of looks is. A list has none of its own: it gets one of [`TURNS`] by
//! its address. Those that have to share one could fall into step, so that one look always begins
//! with the first and another always with the second. So now and then ([`STUMBLE`]) one is left out.
//! That two threads get the same does not matter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// So often one of several that are ready is taken before the next has its turn.
const IN_A_ROW: u64 = 8;
/// Once in so many turns it is one time less.
const STUMBLE: u64 = 17;

/// Indices, each once.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    first: usize,
    len: usize,
    turn: Option<&'a Turn>,
}

impl Order<'_> {
    /// From the first to the last.
    pub(crate) fn in_turn(len: usize) -> Order<'static> {
        Order { first: 0, len, turn: None }
    }

    /// None is preferred, over many looks at the list that is at this address.
    #[inline]
    pub(crate) fn fair<T>(list: &[T]) -> Order<'static> {
        turn_of(list.as_ptr().addr()).next(list.len())
    }

    #[inline]
    pub(crate) fn indices(self) -> std::iter::Chain<Range<usize>, Range<usize>> {
        (self.first..self.len).chain(0..self.first)
    }

    /// This one was found, and taken. (Whoever had to wait has no choice: that does not count.)
    #[inline]
    pub(crate) fn took(self, index: usize) {
        if let Some(turn) = self.turn {
            turn.took(index);
        }
    }
}

/// Where a sequence of looks is: the first (32 bits), how many more times it is to be taken (8), how
/// often another became the first (24).
#[derive(Debug)]
pub(crate) struct Turn(AtomicU64);

const ONCE: u64 = 1 << 32;
const CHANGE: u64 = 1 << 40;

impl Turn {
    pub(crate) const fn new() -> Turn {
        Turn(AtomicU64::new(0))
    }

    /// The order of the next look at so many.
    #[inline]
    pub(crate) fn next(&self, len: usize) -> Order<'_> {
        let first = self.0.load(Relaxed) as u32 as usize;
        // Another list may have had this turn, or the last one was taken.
        Order { first: if first < len { first } else { 0 }, len, turn: Some(self) }
    }

    #[inline]
    fn took(&self, index: usize) {
        let state = self.0.load(Relaxed);
        if index as u32 == state as u32 && state & (CHANGE - 1) >= 2 * ONCE {
            self.0.store(state - ONCE, Relaxed);
        } else {
            self.change(state, index as u32);
        }
    }

    /// This one was taken as often as it may be, or for the first time.
    #[inline(never)]
    fn change(&self, state: u64, index: u32) {
        let changes = (state / CHANGE + 1) % (u64::MAX / CHANGE);
        let (first, more) = if index == state as u32 { (index.wrapping_add(1), IN_A_ROW) } else { (index, IN_A_ROW - 1) };
        let more = if changes % STUMBLE == 0 { more - 1 } else { more };
        self.0.store(u64::from(first) + more * ONCE + changes * CHANGE, Relaxed);
    }
}

static TURNS: [Turn; 64] = [const { Turn::new() }; 64];

fn turn_of(address: usize) -> &'static Turn {
    // The upper bits of a multiple of the golden ratio's fraction.
    &TURNS[((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize]
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_index_once() {
        for len in (0..=70).chain([1000]) {
            let turn = Turn::new();
            for taken in 0..100 {
                for order in [turn.next(len), Order::in_turn(len)] {
                    let mut indices: Vec<_> = order.indices().collect();
                    indices.sort_unstable();
                    assert!(indices.into_iter().eq(0..len), "{len}");
                }
                turn.took(taken * 7 % len.max(1));
            }
        }
    }

    /// The first of these that is ready.
    fn take(turn: &Turn, ready: &[bool]) -> usize {
        let order = turn.next(ready.len());
        let index = order.indices().find(|index| ready[*index]).expect("one is ready");
        order.took(index);
        index
    }

    /// Whichever are ready, wherever they are.
    #[test]
    fn none_is_preferred() {
        const EACH: usize = 1000;
        for len in 2..=9 {
            for set in 1..1u32 << len {
                let ready: Vec<_> = (0..len).map(|index| set >> index & 1 == 1).collect();
                let (turn, mut taken) = (Turn::new(), vec![0usize; len]);
                for _ in 0..EACH * set.count_ones() as usize {
                    taken[take(&turn, &ready)] += 1;
                }
                let is_even =
                    |index: usize| if ready[index] { taken[index].abs_diff(EACH) < EACH / 20 } else { taken[index] == 0 };
                assert!((0..len).all(is_even), "{ready:?}: {taken:?}");
            }
        }
    }

    /// Callers that take turns, and have to share one.
    #[test]
    fn those_that_share_a_turn() {
        const EACH: usize = 10_000;
        for callers in 2..=16 {
            for len in 2..=8 {
                let (turn, ready, mut taken) = (Turn::new(), vec![true; len], vec![vec![0usize; len]; callers]);
                for _ in 0..EACH * len {
                    taken.iter_mut().for_each(|taken| taken[take(&turn, &ready)] += 1);
                }
                let is_even = |taken: &Vec<usize>| taken.iter().all(|count| count.abs_diff(EACH) < EACH / 4);
                assert!(taken.iter().all(is_even), "{callers} callers: {taken:?}");
            }
        }
    }

    /// Where all comes by one, looks find it at once but for one of each few.
    #[test]
    fn the_only_one_is_looked_at_first() {
        let (turn, mut ready) = (Turn::new(), [false; 10]);
        ready[7] = true;
        let mut at_once = 0;
        for _ in 0..1000 {
            at_once += usize::from(turn.next(10).indices().next() == Some(7));
            take(&turn, &ready);
        }
        assert!(at_once > 700, "{at_once}");
    }
}
