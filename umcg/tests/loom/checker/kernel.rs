//! The kernel, as the checker has it: sleeping on a word, and the time.

use super::shim::atomic::{AtomicU32, AtomicU64};
use crate::system::io::Errno;
use real::cell::{Cell, RefCell};
use real::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

static NOW: AtomicU64 = AtomicU64::new(0);

pub(crate) fn now() -> u64 {
    NOW.newest()
}

/// The time is this from now on. It wakes none that sleeps until then: see [`pass`](super::pass).
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

/// The caller stands in the table first and compares then, as the kernel does: so a thread that
/// changes the word and looks into the table afterwards finds it there, or was seen. The kernel has
/// barriers for that, on both sides. A wake-up is no order for memory: whatever relies on it has
/// one of its own.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    let sleeper = Rc::new(Sleeper {
        address: real::ptr::from_ref(word).addr(),
        is_woken: Cell::new(false),
    });
    let leave = || {
        SLEEPERS.with(|sleepers| {
            sleepers
                .borrow_mut()
                .retain(|other| !Rc::ptr_eq(other, &sleeper))
        });
    };
    TABLE.fetch_add(1, Relaxed);
    SLEEPERS.with(|sleepers| sleepers.borrow_mut().push(sleeper.clone()));
    if word.newest() != expected {
        leave();
        return Err(Errno::AGAIN);
    }
    while !sleeper.is_woken.get() {
        if deadline != u64::MAX && now() >= deadline {
            TABLE.fetch_add(1, Relaxed);
            leave();
            return if sleeper.is_woken.get() {
                Ok(())
            } else {
                Err(Errno::TIMEDOUT)
            };
        }
        super::shim::turns::pass();
    }
    Ok(())
}

pub(crate) fn wake(word: &AtomicU32, count: u32) {
    TABLE.fetch_add(1, Relaxed);
    let address = real::ptr::from_ref(word).addr();
    SLEEPERS.with(|sleepers| {
        let mut left = count;
        sleepers.borrow_mut().retain(|sleeper| {
            let is_one = sleeper.address == address && left > 0;
            left -= u32::from(is_one);
            sleeper.is_woken.set(sleeper.is_woken.get() || is_one);
            !is_one
        });
    });
}
