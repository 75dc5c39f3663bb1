//! Cancellation: a worker is asked to end, and ends by unwinding from the next place where it
//! waits.
//!
//! A request is a depth: 1 for the whole worker
//! ([`JoinHandle::abort`](crate::rt::JoinHandle::abort)), `n + 1` for the `n`-th cancel scope that
//! it is in ([`timeout`](crate::rt::timeout)). The word `cancel` keeps the lowest depth, 0 for no
//! request. A wait reads the word before and after. The canceller writes it, and then interrupts
//! the wait. The payload of the unwinding carries the depth. The function that opened that scope
//! catches it. Every frame between sees an ordinary unwinding: destructors run. It is not a panic:
//! no message, no hook.
//!
//! - A worker that is already unwinding is left alone. So is a shielded section: one that must not
//!   be cut short, like waiting for the workers of a scope.
//! - Interrupting ([`interrupt`](super::interrupt)): a parked worker is unparked. A worker that
//!   waits in a `join` is taken out of the join word. A worker that waits in queues is treated as
//!   `wait` says. A worker that is about to wait publishes where, and then reads `cancel`. A
//!   canceller writes `cancel`, and then reads where. `light` and `heavy` stand between, so the
//!   waiter pays nothing.

use crate::rt::task::{Handle, Task};
use std::sync::atomic::Ordering::*;
use umcg_core::asymmetric;

/// The payload of a worker that unwinds because it was asked to.
pub(crate) struct Unwinding(pub(crate) u32);

/// In `depth`: one shield.
pub(crate) const SHIELD: u32 = 1 << 16;
/// The greatest depth of nested cancel scopes.
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

/// Whether the caller may be cancelled: it neither shields itself nor unwinds already. `task` is
/// the caller's.
#[inline]
pub(crate) fn may_be_cut(task: &Task) -> bool {
    task.depth.load(Relaxed) < SHIELD && !std::thread::panicking()
}

/// A point of cancellation: unwinds the calling worker if it was asked to end. Call it in long
/// computations that wait nowhere.
pub fn checkpoint() {
    check(Handle::current().task());
}

/// Calls `f`. While it runs, waits are not cut short when the caller is asked to end or a
/// [`timeout`](crate::rt::timeout()) passes. The caller unwinds from its first wait afterwards. Use
/// it where an unwinding would leave a state that cannot be mended. One case is a `LazyLock` or
/// `Once` whose function waits: unwinding would poison it for the whole process. Another is a guard
/// of a `std::sync::Mutex` that is held over a wait.
///
/// The same holds for a [`timeout`](crate::rt::timeout()) within `f`: the call that it limits runs
/// to its end however long that takes, and the result is `Ok`. Operations with deadlines of their
/// own (`park_timeout`, `recv_timeout`, timeouts of sockets) still end in time.
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

/// The first half of [`ask`](super::interrupt::ask). The caller keeps the scope from being closed
/// meanwhile. The second half may come later: it is only a wake-up.
pub(crate) fn mark(task: &Task, depth: u32) {
    let lower = |now: u32| (now == 0 || depth < now).then_some(depth);
    let _ = task.cancel.fetch_update(Relaxed, Relaxed, lower);
}

/// Whether `task` was asked to end before it published where it waits. Call it after publishing.
pub(crate) fn was_asked(task: &Task) -> bool {
    asymmetric::light();
    is_asked(task) && task.depth.load(Relaxed) < SHIELD
}

/// Opens a scope of the calling task and returns its depth. None when there are too many.
pub(crate) fn open(task: &Task) -> Option<u32> {
    let depth = task.depth.load(Relaxed);
    if depth & (SHIELD - 1) >= DEEPEST {
        return None;
    }
    task.depth.store(depth + 1, Relaxed);
    Some((depth & (SHIELD - 1)) + 2)
}

/// Closes the scope. A request for this scope alone is forgotten.
pub(crate) fn close(task: &Task, scope: u32) {
    task.depth.store(task.depth.load(Relaxed) - 1, Relaxed);
    let _ = task.cancel.compare_exchange(scope, 0, Relaxed, Relaxed);
}

/// Keeps cancellation off the calling task until it is dropped.
pub(crate) struct Shield(&'static Task);

impl Shield {
    pub(crate) fn new(task: &'static Task) -> Shield {
        task.depth.store(task.depth.load(Relaxed) + SHIELD, Relaxed);
        Shield(task)
    }
}

/// Keeps cancellation off a worker that has ended, or that never begins.
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
