//! How entries are handed to the kernel, and what is done if it refuses to take them
//! (`io_uring_enter`):
//!
//! - U4. For a moment (EAGAIN, EBUSY, ENOMEM): each caller whose entry is still in the queue comes
//!   back by a deadline of its own and flushes again. No other thread has to see to it, so an idle
//!   driver may sleep.
//! - U5. For good (any other error, as by a filter of system calls), or "for a moment" for as long
//!   as `PATIENCE`: the ring is *given up*. Its entries cannot be taken out of the queue. So from
//!   then on no thread may enter the kernel with it: the kernel would carry out entries that point
//!   into frames that are gone. `flushes` ensures that. It counts the threads that may be in the
//!   kernel with this ring, and has the bit `GIVEN_UP`, which all threads that come later see. The
//!   thread that brings the count to zero after that gives the operations that the kernel has not
//!   taken back to their callers, which carry them out another way. Operations that the kernel has
//!   taken are completed as usual: their completions need no entering.
//! - U6. A ring that was given up for a shortage is tried again, by an operation that comes `AGAIN`
//!   later. First the entries in the queue, which have no owner by then, are made harmless: so a
//!   thread that enters the kernel from then on hands over nothing else. If the kernel takes these,
//!   the ring is as before.
//! - U7. No caller is told of a cancellation that was given back, and one that is overwritten looks
//!   as if the kernel had taken it. So each entry records how often entries had been given back
//!   when it came (`QueuePosition::epoch`), and a cancellation from before the last time is handed
//!   over again. The kernel may then have two of them; the second finds nothing. If the ring is
//!   given up, the operation is cancelled in another way, but not before entries are given back:
//!   until then a thread in the kernel may still hand the operation over.

use super::submission::QueueSnapshot;
use super::{ENTRIES, IoRing, NOBODY, RETRY, UNTAKEN};
use crate::io::driver::harmless;
use crate::io::wait;
use io_uring::opcode;
use std::io;
use std::sync::atomic::Ordering::*;
use umcg_core::context::way::nap;

/// Bit of `flushes`, above the count.
pub(super) const GIVEN_UP: u32 = 1 << 31;
/// How many nanoseconds the kernel may say "later" and nothing else before the ring is given up.
const PATIENCE: u64 = 2_000_000_000;
/// After how many nanoseconds a ring that was refused for a shortage is tried again.
pub(crate) const AGAIN: u64 = 5_000_000_000;

impl IoRing {
    /// Whether the kernel takes no operations any more (U5).
    #[inline]
    pub(in super::super) fn is_given_up(&self) -> bool {
        self.flushes.load(Relaxed) & GIVEN_UP != 0
    }

    /// Hands the kernel the entries in the queue. False if the kernel refuses. `soon`: a ring that
    /// was given up is tried again before its time.
    pub(super) fn flush(&self, soon: bool) -> bool {
        // ORDERING(given_up.1): AcqRel, pairs with given_up.2: a thread that is counted after the
        // bit was set sees the bit, and stays out of the kernel.
        let is_given_up = self.flushes.fetch_add(1, AcqRel) & GIVEN_UP != 0;
        let mut is_open = !is_given_up || self.may_try_again(soon);
        while is_open {
            match self.ring.submit() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.note_refusal(&error);
                    is_open = false;
                }
            }
        }
        if is_open && (is_given_up || self.refused_since.load(Relaxed) != 0) {
            self.note_end_of_refusals();
        }
        // ORDERING(given_up.2): AcqRel, pairs with given_up.1: entries that the kernel took from
        // threads that have left are seen to be taken.
        if self.flushes.fetch_sub(1, AcqRel) == GIVEN_UP | 1 {
            self.give_back();
        }
        is_open
    }

    /// The kernel refuses to take entries: try later, or not at all (U4, U5). The caller is counted
    /// in `flushes`.
    #[cold]
    fn note_refusal(&self, error: &io::Error) {
        let mut again_at = wait::NEVER;
        if is_passing(error) {
            let now = wait::after(0).max(1);
            let since = self
                .refused_since
                .compare_exchange(0, now, Relaxed, Relaxed)
                .unwrap_or_else(|since| since);
            if since == 0 || now.saturating_sub(since) < PATIENCE {
                return;
            }
            again_at = now + AGAIN;
        }
        // The time only grows: a passing refusal does not replace one for good.
        self.again_at.fetch_max(again_at, Relaxed);
        // ORDERING(given_up.1)
        self.flushes.fetch_or(GIVEN_UP, AcqRel);
    }

    /// The kernel takes entries again. The caller is counted in `flushes`.
    #[cold]
    fn note_end_of_refusals(&self) {
        self.refused_since.store(0, Relaxed);
        let mut submitted = self.submission.lock();
        // Otherwise the ring was not given up, or another thread has just given it up: that
        // thread's refusal counts.
        if submitted.is_given_back {
            submitted.is_given_back = false;
            // ORDERING(given_up.1)
            self.flushes.fetch_and(!GIVEN_UP, AcqRel);
        }
    }

    /// Whether the kernel may be entered with a ring that was given up (U6). The caller is counted
    /// in `flushes`.
    #[cold]
    fn may_try_again(&self, soon: bool) -> bool {
        let (now, at) = (wait::after(0), self.again_at.load(Relaxed));
        let is_time = at != wait::NEVER && (soon || now >= at);
        is_time
            // Only one of the operations that come tries; the next try is once more time has
            // passed.
            && self.again_at.compare_exchange(at, now + AGAIN, Relaxed, Relaxed).is_ok()
            && self.make_harmless()
    }

    /// Makes the entries in the queue harmless. True if the queue holds only harmless entries, and
    /// at least one. The ring is given up.
    fn make_harmless(&self) -> bool {
        let mut submitted = self.submission.lock();
        if !submitted.is_given_back {
            return false; // a thread is still in the kernel
        }
        // SAFETY: the lock keeps other threads from this end of the ring.
        let mut queue = unsafe { self.ring.submission_shared() };
        let numbers = submitted.count - queue.len() as u64..submitted.count;
        if numbers.is_empty() {
            // SAFETY: it points to nothing.
            let is_pushed =
                unsafe { queue.push(&opcode::Nop::new().build().user_data(NOBODY)) }.is_ok();
            let at = (submitted.count % u64::from(ENTRIES)) as usize;
            submitted.keys[at] = NOBODY;
            submitted.count += u64::from(is_pushed);
            return is_pushed;
        }
        // SAFETY: the ring has this many entries. Since they were given back, threads have entered
        // the kernel only with harmless entries, which may be written again as they are. Here the
        // lock keeps other threads from them.
        unsafe { harmless::make(self.as_fd(), ENTRIES, numbers, NOBODY) }.is_ok()
    }

    /// If the ring is given up and no thread is in the kernel with it any more: tells the
    /// operations in the queue that the kernel will not take them.
    #[cold]
    pub(super) fn give_back(&self) {
        let mut handles = [None; ENTRIES as usize];
        {
            let mut submitted = self.submission.lock();
            // They were told before; or the ring was tried again meanwhile (U6), and given up once
            // more: then the last thread that leaves the kernel does this.
            // ORDERING(given_up.2)
            if submitted.is_given_back || self.flushes.load(Acquire) != GIVEN_UP {
                return;
            }
            submitted.is_given_back = true;
            submitted.epoch += 1;
            // SAFETY: the lock keeps other threads from this end of the ring.
            let waiting = unsafe { self.ring.submission_shared() }.len() as u64;
            for number in submitted.count - waiting..submitted.count {
                let at = (number % u64::from(ENTRIES)) as usize;
                // Once only: the entries themselves stay in the queue.
                let key = std::mem::replace(&mut submitted.keys[at], NOBODY);
                handles[at] = (key != NOBODY).then(|| self.settle(key, UNTAKEN));
            }
        }
        handles.into_iter().flatten().for_each(wait::wake);
    }

    /// Enters the kernel again if it keeps completions back, or has not taken all entries. Returns
    /// the state of the queue afterwards.
    pub(super) fn catch_up(&self) -> QueueSnapshot {
        let seen = self.look();
        if seen.is_open && seen.taken == seen.count && !seen.keeps_back {
            return seen;
        }
        if !self.flush(seen.keeps_back) && seen.keeps_back {
            // The poller is told of them until they are there: wait, to try less often.
            nap(RETRY as u32);
        }
        let seen = self.look();
        if !seen.is_open && seen.keeps_back && self.again_at.load(Relaxed) == wait::NEVER {
            // Ends the process: their operations would never end.
            umcg_core::fatal(format_args!(
                "io_uring_enter(2), which was granted at the start, is refused now, and \
                 completions lie behind it"
            ));
        }
        seen
    }
}

/// Whether an error means only a shortage.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::EMFILE | libc::ENFILE)
    )
}
