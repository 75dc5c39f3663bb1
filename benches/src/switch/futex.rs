//! A futex word for each party: 1 says that control is its own. A direction is one FUTEX_WAKE and
//! one FUTEX_WAIT, both private.

use super::pair::{HandOver, Party};
use anyhow::Result;
use std::ptr;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// On a cache line of its own: the two words are written by different CPUs.
#[repr(align(128))]
struct Word(AtomicU32);

pub(super) struct Futex {
    main: Word,
    worker: Word,
}

impl Futex {
    #[inline(always)]
    fn word(&self, party: Party) -> &AtomicU32 {
        match party {
            Party::Main => &self.main.0,
            Party::Worker => &self.worker.0,
        }
    }
}

#[inline(always)]
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // Its result does not matter: the word says whose turn it is.
    // SAFETY: the word is valid for the whole call; no time limit is given.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            ptr::null::<libc::timespec>(),
        )
    };
}

impl HandOver for Futex {
    fn new() -> Result<Self> {
        Ok(Self {
            main: Word(AtomicU32::new(0)),
            worker: Word(AtomicU32::new(0)),
        })
    }

    #[inline(always)]
    fn give(&self, to: Party) {
        let word = self.word(to);
        // ORDERING(bench-futex.1): pairs with bench-futex.2, so that earlier changes are seen.
        word.store(1, Release);
        futex(word, libc::FUTEX_WAKE, 1);
    }

    #[inline(always)]
    fn await_turn(&self, me: Party) {
        let word = self.word(me);
        // ORDERING(bench-futex.2): pairs with bench-futex.1.
        while word.load(Acquire) == 0 {
            // Returns at once if the word is no longer 0: a wake between the load and the call is
            // not lost.
            futex(word, libc::FUTEX_WAIT, 0);
        }
        word.store(0, Relaxed);
    }
}
