//! Waits for the end of a guest (`intercept/words.rs`): each ends, in the table or in the kernel.
//!
//! The words of ids, their guests and the table are the sources' own. Here is what the guests and
//! the kernel do around them.

use crate::check;
use crate::kernel;
use crate::parties::{NEVER, party};
use crate::rt::sync::{AtomicU32, Ordering::SeqCst};
use crate::sources::futex::kernel::single::{self, ALL};
use guest::Guest;
use std::ptr::from_ref;

/// What is known of a guest.
mod guest {
    use shuttle::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::atomic::AtomicPtr;

    /// As `intercept/notes.rs` has it.
    #[derive(Default)]
    pub(super) struct Notes {
        pub(super) word: AtomicUsize,
        /// Touched with the lists' lock taken.
        pub(super) next_word: AtomicPtr<()>,
        pub(super) has_sleeper: AtomicBool,
        pub(super) is_adopted: AtomicBool,
    }

    #[derive(Default)]
    pub(super) struct Guest {
        pub(super) home: Notes,
    }
}

#[allow(dead_code, reason = "robust locks are none of the model's")]
#[path = "../../src/intercept/words.rs"]
mod words;

/// How a guest ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was adopted before, and the library ends it.
    Adopted,
    /// It is adopted to end.
    AdoptedLast,
    /// The kernel ends it.
    Plain,
}

/// A thread's memory: the word of its id.
struct Memory {
    word: AtomicU32,
}

impl Memory {
    fn at(&self) -> usize {
        from_ref(&self.word).expose_provenance()
    }
}

/// Makes a guest there, with this id.
fn make(memory: &'static Memory, id: u32, end: End) -> &'static Guest {
    let guest: &'static Guest = Box::leak(Box::default());
    guest.home.is_adopted.store(end == End::Adopted, SeqCst);
    words::enter(guest, memory.at());
    assert!(words::store(memory.at(), id));
    guest
}

/// Ends a guest: `homes::finish`; or `thread::exit`, and the kernel after that.
fn end(guest: &'static Guest, memory: &'static Memory, end: End) {
    if end == End::Plain {
        words::leave(guest);
        memory.word.store(0, SeqCst);
        return kernel::wake(&memory.word, 1);
    }
    guest.home.is_adopted.store(true, SeqCst);
    words::clear(guest, |word| {
        single::wake(word, i32::MAX, ALL);
    });
    words::leave(guest);
}

/// Waits for the end of the thread there, as pthread_join and the hook do.
fn join(memory: &'static Memory) {
    loop {
        let id = memory.word.load(SeqCst);
        if id == 0 {
            return;
        }
        if words::begin_wait(memory.at()) {
            single::wait(memory.at(), id, ALL, NEVER);
        } else {
            let _ = kernel::sleep(&memory.word, id, NEVER);
        }
    }
}

/// Joins a guest, and a second one in its memory, which begins right after the first has ended. A
/// joiner that is lost is a deadlock.
fn joined(is_worker: bool, ends: [End; 2]) {
    let memory: &'static Memory = Box::leak(Box::new(Memory {
        word: AtomicU32::new(0),
    }));
    let begin = move |id, way| {
        let guest = make(memory, id, way);
        party(true, move || end(guest, memory, way)).1
    };
    let first = begin(7, ends[0]);
    let joiner = party(is_worker, move || {
        join(memory);
        let second = begin(8, ends[1]);
        join(memory);
        second
    });
    let second = joiner.1.join().unwrap();
    first.join().unwrap();
    second.join().unwrap();
    assert!(!words::begin_wait(memory.at()), "all have left");
}

/// One test, since the lists of guests are a static.
#[test]
fn no_joiner_is_lost() {
    check(|| joined(true, [End::Adopted, End::Adopted]));
    check(|| joined(false, [End::Adopted, End::AdoptedLast]));
    check(|| joined(true, [End::AdoptedLast, End::Adopted]));
    check(|| joined(true, [End::AdoptedLast, End::Plain]));
    check(|| joined(false, [End::Plain, End::AdoptedLast]));
}
