//! Models of the protocols under loom: the real sources, in two or three threads, under all of
//! their interleavings up to some preemptions, and with all values that a load may see by the
//! memory model of C11. The models under shuttle (`tests/model`) have more threads and more steps;
//! but to them all orderings are alike.
//!
//! `ci/models.sh` runs them, first with orderings weakened in a copy of the sources: each has to be
//! found. By hand:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p umcg --test loom
//! ```
//!
//! `LOOM_MAX_PREEMPTIONS` is how many preemptions an interleaving has; where not given 3 with two
//! parties, 2 with three. `LOOM_LOCATION=1` has a failure say where the accesses were. The first
//! failure ends the process.
//!
//! The sources are compiled as they are. Their imports from `std` come from this crate, which is
//! `std` to itself: its atomics and cells are the checker's (`shim`), everything else is that of
//! the standard library. So each cell of a waiter, a place, a queue is checked for races, besides
//! the atomics.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    unreachable_pub,
    hidden_glob_reexports,
    private_interfaces,
    dropping_copy_types,
    reason = "the sources are a part of the library, and not all of them is used here"
)]

extern crate std as real;
// Names that the sources call are found here.
extern crate self as rustix;
extern crate self as std;
extern crate self as umcg_core;

pub use real::*;

mod futexes;
mod locks;
mod park;
mod rank;
mod rt;
mod semaphore;
#[path = "set.rs"]
mod sets;
mod shim;
mod system;
#[path = "tube.rs"]
mod tubes;

/// For `std::cell`.
pub mod cell {
    pub(crate) use crate::shim::cell::*;
}

/// For `rustix::io`.
pub mod io {
    pub use crate::system::Errno;
}

/// For `rustix::thread`, and `std::thread`.
pub mod thread {
    pub use crate::system::{Timespec, futex};
    pub(crate) use real::thread::panicking;
}

/// The library's, and `std::error`.
#[path = "../../src/error"]
pub mod error {
    pub use real::error::Error;
    pub(crate) mod texts;
    pub(crate) use texts::texts;
}

#[path = "../../src/select"]
mod select {
    pub(crate) mod engine;
    pub(crate) mod list;
    pub(crate) mod operation;
    pub(crate) mod order;
    pub(crate) mod set;
}

/// The library's, and `std::sync`.
#[path = "../../src/sync"]
pub mod sync {
    pub(crate) mod any;
    pub(crate) mod condvar;
    pub(crate) mod event;
    pub(crate) mod gate;
    pub(crate) mod joint;
    pub(crate) mod mutex;
    pub(crate) mod objects;
    pub(crate) mod once;
    pub(crate) mod rwlock;
    pub(crate) mod semaphore;
    pub(crate) use any::any;
    pub(crate) use mutex::Mutex;
    pub(crate) use semaphore::Semaphore;

    static JOINT_LOCK: crate::rt::spin::Spin<()> = crate::rt::spin::Spin::new(());

    fn joint_lock() -> &'static crate::rt::spin::Spin<()> {
        &JOINT_LOCK
    }

    /// For `std::sync::atomic`.
    pub mod atomic {
        pub(crate) use crate::shim::atomic::*;
    }
    pub use real::sync::Arc;
}

#[path = "../../src/tube"]
mod tube {
    pub(crate) mod back;
    pub(crate) mod core;
    pub(crate) mod layout;
    /// No thread looks first, so that there are more waits.
    mod patience {
        pub(super) fn back_off(_: &mut u32) {
            crate::rt::sync::spin();
        }

        pub(super) fn look_while(_: impl Fn() -> bool, _: impl Fn() -> bool) {}
    }
    pub(crate) mod slots;
    pub(crate) mod waiting;
}

#[path = "../../src/futex"]
mod futex {
    pub(crate) mod many;
    pub(crate) mod set;
    pub(crate) mod table;
    pub(crate) mod word;
    pub(crate) use set::{ChangedAt, Wait, WaitMultipleError, WaitSet, wait_multiple_until};
    pub(crate) use word::{Changed, WaitError, cmp_requeue, requeue, wait_until, wake};

    /// So that words share a bucket.
    static TABLE: table::Table<2> = table::Table::new();

    fn table() -> &'static table::Table<2> {
        &TABLE
    }

    mod shared {
        use super::many::{FutexEnd, Many};
        use super::set::Wait;

        pub(super) fn wait_for(_: &Many, _: &[Wait<'_>], _: u64) -> FutexEnd {
            unreachable!("no word is shared")
        }
    }
}

/// Explores a model of this many parties, in which no wait is revoked.
fn check(parties: usize, model: fn()) {
    explore(parties, model, false);
}

/// Explores a model in which a wait is revoked.
fn check_with_heavy(parties: usize, model: fn()) {
    explore(parties, model, true);
}

fn explore(parties: usize, model: fn(), has_heavy: bool) {
    // One after the other, as they have the same statics.
    static ONE: real::sync::Mutex<()> = real::sync::Mutex::new(());
    let _one = ONE.lock().unwrap();
    let mut builder = loom::model::Builder::new();
    // One more costs some thirty times as much.
    builder.preemption_bound = builder
        .preemption_bound
        .or(Some(if parties > 2 { 2 } else { 3 }));
    builder.max_branches = 10_000;
    rt::sync::set_heavy(has_heavy);
    end_at_the_first_failure();
    let begun = real::time::Instant::now();
    let count = real::sync::Arc::new(real::sync::atomic::AtomicU64::new(0));
    let counter = count.clone();
    builder.check(move || {
        counter.fetch_add(1, sync::atomic::Ordering::Relaxed);
        shim::pool::begin();
        shim::turns::begin();
        system::begin();
        model();
        LEAKED.with(|leaked| leaked.borrow_mut().clear());
    });
    eprintln!(
        "{} executions in {} ms",
        count.load(sync::atomic::Ordering::Relaxed),
        begun.elapsed().as_millis()
    );
}

/// An execution that has failed cannot be taken apart: its threads are in the midst of something.
fn end_at_the_first_failure() {
    use real::io::Write;
    static IS_SET: real::sync::Once = real::sync::Once::new();
    IS_SET.call_once(|| {
        real::panic::set_hook(Box::new(|panic| {
            // Past the test's own output, which would be lost.
            let _ = writeln!(
                real::io::stderr(),
                "\n{panic}\n{}",
                real::backtrace::Backtrace::capture()
            );
            real::process::exit(1);
        }));
    });
}

thread_local! {
    static LEAKED: real::cell::RefCell<Vec<Box<dyn real::any::Any>>> =
        const { real::cell::RefCell::new(Vec::new()) };
}

/// A value that lives to the end of the execution, when all other threads have ended.
fn leak<T: 'static>(value: T) -> &'static T {
    let value = Box::new(value);
    // SAFETY: the box stays in the list until no thread has the reference any more.
    let reference = unsafe { &*real::ptr::from_ref(&*value) };
    LEAKED.with(|leaked| leaked.borrow_mut().push(value));
    reference
}

/// Another party, which is a worker or a plain thread.
fn party<R: 'static>(
    is_worker: bool,
    f: impl FnOnce() -> R + 'static,
) -> (&'static rt::task::Task, loom::thread::JoinHandle<R>) {
    let task = rt::task::make(is_worker);
    let body = move || {
        rt::task::enter(task);
        f()
    };
    (task, loom::thread::spawn(body))
}

/// The first thread is a party, too.
fn be(is_worker: bool) {
    rt::task::enter(rt::task::make(is_worker));
}
