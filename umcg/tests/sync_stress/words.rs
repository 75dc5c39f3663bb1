//! Futexes: counts in words, taken from any of some words that has one; and a lock with a
//! condition, made of two words.

use crate::harness::Rng;
use crate::party::Party;
use crate::world::{Intents, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use umcg::futex::{self, ChangedAt, Wait, WaitMultipleError, WaitSet};

#[derive(Debug)]
pub(crate) struct Words {
    counts: Vec<AtomicU32>,
    total: u32,
    lock: Lock,
}

/// 0 is free, 1 locked, 2 locked with a possible waiter (U. Drepper, "Futexes Are Tricky"). A
/// waiter for a change stands at the other word, and is moved to the lock.
#[derive(Debug)]
struct Lock {
    word: AtomicU32,
    changes: AtomicU32,
    /// Written in two steps by the holder of the lock.
    value: AtomicU64,
    written: AtomicU64,
}

/// One that was taken from a word; it goes back when this is dropped.
struct Took(Arc<World>, usize);

impl Drop for Took {
    fn drop(&mut self) {
        let word = &self.0.words.counts[self.1];
        word.fetch_add(1, SeqCst);
        futex::wake(word, 1);
    }
}

struct Locked<'a>(&'a Lock);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.0.word.swap(0, SeqCst) == 2 {
            futex::wake(&self.0.word, 1);
        }
    }
}

impl Lock {
    /// A point of cancellation.
    fn lock(&self, is_contended: bool) -> Locked<'_> {
        if !is_contended && self.word.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
            return Locked(self);
        }
        while self.word.swap(2, SeqCst) != 0 {
            let _ = futex::wait(&self.word, 2);
        }
        Locked(self)
    }

    /// Moves all waiters for a change to the lock, which the caller has.
    fn broadcast(&self, _: &Locked<'_>) {
        let now = self.changes.fetch_add(1, SeqCst).wrapping_add(1);
        // The moved waiter has to be woken by the unlock.
        self.word.store(2, SeqCst);
        let done = futex::cmp_requeue(&self.changes, now, &self.word, 0, usize::MAX);
        assert_eq!(
            done.map(|done| done.woken),
            Ok(0),
            "only who has the lock changes it"
        );
    }
}

impl Words {
    pub(crate) fn new(rng: &mut Rng) -> Words {
        let counts: Vec<_> = (0..2 + rng.below(5))
            .map(|_| AtomicU32::new(rng.below(2) as u32))
            .collect();
        // One that stays empty is of no use alone.
        counts[0].store(1, Relaxed);
        let total = counts.iter().map(|count| count.load(Relaxed)).sum();
        let lock = Lock {
            word: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            value: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        Words {
            counts,
            total,
            lock,
        }
    }

    pub(crate) fn stranded(&self, intents: &[u64]) -> Option<String> {
        let wanted = intents
            .iter()
            .fold(0, |mask, intent| mask | Intents::parts(*intent).3);
        let index = (0..self.counts.len())
            .find(|index| wanted >> index & 1 != 0 && self.counts[*index].load(SeqCst) > 0);
        index.map(|index| format!("somebody waits for word {index} of {:?}", self.counts))
    }

    pub(crate) fn check(&self) {
        assert_eq!(
            self.counts
                .iter()
                .map(|count| count.load(SeqCst))
                .sum::<u32>(),
            self.total,
            "{:?}",
            self.counts
        );
        assert_eq!(self.lock.value.load(SeqCst), self.lock.written.load(SeqCst));
        let words = self
            .counts
            .iter()
            .chain([&self.lock.word, &self.lock.changes]);
        assert_eq!(
            words
                .map(|word| futex::wake(word, usize::MAX))
                .sum::<usize>(),
            0,
            "nobody waits any more"
        );
    }
}

pub(crate) fn one(party: &mut Party) {
    if party.rng.one_in(3) {
        let _ = party.cut(lock);
        return;
    }
    if let Some(took) = party.cut(take).flatten() {
        party.step();
        drop(took);
    }
}

fn lock(party: &mut Party) {
    let world = party.world.clone();
    let lock = &world.words.lock;
    let locked = lock.lock(false);
    let value = lock.value.load(Relaxed);
    if party.rng.one_in(4) {
        party.step();
    }
    lock.value.store(value + 1, Relaxed);
    lock.written.fetch_add(1, Relaxed);
    match party.rng.below(4) {
        0 => lock.broadcast(&locked),
        1 => {
            let changes = lock.changes.load(SeqCst);
            drop(locked);
            let _ = futex::wait_timeout(&lock.changes, changes, party.short());
            // Others may have been moved there with us.
            drop(lock.lock(true));
        }
        _ => {}
    }
}

fn try_take(world: &Arc<World>, index: usize) -> Option<Took> {
    let word = &world.words.counts[index];
    let taken = word
        .fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1))
        .is_ok();
    taken.then(|| Took(world.clone(), index))
}

/// Takes one from one of some words.
fn take(party: &mut Party) -> Option<Took> {
    let world = party.world.clone();
    let counts = &world.words.counts;
    // The first always has one, sooner or later.
    let how = party.rng.below(6);
    let others = if how == 5 { 0 } else { party.rng.below(4) };
    let mut list: Vec<_> = (0..others)
        .map(|_| party.rng.below(counts.len() as u64) as usize)
        .collect();
    list.push(0);
    let words: Vec<_> = list
        .iter()
        .map(|index| Wait::new(&counts[*index], 0))
        .collect();
    let mask = list.iter().fold(0, |mask, index| mask | 1 << index);
    let soon = party.soon();
    let mut set: Option<WaitSet<'_>> = (how < 2).then(|| words.iter().copied().collect());
    loop {
        if let Some(took) = list.iter().find_map(|index| try_take(&world, *index)) {
            return Some(took);
        }
        let _intent = party.intends(Intents::words(mask));
        let index = match (&mut set, how) {
            (Some(set), 0) => set.wait().map_err(changed),
            (Some(set), _) => set.wait_deadline(soon),
            (None, 2 | 3) => futex::wait_multiple(&words).map_err(changed),
            (None, 4) => futex::wait_multiple_deadline(&words, soon),
            (None, _) => futex::wait(&counts[0], 0)
                .map(|()| 0)
                .map_err(|futex::Changed| WaitMultipleError::Changed(0)),
        };
        match index {
            // A waiter that was woken for a word takes it from there: it was woken in place of
            // others.
            Ok(at) => {
                if let Some(took) = try_take(&world, list[at]) {
                    return Some(took);
                }
            }
            Err(WaitMultipleError::Changed(_)) => {}
            Err(WaitMultipleError::TimedOut) => return None,
        }
    }
}

fn changed(ChangedAt(index): ChangedAt) -> WaitMultipleError {
    WaitMultipleError::Changed(index)
}
