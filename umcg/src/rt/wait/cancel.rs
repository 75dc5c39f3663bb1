//! Cancellation: a worker is asked to end, and ends by unwinding from the next place where it
//! waits.
//!
//! What is asked is a depth: 1 for the whole worker
//! ([`JoinHandle::abort`](crate::rt::JoinHandle::abort)), `n + 1` for the `n`-th cancel scope that
//! it is in ([`timeout`](crate::rt::timeout)). The word `cancel` keeps the lowest, 0 for none. A
//! wait looks at it before and after; who asks writes it and then interrupts the wait. The payload
//! of the unwinding carries the depth; whoever opened that scope catches it, and everybody between
//! sees an ordinary unwinding: destructors run. It is not a panic: no message, no hook.
//!
//! - Who unwinds already is left alone, and so is a section that shields itself: what must not be
//!   cut, like waiting for the workers of a scope.
//! - Interrupting ([`interrupt`](super::interrupt)): a parked worker is unparked; one that waits in
//!   a `join` is claimed from there; one that waits in queues, as `wait` says. Who is about to wait
//!   says where, and then looks at `cancel`; who asks writes `cancel`, and then looks where: with
//!   `light` and `heavy` between, so that the one who waits pays nothing.

use crate::rt::task::{Handle, Task};
use std::sync::atomic::Ordering::*;
use umcg_core::asymmetric;

/// The payload of a worker that unwinds because it was asked to.
pub(crate) struct Unwinding(pub(crate) u32);

/// In `depth`: one shield.
pub(crate) const SHIELD: u32 = 1 << 16;
/// The most cancel scopes within each other.
pub(crate) const DEEPEST: u32 = 60;

#[inline(always)]
pub(crate) fn is_asked(task: &Task) -> bool {
    task.cancel.load(Relaxed) != 0
}

/// A point of cancellation of the calling worker or thread, whose task this is.
#[inline(always)]
pub(crate) fn check(task: &Task) {
    if is_asked(task) {
        unwind(task);
    }
}

/// Unwinds unless the caller shields itself or unwinds already.
#[cold]
pub(crate) fn unwind(task: &Task) {
    let depth = task.cancel.load(Relaxed);
    if may_be_cut(task) && depth != 0 {
        std::panic::resume_unwind(Box::new(Unwinding(depth)));
    }
}

/// Whether the caller, whose task this is, neither shields itself nor unwinds already.
#[inline]
pub(crate) fn may_be_cut(task: &Task) -> bool {
    task.depth.load(Relaxed) < SHIELD && !std::thread::panicking()
}

/// A point of cancellation: unwinds the calling worker if it was asked to end. For long
/// computations, which wait nowhere.
pub fn checkpoint() {
    check(Handle::current().task());
}

/// Calls `f`, whose waits are not cut short when the caller is asked to end, or a
/// [`timeout`](crate::rt::timeout()) is over: it unwinds from the first wait afterwards. For what
/// an unwinding would leave in a state that cannot be mended: a `LazyLock` or `Once` whose function
/// waits, which that would poison for the whole process; or a guard of a `std::sync::Mutex` that is
/// held over a wait.
///
/// That holds for a [`timeout`](crate::rt::timeout()) within `f`, too: what it limits is done
/// however long that takes, and its result is `Ok`. Operations with deadlines of their own
/// (`park_timeout`, `recv_timeout`, timeouts of sockets) end in time as ever.
///
/// ```
/// use std::sync::LazyLock;
/// use std::time::Duration;
///
/// static CONFIG: LazyLock<String> = LazyLock::new(|| {
///     umcg::shielded(|| {
///         umcg::sleep(Duration::from_millis(20)); // as reading it takes
///         "read".to_owned()
///     })
/// });
///
/// // The work is done: the time has passed, but nothing in it waits any more.
/// assert_eq!(umcg::timeout(Duration::from_millis(1), || CONFIG.len()), Ok(4));
/// assert_eq!(*CONFIG, "read");
/// ```
pub fn shielded<R>(f: impl FnOnce() -> R) -> R {
    let _shield = Shield::new(Handle::current().task());
    f()
}

/// The first half of [`ask`](super::interrupt::ask). Who does it keeps the scope from being closed
/// meanwhile; the second half may come later, as it is no more than a wake-up.
pub(crate) fn mark(task: &Task, depth: u32) {
    let lower = |now: u32| (now == 0 || depth < now).then_some(depth);
    let _ = task.cancel.fetch_update(Relaxed, Relaxed, lower);
}

/// Whether `task`, which has just said where it waits, was asked before that.
pub(crate) fn was_asked(task: &Task) -> bool {
    asymmetric::light();
    is_asked(task) && task.depth.load(Relaxed) < SHIELD
}

/// Opens a scope of the calling task; returns its depth. None when there are too many.
pub(crate) fn open(task: &Task) -> Option<u32> {
    let depth = task.depth.load(Relaxed);
    if depth & (SHIELD - 1) >= DEEPEST {
        return None;
    }
    task.depth.store(depth + 1, Relaxed);
    Some((depth & (SHIELD - 1)) + 2)
}

/// Closes it. What was asked of it alone is forgotten.
pub(crate) fn close(task: &Task, scope: u32) {
    task.depth.store(task.depth.load(Relaxed) - 1, Relaxed);
    let _ = task.cancel.compare_exchange(scope, 0, Relaxed, Relaxed);
}

/// Keeps cancellation off the calling task as long as it lives.
pub(crate) struct Shield(&'static Task);

impl Shield {
    pub(crate) fn new(task: &'static Task) -> Shield {
        task.depth.store(task.depth.load(Relaxed) + SHIELD, Relaxed);
        Shield(task)
    }
}

/// Keeps cancellation off a worker that is over, or does not begin.
#[inline(always)]
pub(crate) fn shield_for_good(task: &Task) {
    task.depth.store(SHIELD, Relaxed);
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.0
            .depth
            .store(self.0.depth.load(Relaxed) - SHIELD, Relaxed);
    }
}
