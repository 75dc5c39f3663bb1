//! The kernel, as the checker has it: sleeping on a word, and the time.

use crate::shim::atomic::{AtomicU32, AtomicU64};
use real::cell::{Cell, RefCell};
use real::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

static NOW: AtomicU64 = AtomicU64::new(0);

pub(crate) fn now() -> u64 {
    NOW.newest()
}

/// The time is this from now on. Threads that sleep until then are not woken here: the caller sees
/// to that.
pub(crate) fn advance(to: u64) {
    NOW.swap(to, Relaxed);
}

struct Sleeper {
    address: usize,
    is_woken: Cell<bool>,
}

thread_local! {
    static SLEEPERS: RefCell<Vec<Rc<Sleeper>>> = const { RefCell::new(Vec::new()) };
}

/// At the beginning of an execution.
pub(crate) fn begin() {
    SLEEPERS.with(|sleepers| sleepers.borrow_mut().clear());
}

/// The lock of the kernel's table, as far as the order goes in which its users come: the memory of
/// these is not ordered by it.
static TABLE: AtomicU32 = AtomicU32::new(0);

/// For `rustix::io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(u8);

impl Errno {
    /// The word has another value.
    pub const AGAIN: Errno = Errno(0);
    /// The time has passed.
    pub const TIMEDOUT: Errno = Errno(1);
    /// A signal handler ran.
    pub const INTR: Errno = Errno(2);
}

/// A time of the model's clock.
#[derive(Clone, Copy)]
pub struct Timespec(pub u64);

/// Sleeping on a word.
pub mod futex {
    use super::*;
    use std::num::NonZeroU32;

    /// There is one.
    pub struct Flags;

    impl Flags {
        /// Within the process.
        pub const PRIVATE: Flags = Flags;
    }

    /// As rustix's. It stands in the table first and compares then, as the kernel does: so a thread
    /// that changes the word and looks into the table afterwards finds it, or was seen. The kernel
    /// has barriers for that, on both sides. A wake-up is no order for memory: a thread that relies
    /// on one has an order of its own.
    #[allow(clippy::missing_errors_doc, reason = "as rustix's")]
    pub fn wait_bitset(
        word: &AtomicU32,
        _: Flags,
        expected: u32,
        until: Option<&Timespec>,
        _: NonZeroU32,
    ) -> Result<(), Errno> {
        let sleeper = Rc::new(Sleeper {
            address: std::ptr::from_ref(word).addr(),
            is_woken: Cell::new(false),
        });
        TABLE.fetch_add(1, Relaxed);
        SLEEPERS.with(|sleepers| sleepers.borrow_mut().push(sleeper.clone()));
        if word.newest() != expected {
            SLEEPERS.with(|sleepers| {
                sleepers
                    .borrow_mut()
                    .retain(|other| !Rc::ptr_eq(other, &sleeper))
            });
            return Err(Errno::AGAIN);
        }
        while !sleeper.is_woken.get() {
            if until.is_some_and(|until| now() >= until.0) {
                TABLE.fetch_add(1, Relaxed);
                SLEEPERS.with(|sleepers| {
                    sleepers
                        .borrow_mut()
                        .retain(|other| !Rc::ptr_eq(other, &sleeper))
                });
                return if sleeper.is_woken.get() {
                    Ok(())
                } else {
                    Err(Errno::TIMEDOUT)
                };
            }
            crate::shim::turns::pass();
        }
        Ok(())
    }

    /// As rustix's.
    #[allow(clippy::missing_errors_doc, reason = "as rustix's")]
    pub fn wake(word: &AtomicU32, _: Flags, count: u32) -> Result<usize, Errno> {
        TABLE.fetch_add(1, Relaxed);
        let address = std::ptr::from_ref(word).addr();
        SLEEPERS.with(|sleepers| {
            let mut sleepers = sleepers.borrow_mut();
            let mut left = count;
            sleepers.retain(|sleeper| {
                let is_one = sleeper.address == address && left > 0;
                left -= u32::from(is_one);
                sleeper.is_woken.set(sleeper.is_woken.get() || is_one);
                !is_one
            });
            Ok((count - left) as usize)
        })
    }
}
