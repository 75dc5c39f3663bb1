//! Words of thread ids: the kernel clears such a word when its thread has ended, and wakes those
//! that wait for it. pthread_join waits so, by a shared wait.
//!
//! For adopted guests the library does both (`homes.rs`), and their words' waits are served in the
//! table of words. Other shared waits sleep in the kernel, as before.
//!
//! - A guest whose word is served never ends without a wake in the table. The word is cleared
//!   before, so that the comparison of a later waiter fails.
//! - A thread that sleeps in the kernel for a guest says so first (`slept.1`). The party that
//!   clears a word looks after that (`slept.2`), and wakes in the kernel, too.
//! - Before a word is cleared, its guest ceases to serve it. Once it is cleared, the memory may be
//!   that of a next thread, which the kernel ends. A wait for that one must not be served because
//!   the last guest has not left the lists yet.

use super::guest::Guest;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::*, fence};
use umcg_core::context::lock::Lock;
use umcg_core::{call, reach};

const LISTS: usize = 256;

/// The guests with a word, by its address.
static WORDS: Lock<[AtomicPtr<()>; LISTS]> =
    Lock::new([const { AtomicPtr::new(null_mut()) }; LISTS]);

fn list_of(word: usize) -> usize {
    const MULTIPLIER: usize = 0x9e37_79b9_7f4a_7c15;
    (word >> 2).wrapping_mul(MULTIPLIER) >> 56 & (LISTS - 1)
}

/// The kernel, or the library, will clear the word when the guest ends.
pub(super) fn enter(guest: &'static Guest, word: usize) {
    guest.home.word.store(word, Relaxed);
    let lists = WORDS.lock();
    let first = &lists[list_of(word)];
    guest.home.next_word.store(first.load(Relaxed), Relaxed);
    first.store(from_ref(guest).cast_mut().cast(), Relaxed);
}

/// The guest has ended.
pub(super) fn leave(guest: &'static Guest) {
    let word = guest.home.word.swap(0, Relaxed);
    if word == 0 {
        return;
    }
    let lists = WORDS.lock();
    let mut place = &lists[list_of(word)];
    // SAFETY: null, or a state, which is never freed.
    while let Some(other) = unsafe { place.load(Relaxed).cast::<Guest>().as_ref() } {
        if std::ptr::eq(other, guest) {
            return place.store(guest.home.next_word.load(Relaxed), Relaxed);
        }
        place = &other.home.next_word;
    }
}

/// A guest is about to wait for a shared word. True if the wait is to be served in the table: the
/// word is that of an adopted guest.
pub(super) fn begin_wait(word: usize) -> bool {
    let lists = WORDS.lock();
    let mut next = lists[list_of(word)].load(Relaxed);
    // SAFETY: null, or a state, which is never freed.
    while let Some(guest) = unsafe { next.cast::<Guest>().as_ref() } {
        if guest.home.word.load(Relaxed) == word {
            if guest.home.is_adopted.load(Relaxed) {
                return true;
            }
            // ORDERING(slept.1): SeqCst, pairs with slept.2: before the kernel looks at the word.
            guest.home.has_sleeper.store(true, SeqCst);
            return false;
        }
        next = guest.home.next_word.load(Relaxed);
    }
    false
}

/// Clears the word of a guest that has ended, and calls `wake` for its waiters in the table. The
/// memory may be gone right after.
pub(super) fn clear(guest: &'static Guest, wake: impl FnOnce(usize)) {
    let word = guest.home.word.load(Relaxed);
    if word == 0 {
        return;
    }
    // A joiner that comes now sleeps in the kernel, and is woken there.
    guest.home.is_adopted.store(false, Relaxed);
    if !store(word, 0) {
        return;
    }
    wake(word);
    // ORDERING(slept.2): SeqCst, pairs with slept.1: either this sees that a thread may sleep, or
    // the kernel sees that the word has changed.
    fence(SeqCst);
    if guest.home.has_sleeper.load(Relaxed) {
        wake_in_kernel(word);
    }
}

/// Wakes one waiter of the shared word in the kernel.
pub(super) fn wake_in_kernel(word: usize) {
    let arguments = [word, libc::FUTEX_WAKE as usize, 1, 0, 0, 0];
    // SAFETY: only the word's address counts.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Stores to a word of the program's. False if it cannot be written, which the kernel passes over,
/// too.
pub(super) fn store(address: usize, value: u32) -> bool {
    // ORDERING(word): Release, pairs with itself, and with the joiner's load: it sees all that
    // the thread has done.
    fence(Release);
    // SAFETY: the word of a thread's id, which the program leaves to the kernel.
    unsafe { reach::store_word(address, value) }
}
