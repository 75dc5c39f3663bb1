//! What the parts that two checkers share say of theirs, as loom has it.

pub(crate) mod cancel;
pub(crate) mod deadline;
pub(crate) mod kernel;
pub(crate) mod shim;
pub(crate) mod sync;

pub(crate) use deadline::pass;
pub(crate) use loom::{thread, thread_local};
/// A cell that the checker does not see.
pub(crate) use real::cell::Cell as Plain;
pub(crate) use shim::atomic::AtomicPtr;
use shim::atomic::Ordering::Relaxed;
pub(crate) use shim::pool::access_memory;

/// How often a thread looks before it sleeps, at first.
pub(crate) const PATIENCE: u32 = 0;

/// A static of each execution's own: all are.
macro_rules! shared {
    ($(#[$attribute:meta])* static $name:ident: $of:ty = $value:expr;) => {
        $(#[$attribute])* static $name: $of = $value;
    };
}
pub(crate) use shared;

/// Nothing: a cell that two touch at once is found anyway.
pub(crate) fn pause() {}

/// What was stored last, without an order for anything else.
pub(crate) fn newest(word: &sync::AtomicU32) -> u32 {
    word.newest()
}

/// For `std::sync`.
pub(crate) mod std_sync {
    pub(crate) use real::sync::Arc;

    /// For `std::sync::atomic`.
    pub(crate) mod atomic {
        pub(crate) use crate::checker::shim::atomic::*;
    }
}

/// Explores a scenario of so many parties, in which no wait is revoked.
pub(crate) fn check(parties: usize, scenario: fn()) {
    explore(parties, scenario, false);
}

/// Explores one in which a wait is.
pub(crate) fn check_with_heavy(parties: usize, scenario: fn()) {
    explore(parties, scenario, true);
}

/// Nothing: it is too large for a checker that goes through all interleavings.
pub(crate) fn check_large(_scenario: fn()) {}

fn explore(parties: usize, scenario: fn(), has_heavy: bool) {
    // One after the other, as they have the same statics.
    static ONE: real::sync::Mutex<()> = real::sync::Mutex::new(());
    let _one = ONE.lock().unwrap();
    let mut builder = loom::model::Builder::new();
    // One more costs some thirty times as much.
    builder.preemption_bound = builder
        .preemption_bound
        .or(Some(if parties > 2 { 2 } else { 3 }));
    builder.max_branches = 10_000;
    sync::set_heavy(has_heavy);
    end_at_the_first_failure();
    let begun = real::time::Instant::now();
    let count = real::sync::Arc::new(real::sync::atomic::AtomicU64::new(0));
    let counter = count.clone();
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        shim::pool::begin();
        shim::turns::begin();
        kernel::begin();
        scenario();
        LEAKED.with(|leaked| leaked.borrow_mut().clear());
    });
    eprintln!(
        "{} executions in {} ms",
        count.load(Relaxed),
        begun.elapsed().as_millis()
    );
}

/// What is left of an execution that has failed cannot be taken apart: its threads are in the midst
/// of something.
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

real::thread_local! {
    static LEAKED: real::cell::RefCell<Vec<Box<dyn real::any::Any>>> =
        const { real::cell::RefCell::new(Vec::new()) };
}

/// A value that lives to the end of the execution, when all other threads have ended.
pub(crate) fn leak<T: 'static>(value: T) -> &'static T {
    let value = Box::new(value);
    // SAFETY: the box stays in the list until nobody has the reference any more.
    let reference = unsafe { &*real::ptr::from_ref(&*value) };
    LEAKED.with(|leaked| leaked.borrow_mut().push(value));
    reference
}
