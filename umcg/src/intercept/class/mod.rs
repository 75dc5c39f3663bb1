//! What may be done with a system call when its caller runs on a server in place of its home.
//!
//! A program's thread has a *home*, the kernel thread that it was made with, and runs on servers
//! meanwhile. The kernel takes whichever kernel thread makes a call for the caller. So each number
//! has a class: whether the call may be made in place, at home only, or not at all because the
//! library answers it. docs/calls.md has the tables for readers; a test keeps them equal.
//!
//! # Invariants
//!
//! `umcg/tests/calls` checks them.
//!
//! - C1. A number that is not in the table goes home. Home is right for every call that is not a
//!   matter of the library's own: it costs a hop, and never a wrong result.
//! - C2. What passes neither blocks for long nor changes anything of the calling thread alone, and
//!   depends on no state but the *common* one ([`State`]).
//! - C3. A call by which a thread gets common state of its own is a [`Class::Change`]: afterwards
//!   C2 no longer holds for that thread, until servers follow or it stays at home.
//! - C4. The class of a number is for the arguments that its rule does not know, and is Pass for no
//!   number with a rule. [`of`] decides on a call.
//! - C5. [`HOOKED`] is 0 for a number only if it passes whatever the arguments are.
//!
//! # Numbers outside of the table
//!
//! The kernel reads the lower 32 bits of `rax`. Numbers from 512 on without the bit of x32 are no
//! calls. With that bit (kernels that have the x32 ABI) a call goes home, unless it makes or ends a
//! thread: then it is of class Thread or Bare, as its plain form is. `int 0x80` has other numbers
//! and is no site: such a call is made in place, with the identity of the thread that runs the
//! worker. A handler of SIGSYS has to look at `si_arch` before it asks this table.
//!
//! # Rejected
//!
//! - *Unknown calls in place.* One that blocks stops all workers of its server.
//! - *A row a number.* The same reason stood at 60 numbers, and no two said it in the same words.
//! - *fstat and other calls on files in place.* They are short on a disk, and wait for a daemon on
//!   FUSE; the daemon may be a worker that waits for this server. They follow an open, after which
//!   the thread is at home, so that they cost no hop.
//! - *File locks tried first.* No event tells when to try again, and on a network the try is a
//!   message to its server.

#![allow(
    dead_code,
    unused_imports,
    reason = "columns that only docs/calls.md has, and its test"
)]

mod kinds;
mod rule;
mod state;
mod table;

pub(crate) use kinds::{Afterwards, Made, Trial, User, Watched};
pub(crate) use rule::{Rule, is_of_thread};
pub(crate) use state::State;

/// How many numbers the tables have.
pub(crate) const NUMBERS: usize = 512;

/// What may be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Goes through in place; a site that makes only such calls may be left alone.
    Pass,
    /// The library acts on it, and lets it through.
    Watch(Watched),
    /// The library answers it.
    User(User),
    /// Trial in place without blocking; then the worker parks, or goes home.
    Try(Trial),
    /// Made by the home thread.
    Home,
    /// Made by the home thread, which then differs in this state from servers: they follow, or the
    /// thread stays at home.
    Change(State),
    /// Makes or ends a thread or a process.
    Thread(Made),
    /// Needs the stack pointer and the instruction of the caller: never patched, and if one comes
    /// to a hook, it is made at the site with all registers as they were.
    Bare,
}

impl Class {
    /// The byte in [`HOOKED`].
    const fn code(self) -> u8 {
        match self {
            Class::Pass => 0,
            Class::Watch(_) => 1,
            Class::User(_) => 2,
            Class::Try(_) => 3,
            Class::Home => 4,
            Class::Change(_) => 5,
            Class::Thread(_) => 6,
            Class::Bare => 7,
        }
    }
}

/// For how long a call keeps the kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// It does not sleep.
    Never,
    /// It may sleep for a lock inside of the kernel, or for memory.
    Briefly,
    /// For as long as a disk, another party or the program likes.
    Long,
}

/// Calls with the same class for the same reason.
pub(crate) struct Row {
    /// Their class, unless a rule knows better.
    pub(crate) class: Class,
    /// How arguments decide.
    pub(crate) rule: Rule,
    /// For how long they keep the kernel thread.
    pub(crate) blocking: Blocking,
    /// The state of the kernel thread that they depend on, besides the filters.
    pub(crate) reads: State,
    /// The state of the calling thread alone that they may change.
    pub(crate) changes: State,
    /// Why they have this class.
    pub(crate) why: &'static str,
    /// Numbers and names.
    pub(crate) calls: &'static [(usize, &'static str)],
}

/// All calls.
pub(crate) const ROWS: [&[Row]; 3] = [table::QUICK, table::TRIED, table::HOME];

#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    rule: Rule,
}

static ENTRIES: [Entry; NUMBERS] = entries();

/// By number: 0 if the site may be left alone, else a byte for the class.
pub(crate) static HOOKED: [u8; NUMBERS] = hooked();

/// By number: 1 if the call has nothing to ask of a guest that is at home, whatever its arguments
/// are. Those are the calls that are tried in place by a guest on a server. Not those that may
/// bring a mask of signals.
pub(crate) static PERMITTED: [u8; NUMBERS] = permitted();

const fn permitted() -> [u8; NUMBERS] {
    let entries = entries();
    let mut permitted = [0; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        let entry = entries[number];
        permitted[number] = (matches!(entry.class, Class::Try(_)) && !entry.rule.has_mask()) as u8;
        number += 1;
    }
    permitted
}

const fn entries() -> [Entry; NUMBERS] {
    let mut entries = [Entry {
        class: Class::Home,
        rule: Rule::Never,
    }; NUMBERS];
    let mut seen = [false; NUMBERS];
    let (mut list, mut row, mut at) = (0, 0, 0);
    while list < ROWS.len() {
        if row == ROWS[list].len() {
            (list, row) = (list + 1, 0);
            continue;
        }
        let Row {
            class, rule, calls, ..
        } = ROWS[list][row];
        if at == calls.len() {
            (row, at) = (row + 1, 0);
            continue;
        }
        let number = calls[at].0;
        assert!(!seen[number], "a number stands in the table twice");
        seen[number] = true;
        entries[number] = Entry { class, rule };
        at += 1;
    }
    entries
}

const fn hooked() -> [u8; NUMBERS] {
    let entries = entries();
    let mut codes = [0; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        codes[number] = entries[number].class.code();
        number += 1;
    }
    codes
}

/// The class of a number, for arguments that its rule does not know.
#[inline]
pub(crate) fn class(number: usize) -> Class {
    match ENTRIES.get(number as u32 as usize) {
        Some(entry) => entry.class,
        None => beyond(number as u32),
    }
}

/// The state that this call makes the caller's own, if the kernel grants it.
pub(crate) fn changed_by(number: usize, arguments: &[usize; 6]) -> Option<State> {
    match of(number, arguments) {
        Class::Change(state) => Some(state),
        _ => None,
    }
}

/// The class of a call.
#[inline]
pub(crate) fn of(number: usize, arguments: &[usize; 6]) -> Class {
    match ENTRIES.get(number as u32 as usize) {
        Some(entry) => entry.rule.apply(entry.class, arguments),
        None => beyond(number as u32),
    }
}

/// Numbers outside of the table.
#[cold]
fn beyond(number: u32) -> Class {
    const X32: u32 = 0x4000_0000;
    match number.checked_sub(X32).map(|plain| plain as usize) {
        // x32 has numbers of its own for these.
        Some(513) => Class::Bare,
        Some(520 | 545) => Class::Thread(Made::Exec),
        Some(plain) if plain < NUMBERS => match ENTRIES[plain].class {
            made @ Class::Thread(_) => made,
            _ => Class::Home,
        },
        _ => Class::Home,
    }
}
