//! The library's notes about the home of a guest, in the guest's state.

use super::guest::Guest;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The name of a kernel thread, as prctl(2) has it.
#[derive(Debug, Default)]
pub(super) struct ThreadName([AtomicU64; 2]);

impl ThreadName {
    pub(super) fn set(&self, name: [u64; 2]) {
        self.0[0].store(name[0], Relaxed);
        self.0[1].store(name[1], Relaxed);
    }

    pub(super) fn get(&self) -> [u64; 2] {
        [self.0[0].load(Relaxed), self.0[1].load(Relaxed)]
    }
}

/// What is known of a guest's home. The guest writes it; before its first instruction its maker.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The word of the thread's id; 0 for none. And the next guest in its list (`words.rs`).
    pub(super) word: AtomicUsize,
    pub(super) next_word: AtomicPtr<()>,
    /// A thread sleeps, or has slept, in the kernel for its word.
    pub(super) has_sleeper: AtomicBool,
    /// It is a worker, and has not ended: its word is served in the table.
    pub(super) is_adopted: AtomicBool,
    /// It is not the first guest of its home.
    pub(super) is_later: AtomicBool,
    /// It, or a maker before it, has changed what children inherit.
    pub(super) is_spoilt: AtomicBool,
    /// It has state of its own, other than that of servers.
    pub(super) has_own_state: AtomicBool,
    /// It has begun on a server, and has not set its mask yet.
    pub(super) is_fresh: AtomicBool,
    /// Its home may not look for all the signals that it wants.
    pub(super) is_untold: AtomicBool,
    /// The same, and it is new: the courier is to tell the home, if it waits ([`untold`]).
    pub(super) is_new: AtomicBool,
    /// It is in that list; and the next there. They outlive the guest.
    ///
    /// [`untold`]: super::untold
    pub(super) is_listed: AtomicBool,
    pub(super) next_untold: AtomicPtr<Guest>,
    /// How many signals had been sent when it last looked whether one waits.
    pub(super) sent: AtomicU64,
    /// It has been sent home from a server.
    pub(super) was_home: AtomicBool,
    /// It has an alternate stack.
    pub(super) has_stack: AtomicBool,
    /// It has asked the kernel for a lock with priority inheritance.
    pub(super) inherits: AtomicBool,
    /// The head of its list of robust locks, and the one that the kernel knows.
    pub(super) robust: AtomicUsize,
    pub(super) told: AtomicUsize,
    /// The name of its kernel thread: now, and when it began.
    pub(super) name: ThreadName,
    pub(super) first_name: ThreadName,
    pub(super) storage: AtomicUsize,
    /// Its home may be reused. Set when it ends.
    pub(super) keeps: AtomicBool,
}

impl Notes {
    /// Forgets the last guest.
    pub(super) fn reset(&self) {
        self.word.store(0, Relaxed);
        self.has_sleeper.store(false, Relaxed);
        self.is_adopted.store(false, Relaxed);
        self.is_later.store(false, Relaxed);
        self.is_spoilt.store(false, Relaxed);
        self.has_own_state.store(false, Relaxed);
        self.is_fresh.store(false, Relaxed);
        self.is_untold.store(false, Relaxed);
        self.is_new.store(false, Relaxed);
        self.was_home.store(false, Relaxed);
        self.has_stack.store(false, Relaxed);
        self.inherits.store(false, Relaxed);
        self.robust.store(0, Relaxed);
        self.told.store(0, Relaxed);
        self.keeps.store(false, Relaxed);
    }

    pub(super) fn begin(&self, maker: &Notes, storage: usize) {
        let name = maker.name.get();
        self.name.set(name);
        self.first_name.set(name);
        self.storage.store(storage, Relaxed);
    }

    pub(super) fn is_renamed(&self) -> bool {
        self.name.get() != self.first_name.get()
    }
}
