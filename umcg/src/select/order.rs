//! The order in which a list is looked at, of which the first that is ready is taken.
//!
//! None is preferred. For a [few](FEW) all orders come one after the other, because processors
//! predict a pattern that repeats. After each [`BLOCK`] of looks the sequence goes on from a random
//! order, so that a program in step with the looks does not always meet the same order.
//!
//! A look at more begins with the one that was taken last; and when that has been taken
//! [`IN_A_ROW`] times, with the one behind it. So each one that is ready all the while is taken
//! equally often, however many lie between them that are not ready. To begin with the next one each
//! time would not do: the one behind many that are not ready would be taken more often. And where
//! everything comes by one of them, as often happens, that one is nearly always looked at first.
//!
//! A [`Turn`] is the position in a sequence of looks. A list has none of its own: it gets one of
//! [`TURNS`] by its name. Lists that share a turn must not move it for each other: a list that is
//! taken eight times at its first would make another begin with its first for ever. So a turn
//! belongs to one list at a time. Its state identifies that list: of a few by the list's name, of
//! more by the key of the one that is next (an address, as a rule). A look at any other list has a
//! random order, in which each of two comes before the other equally often. One in [`PATIENCE`] of
//! such looks gets the turn for its list, since the owner may be gone. It does no harm that two
//! threads look at one list by one turn at once.
//!
//! The random order of many is `first + n * step` modulo a power of two, with an odd step, without
//! those beyond the list. Of two indices each is equally often before the other, as for each step
//! there is its negative. Of more each has a fair share within a third.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// How often one of several that are ready is taken before the next has its turn.
const IN_A_ROW: u64 = 8;
/// Up to so many, an order is a first one and a direction.
const FEW: usize = 3;
/// How many looks at a few go on from one random order.
const BLOCK: u64 = 256;
/// One look in so many, at a list that does not have the turn, gets the turn.
const PATIENCE: u64 = 16;

/// Indices, each once.
#[derive(Clone, Copy)]
pub(crate) struct LookOrder<'a> {
    first: usize,
    step: usize,
    modulus: usize,
    len: usize,
    /// The turn to be told of the one that is taken.
    turn: Option<&'a Turn>,
}

impl<'a> LookOrder<'a> {
    /// From the first to the last.
    #[inline]
    pub(crate) fn in_turn(len: usize) -> LookOrder<'static> {
        LookOrder {
            first: 0,
            step: 1,
            modulus: len,
            len,
            turn: None,
        }
    }

    /// None is preferred, over many looks at the list of so many that has this name and these keys.
    #[inline]
    pub(crate) fn fair(list: u64, len: usize, key: impl Fn(usize) -> usize) -> LookOrder<'static> {
        if len <= 1 {
            LookOrder::in_turn(len)
        } else {
            TURNS[(list >> 56) as usize].next(list, len, key)
        }
    }

    /// The first in this order of which `is_it` says so.
    #[inline(always)]
    pub(crate) fn find(self, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let is_line = self.step == 1 && self.modulus == self.len;
        if !is_line {
            return self.find_across(&mut is_it);
        }
        // Not the iterator's `find`, which becomes a call where there are two of them.
        let mut part = self.first..self.len;
        loop {
            for index in part.clone() {
                if is_it(index) {
                    return Some(index);
                }
            }
            if part.end == self.first {
                return None;
            }
            part = 0..self.first;
        }
    }

    #[inline(never)]
    fn find_across(self, is_it: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        self.indices().find(|index| is_it(*index))
    }

    fn indices(self) -> impl Iterator<Item = usize> {
        let all = iter::successors(Some(self.first), move |before| {
            Some((before + self.step) % self.modulus)
        });
        all.take(self.modulus)
            .filter(move |index| *index < self.len)
    }

    /// The one that it begins with, for [`in_line`]: for a caller that has looked at all of them in
    /// this order, and goes through them once more. Anything that became ready in between did so by
    /// chance.
    #[inline]
    pub(crate) fn first(self) -> usize {
        if self.first < self.len { self.first } else { 0 }
    }

    /// The same for later, in the hands of a function that is not inlined: the order itself stays
    /// in registers, which makes a look at a few a fifth faster.
    #[inline]
    pub(crate) fn kept(self) -> KeptOrder<'a> {
        KeptOrder {
            first: self.first(),
            is_backwards: self.len == FEW && self.step == FEW - 1,
            turn: self.turn,
        }
    }

    /// This one was found, and taken.
    #[inline]
    pub(crate) fn took(self, index: usize, key: impl Fn(usize) -> usize) {
        if let Some(turn) = self.turn {
            turn.took(index, self.len, key);
        }
    }
}

/// An order from which a second look is made. A random order of many is forgotten but for its
/// first.
#[derive(Clone, Copy)]
pub(crate) struct KeptOrder<'a> {
    first: usize,
    is_backwards: bool,
    turn: Option<&'a Turn>,
}

impl<'a> KeptOrder<'a> {
    pub(crate) fn first(self) -> usize {
        self.first
    }

    /// Of the same list, which has so many.
    pub(crate) fn order(self, len: usize) -> LookOrder<'a> {
        LookOrder {
            first: self.first,
            step: if self.is_backwards { len - 1 } else { 1 },
            modulus: len,
            len,
            turn: self.turn,
        }
    }
}

/// One behind the other, from this one on.
#[inline]
pub(crate) fn in_line(first: usize, len: usize) -> impl Iterator<Item = usize> {
    (first..len).chain(0..first)
}

/// The position in a sequence of looks.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Of a few: which order is next (32 bits), at the end of a block a multiple of [`BLOCK`]; and
    /// a tag of the list's name (32). Of more: the first of the next look (24 bits), how many more
    /// times it is to be taken (8), and a tag of its key (32).
    state: AtomicU64,
    /// How many random numbers there were.
    random: AtomicU64,
}

const ONCE: u64 = 1 << 24;
const FIRST: u64 = ONCE - 1;
const KEY: u64 = 1 << 32;

/// Never 0, so that the state of an unused turn belongs to no list.
#[inline]
fn tag(key: usize) -> u64 {
    ((key >> 3) as u64 | 1 << 31) & (KEY - 1)
}

/// The state of which this one is the first that is looked at.
#[inline]
fn first_is(index: usize, key: impl Fn(usize) -> usize) -> u64 {
    index as u64 + tag(key(index)) * KEY
}

impl Turn {
    pub(crate) const fn new() -> Turn {
        Turn {
            state: AtomicU64::new(0),
            random: AtomicU64::new(0),
        }
    }

    /// One whose first look has a random order, another than that of the turn begun before.
    pub(crate) fn by_chance() -> Turn {
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        // The turns of two threads may begin alike.
        let begun = BEGUN.load(Relaxed);
        BEGUN.store(begun.wrapping_add(1), Relaxed);
        Turn {
            state: AtomicU64::new(0),
            random: AtomicU64::new(begun),
        }
    }

    /// The order of the next look at so many, of a list of this name.
    #[inline]
    pub(crate) fn next(
        &self,
        list: u64,
        len: usize,
        key: impl Fn(usize) -> usize,
    ) -> LookOrder<'_> {
        if len <= FEW {
            return if len <= 1 {
                LookOrder::in_turn(len)
            } else {
                self.next_of_few(list, len)
            };
        }
        let state = self.state.load(Relaxed);
        let first = (state & FIRST) as usize;
        if first < len && tag(key(first)) == state / KEY {
            LookOrder {
                first,
                turn: Some(self),
                ..LookOrder::in_turn(len)
            }
        } else {
            self.random_order(len, state, key)
        }
    }

    #[inline]
    fn next_of_few(&self, list: u64, len: usize) -> LookOrder<'static> {
        let state = self.state.load(Relaxed);
        // Other bits than those by which the turn was found.
        let whose = u64::from((list >> 24) as u32 | 1);
        let next = if state / KEY == whose && state % BLOCK != 0 {
            self.state.store(state + 1, Relaxed);
            state % KEY
        } else {
            self.random_of_few(state, whose)
        };
        let (first, step) = match len {
            2 => (next % 2, 1),
            _ => (next % 3, if next % 6 < 3 { 1 } else { 2 }),
        };
        LookOrder {
            first: first as usize,
            step,
            ..LookOrder::in_turn(len)
        }
    }

    /// A block is over, or the turn belongs to another list.
    #[cold]
    #[inline(never)]
    fn random_of_few(&self, state: u64, whose: u64) -> u64 {
        // Anywhere in a block, so that they are not equally long.
        let begun = |random: u64| whose * KEY + random % (KEY / 2);
        if state / KEY == whose {
            let random = self.random();
            self.state.store(begun(random), Relaxed);
            random % KEY
        } else {
            self.of_another(state, begun)
        }
    }

    fn random(&self) -> u64 {
        let before = self.random.load(Relaxed);
        self.random.store(before.wrapping_add(1), Relaxed);
        mixed(before.wrapping_mul(GOLDEN))
    }

    /// A random number for a look at a list that does not have the turn, which is in this state. If
    /// the list gets it the state becomes `inherited`, of another random number: a list that gets
    /// the turn again and again goes on by chance each time.
    fn of_another(&self, state: u64, inherited: impl FnOnce(u64) -> u64) -> u64 {
        let random = self.random();
        if state == 0 || (random >> 16) % PATIENCE == 0 {
            self.state.store(inherited(mixed(random)), Relaxed);
        }
        random
    }

    #[cold]
    #[inline(never)]
    fn random_order(&self, len: usize, state: u64, key: impl Fn(usize) -> usize) -> LookOrder<'_> {
        let random = self.of_another(state, |random| {
            let first = (random as u32 as u64 * len.min(FIRST as usize) as u64) >> 32;
            first_is(first as usize, key) + IN_A_ROW * ONCE
        });
        let modulus = len.next_power_of_two();
        let (first, step) = (
            (random >> 32) as usize & (modulus - 1),
            (random as usize | 1) & (modulus - 1),
        );
        LookOrder {
            first,
            step,
            modulus,
            len,
            turn: None,
        }
    }

    #[inline]
    fn took(&self, index: usize, len: usize, key: impl Fn(usize) -> usize) {
        let state = self.state.load(Relaxed);
        let more = state / ONCE % (KEY / ONCE);
        if state - more * ONCE == first_is(index, &key) && more >= 2 {
            self.state.store(state - ONCE, Relaxed);
        } else if len as u64 <= FIRST {
            let was_first = state - more * ONCE == first_is(index, &key);
            let behind = if index + 1 < len { index + 1 } else { 0 };
            let (first, more) = if was_first {
                (behind, IN_A_ROW)
            } else {
                (index, IN_A_ROW - 1)
            };
            self.state
                .store(first_is(first, &key) + more * ONCE, Relaxed);
        }
    }
}

static TURNS: [Turn; 256] = [const { Turn::new() }; 256];

/// The golden ratio's fraction: the upper bits of multiples are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A name for a list of these.
#[inline]
pub(crate) fn list_of(len: usize, key: impl Fn(usize) -> usize) -> u64 {
    if len <= 1 {
        0
    } else {
        name_of(key(0), key(len - 1))
    }
}

/// A name by two numbers that tell it from others.
#[inline]
pub(crate) fn name_of(one: usize, other: usize) -> u64 {
    (one as u64)
        .wrapping_add((other as u64).rotate_left(32))
        .wrapping_mul(GOLDEN)
}

/// Each bit depends on all others, as in splitmix64.
#[inline]
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The list with this name has keys that no other has.
    fn keys_of(list: usize) -> impl Fn(usize) -> usize {
        move |index| (list * 1000 + index + 1) << 4
    }

    #[test]
    fn each_index_once() {
        for len in (0..=70).chain([1000]) {
            let turn = Turn::new();
            for round in 0..100 {
                // Some looks are of the list that has the turn, others are not.
                let keys = keys_of(round % 2);
                let order = turn.next(7, len, &keys);
                let mut found = Vec::new();
                assert_eq!(order.find(|index| (found.push(index), false).1), None);
                for mut indices in [
                    found,
                    in_line(order.first(), len).collect(),
                    LookOrder::in_turn(len).indices().collect(),
                ] {
                    indices.sort_unstable();
                    assert!(indices.into_iter().eq(0..len), "{len}");
                }
                if len > 0 {
                    order.took(round * 7 % len, &keys);
                }
            }
        }
    }

    fn name(list: usize) -> u64 {
        list_of(10, keys_of(list))
    }

    /// The first of these that is ready, by a look at this list.
    fn take(turn: &Turn, list: usize, ready: &[bool]) -> usize {
        let order = turn.next(name(list), ready.len(), keys_of(list));
        let index = order.find(|index| ready[index]).expect("one is ready");
        order.took(index, keys_of(list));
        index
    }

    /// Whichever are ready, wherever they are.
    #[test]
    fn none_is_preferred() {
        for len in 2..=9 {
            let each: usize = 1000;
            for set in 1..1u32 << len {
                let ready: Vec<_> = (0..len).map(|index| set >> index & 1 == 1).collect();
                let (turn, mut taken) = (Turn::new(), vec![0usize; len]);
                for _ in 0..each * set.count_ones() as usize {
                    taken[take(&turn, 0, &ready)] += 1;
                }
                let is_even = |index: usize| {
                    if ready[index] {
                        taken[index].abs_diff(each) < each / 20
                    } else {
                        taken[index] == 0
                    }
                };
                assert!((0..len).all(is_even), "{ready:?}: {taken:?}");
            }
        }
    }

    /// How often each was taken, by looks at lists that take turns and have to share one.
    fn taken_in_turns(lists: &[Vec<bool>], looks: usize) -> Vec<Vec<usize>> {
        let turn = Turn::new();
        let mut taken: Vec<_> = lists
            .iter()
            .map(|ready| vec![0usize; ready.len()])
            .collect();
        for _ in 0..looks {
            for (list, ready) in lists.iter().enumerate() {
                taken[list][take(&turn, list, ready)] += 1;
            }
        }
        taken
    }

    #[track_caller]
    fn assert_fair(lists: &[Vec<bool>], looks: usize) {
        for (ready, taken) in lists.iter().zip(taken_in_turns(lists, looks)) {
            let share = looks / ready.iter().filter(|is_ready| **is_ready).count();
            let is_fair = |index: usize| {
                if ready[index] {
                    taken[index] > share * 3 / 5
                } else {
                    taken[index] == 0
                }
            };
            assert!(
                (0..ready.len()).all(is_fair),
                "{lists:?}: {ready:?}: {taken:?}"
            );
        }
    }

    #[test]
    fn those_that_share_a_turn() {
        for callers in 2..=16 {
            for len in 2..=8 {
                assert_fair(&vec![vec![true; len]; callers], 3_000);
            }
        }
    }

    /// Lists of which less is ready, or that are shorter, do not move a turn for others.
    #[test]
    fn unlike_ones_that_share_a_turn() {
        let lists = |len: usize| {
            (1..1u32 << len).map(move |set| {
                (0..len)
                    .map(|index| set >> index & 1 == 1)
                    .collect::<Vec<_>>()
            })
        };
        let all: Vec<_> = (2..=4).flat_map(lists).collect();
        for one in &all {
            for other in &all {
                assert_fair(&[one.clone(), other.clone()], 2_000);
            }
        }
        for few in &all {
            assert_fair(
                &[
                    few.clone(),
                    vec![true; 10],
                    [vec![false; 30], vec![true; 3]].concat(),
                ],
                10_000,
            );
        }
    }

    /// Every other look finds nothing, or every third, and so on.
    #[test]
    fn looks_in_step_with_what_is_ready() {
        for len in 2..=5 {
            for period in 2..=6 {
                let (turn, ready) = (Turn::new(), vec![true; len]);
                let mut taken = vec![0usize; len];
                for look in 0..20_000 * len * period {
                    if look % period == 0 {
                        taken[take(&turn, 0, &ready)] += 1;
                    } else {
                        turn.next(name(0), len, keys_of(0));
                    }
                }
                assert!(
                    taken.iter().all(|taken| taken.abs_diff(20_000) < 2_000),
                    "{period}: {taken:?}"
                );
            }
        }
    }

    /// One list is looked at when another says so, with which it has one of its own in common.
    #[test]
    fn those_that_depend_on_others() {
        for len in 2..=5 {
            let (turn, ready) = (Turn::new(), vec![true; len]);
            let mut taken = vec![0usize; len];
            for _ in 0..20_000 * len {
                if take(&turn, 0, &ready) == 0 {
                    taken[take(&turn, 1, &ready)] += 1;
                }
            }
            let all: usize = taken.iter().sum();
            assert!(all > 20_000 * 3 / 5, "{all}: {len}");
            assert!(
                taken
                    .iter()
                    .all(|taken| taken.abs_diff(all / len) < all / len / 5),
                "{taken:?}"
            );
        }
    }

    /// A list that finds the turn of one that is gone gets it.
    #[test]
    fn a_turn_is_inherited() {
        let turn = Turn::new();
        (0..100).for_each(|_| _ = take(&turn, 0, &[true; 4]));
        let mut at_once = 0;
        for _ in 0..1000 {
            at_once += usize::from(turn.next(name(1), 10, keys_of(1)).find(|_| true) == Some(7));
            let ready: Vec<_> = (0..10).map(|index| index == 7).collect();
            take(&turn, 1, &ready);
        }
        assert!(at_once > 600, "{at_once}");
    }

    /// Where all comes by one, looks find it at once but for one of each few.
    #[test]
    fn the_only_one_is_looked_at_first() {
        let (turn, mut ready) = (Turn::new(), [false; 10]);
        ready[7] = true;
        let mut at_once = 0;
        for _ in 0..1000 {
            at_once += usize::from(turn.next(name(0), 10, keys_of(0)).find(|_| true) == Some(7));
            take(&turn, 0, &ready);
        }
        assert!(at_once > 700, "{at_once}");
    }
}
