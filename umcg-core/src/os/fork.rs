//! Forks. All locks of the library are held around each fork, so that in the child no lock is held
//! by a thread that the child does not have.
//!
//! Each [`Part`] of the library that has such locks is entered here when it is first used. One pair
//! of `pthread_atfork` handlers goes through the parts in the order in which their locks nest: the
//! parts of higher layers first, and back in the reverse order.
//!
//! - F1: the list of parts changes under its lock, which is held around a fork too. So each part's
//!   `after` runs once for each time that its `before` has run, in the same thread.

use crate::base::granted::{Granted, granted};
use crate::base::link::Link;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering::*};
use umcg_context::lock::HoldLock;

/// A part of the library with locks or other state that a fork concerns. If a caller that holds
/// locks of part A may take locks of part B, then B is of a lower layer.
pub struct Part {
    layer: u8,
    /// Takes the locks.
    before: fn(),
    /// Gives them back. `in_child` says whether this is the child, which has only the calling
    /// thread.
    after: unsafe fn(in_child: bool),
    /// The next one in the list, of the same layer or a lower one.
    next: Link<Part>,
    /// Whether the part is in the list.
    is_entered: AtomicBool,
}

static FIRST: HoldLock<Link<Part>> = HoldLock::new(Link::none());

impl Part {
    /// A part of the crates above this one, `umcg` and the programs that use it.
    pub const ABOVE: u8 = 3;
    pub(crate) const UMCG: u8 = 2;
    pub(crate) const UTH: u8 = 1;
    pub(crate) const IDENTITY: u8 = 0;

    /// A part that is not entered yet. `after` may rely on this: `before` has run in this thread,
    /// or in the one that this thread is a copy of, and `after` runs once for each time.
    pub const fn new(layer: u8, before: fn(), after: unsafe fn(in_child: bool)) -> Part {
        Part {
            layer,
            before,
            after,
            next: Link::none(),
            is_entered: AtomicBool::new(false),
        }
    }

    /// Enters the part: from here on forks call it.
    ///
    /// # Errors
    /// No memory for the handlers. The next call tries again.
    #[inline]
    pub fn enter(&'static self) -> Result<(), Errno> {
        // ORDERING(fork.1): Acquire, pairs with fork.2. The handlers are installed.
        if self.is_entered.load(Acquire) {
            return Ok(());
        }
        self.enter_slow()
    }

    #[cold]
    fn enter_slow(&'static self) -> Result<(), Errno> {
        static INSTALLED: Granted<()> = Granted::new();
        let handlers = || {
            // SAFETY: the handlers are functions of ours that may run in any thread.
            let result =
                unsafe { libc::pthread_atfork(Some(before_fork), Some(parent), Some(child)) };
            granted(result)
        };
        let install = || {
            if IS_INTERCEPTED.load(Relaxed) {
                Ok(())
            } else {
                handlers()
            }
        };
        INSTALLED
            .get_or_ask(install)
            .map_err(Errno::from_raw_os_error)?;
        let first = FIRST.lock();
        if self.is_entered.load(Relaxed) {
            return Ok(());
        }
        let mut link = &*first;
        while let Some(part) = link.get().filter(|part| part.layer > self.layer) {
            link = &part.next;
        }
        self.next.set(link.get());
        link.set(Some(self));
        // ORDERING(fork.2): Release, pairs with fork.1.
        self.is_entered.store(true, Release);
        Ok(())
    }
}

/// The process's forks are intercepted: [`prepare`] and [`after`] are called around each, and not
/// by the C library. Called before the first part is entered.
pub fn by_interception() {
    IS_INTERCEPTED.store(true, Relaxed);
}

static IS_INTERCEPTED: AtomicBool = AtomicBool::new(false);

/// Called before a fork, by the thread that makes it.
pub fn prepare() {
    FIRST.take();
    // SAFETY: just taken; this is another view of it, and is forgotten.
    let first = unsafe { FIRST.adopt() };
    let mut next = first.get();
    std::mem::forget(first);
    while let Some(part) = next {
        (part.before)();
        next = part.next.get();
    }
}

/// Called after a fork, on both sides.
///
/// # Safety
/// [`prepare`] ran in this thread, or in the one that this thread is a copy of, once.
pub unsafe fn after(in_child: bool) {
    // SAFETY: passed on.
    unsafe { go_back(in_child) };
}

unsafe extern "C" fn before_fork() {
    prepare();
}

unsafe extern "C" fn parent() {
    // SAFETY: `prepare` ran in this thread.
    unsafe { go_back(false) };
}

unsafe extern "C" fn child() {
    // SAFETY: `prepare` ran in the thread that this one is a copy of.
    unsafe { go_back(true) };
}

/// # Safety
/// `prepare` ran in this thread, or the one that it is a copy of, once.
unsafe fn go_back(in_child: bool) {
    // SAFETY: `prepare` took it.
    let first = unsafe { FIRST.adopt() };
    // SAFETY: F1.
    unsafe { each_after(first.get(), in_child) };
}

/// Calls `after` of each part, the last one first.
///
/// # Safety
/// `before` of each of them ran.
unsafe fn each_after(part: Option<&'static Part>, in_child: bool) {
    let Some(part) = part else { return };
    // SAFETY: passed on.
    unsafe { each_after(part.next.get(), in_child) };
    // SAFETY: passed on.
    unsafe { (part.after)(in_child) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<i32>> = Mutex::new(Vec::new());

    #[test]
    #[cfg_attr(umcg_tsan, ignore = "ThreadSanitizer allows no threads after a fork")]
    fn higher_layers_come_first_and_are_the_last_to_go() {
        static HIGH: Part = Part::new(
            200,
            || SEEN.lock().unwrap().push(2),
            |in_child| SEEN.lock().unwrap().push(if in_child { 12 } else { -2 }),
        );
        static LOW: Part = Part::new(
            100,
            || SEEN.lock().unwrap().push(1),
            |in_child| SEEN.lock().unwrap().push(if in_child { 11 } else { -1 }),
        );
        for part in [&LOW, &HIGH, &LOW, &HIGH] {
            part.enter().unwrap();
        }
        // SAFETY: the child makes system calls, and reads memory of its own.
        let process = unsafe { libc::fork() };
        if process == 0 {
            let is_right = SEEN.lock().is_ok_and(|seen| *seen == [2, 1, 11, 12]);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(process, &mut status, 0) };
        assert_eq!(status, 0);
        assert_eq!(*SEEN.lock().unwrap(), [2, 1, -1, -2]);
    }
}
