//! A word that is the state of an object and the lock of its queues at once, so that an operation
//! has one locked instruction, whether it has to do with a queue or not. Gates and tubes stand on
//! it.
//!
//! While [`LOCKED`] only the holder of the lock writes the word, and gives it back by a plain
//! store. Everybody else changes it by compare-and-swap from a word without `LOCKED`. The holder is
//! not preempted, does not wait and wakes no other (see [`spin`](super::spin)).

use super::spin::look_again;
use super::sync::{AtomicU64, Ordering::*};

/// Somebody has the lock.
pub(crate) const LOCKED: u64 = 1 << 63;

#[derive(Default)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) const fn new(word: u64) -> Word {
        Word(AtomicU64::new(word))
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The word, and what was done before it became so.
    #[inline(always)]
    pub(crate) fn see(&self) -> u64 {
        // ORDERING(word.1): Acquire, pairs with word.2.
        self.0.load(Acquire)
    }

    /// A step that takes something: what was done before it was given is seen. Neither word is
    /// locked. The error is the word as it is.
    #[inline(always)]
    pub(crate) fn take(&self, from: u64, to: u64) -> Result<u64, u64> {
        // ORDERING(word.1): Acquire, pairs with word.2.
        self.0.compare_exchange(from, to, Acquire, Relaxed)
    }

    /// A step that gives something: the taker sees everything done before it. As [`Word::take`].
    #[inline(always)]
    pub(crate) fn give(&self, from: u64, to: u64) -> Result<u64, u64> {
        // ORDERING(word.2): Release, pairs with word.1. Steps of others in between do not break the
        // sequence, nor does a holder of the lock, which has seen it.
        self.0.compare_exchange(from, to, Release, Relaxed)
    }

    /// Takes by `step`, from this word or what it is by then, as long as there is a step. The error
    /// is the word for which there is none.
    #[inline]
    pub(crate) fn take_while(
        &self,
        word: u64,
        step: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.change(word, step, Word::take)
    }

    /// Gives, likewise.
    #[inline]
    pub(crate) fn give_while(
        &self,
        word: u64,
        step: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.change(word, step, Word::give)
    }

    #[inline(always)]
    fn change(
        &self,
        mut word: u64,
        step: impl Fn(u64) -> Option<u64>,
        make: impl Fn(&Word, u64, u64) -> Result<u64, u64>,
    ) -> Result<u64, u64> {
        let mut looks = 0;
        loop {
            // Also while somebody has the lock: what is not there now was not there when that one
            // came, and this comes before.
            let Some(next) = step(word & !LOCKED) else {
                return Err(word);
            };
            if word & LOCKED == 0 {
                match make(self, word, next) {
                    Ok(word) => return Ok(word),
                    Err(now) => word = now,
                }
            } else {
                look_again(&mut looks);
                word = self.load();
            }
        }
    }

    /// Takes the lock. The word as it was, without LOCKED.
    #[inline(always)]
    pub(crate) fn lock(&self) -> u64 {
        self.lock_or(look_again)
    }

    /// The same; after each look in vain it calls `pause`, with the number of looks to count up.
    #[inline(always)]
    pub(crate) fn lock_or(&self, pause: fn(&mut u32)) -> u64 {
        self.try_lock().unwrap_or_else(|| self.lock_slow(pause))
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<u64> {
        let word = self.load();
        (word & LOCKED == 0 && self.lock_from(word)).then_some(word)
    }

    /// Takes the lock if the word is this one, which is not locked.
    #[inline(always)]
    pub(crate) fn lock_from(&self, word: u64) -> bool {
        // ORDERING(word.1): Acquire, pairs with word.2: of the queue, as the last holder left it,
        // and of the word.
        self.0
            .compare_exchange(word, word | LOCKED, Acquire, Relaxed)
            .is_ok()
    }

    #[cold]
    fn lock_slow(&self, pause: fn(&mut u32)) -> u64 {
        let mut looks = 0;
        loop {
            pause(&mut looks);
            if let Some(word) = self.try_lock() {
                return word;
            }
        }
    }

    /// Gives the lock back, and makes the word this.
    #[inline]
    pub(crate) fn unlock(&self, word: u64) {
        debug_assert_eq!(word & LOCKED, 0);
        // ORDERING(word.2): Release, pairs with word.1.
        self.0.store(word, Release);
    }
}
