//! What the parts that two checkers share say of theirs, as shuttle has it.

pub(crate) mod cancel;
pub(crate) mod deadline;
pub(crate) mod sync;

pub(crate) use crate::kernel;
pub(crate) use shuttle::sync::atomic::AtomicPtr;
pub(crate) use shuttle::{thread, thread_local};
/// A cell that the checker does not see.
pub(crate) use std::cell::Cell as Plain;

/// How often a thread looks before it sleeps, at first.
pub(crate) const PATIENCE: u32 = 2;

/// A static of each execution's own.
macro_rules! shared {
    ($(#[$attribute:meta])* static $name:ident: $of:ty = $value:expr;) => {
        ::shuttle::lazy_static! { $(#[$attribute])* static ref $name: $of = $value; }
    };
}
pub(crate) use shared;

/// Nothing: plain memory is none of the checker's.
pub(crate) fn access_memory(_address: usize, _writes: bool) {}

/// Another thread may come here.
pub(crate) fn pause() {
    thread::yield_now();
}

/// What was stored last.
pub(crate) fn newest(word: &sync::AtomicU32) -> u32 {
    word.load(sync::Ordering::SeqCst)
}

/// Explores a scenario of so many parties. They may be any number here.
pub(crate) fn check(_parties: usize, scenario: fn()) {
    crate::check(scenario);
}

/// As [`check`]. A scenario in which a wait is revoked is nothing special here.
pub(crate) fn check_with_heavy(_parties: usize, scenario: fn()) {
    crate::check(scenario);
}

/// Explores a scenario that is too large for a checker that goes through all interleavings.
pub(crate) fn check_large(scenario: fn()) {
    crate::check(scenario);
}

/// A value that lives to the end of the execution.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The time is this from now on: the deadlines until then pass, that of the task among them.
pub(crate) fn pass(_task: &'static crate::rt::task::Task, to: u64) {
    kernel::advance(to);
}
