//! The ring: operations that the kernel carries out while their worker is parked.
//!
//! Any server submits and any reaps. So each end of the ring has a lock, held for a few words. The
//! system call that hands entries to the kernel is made without the lock. SINGLE_ISSUER,
//! DEFER_TASKRUN and COOP_TASKRUN are not used: completions must not wait until the submitter,
//! which may compute for long, enters the kernel.
//!
//! An operation lies in its caller's stack frame, and so does the data that it points to. So:
//!
//! - U1. `IoRing::run` neither returns nor unwinds before the completion is there, or the kernel
//!   cannot take the entry any more. When `park` unwinds (an abort), the operation is cancelled,
//!   and its end awaited without being cancelled again.
//! - U2. The reaper reads the handle before it publishes the result: with the result the frame may
//!   go.
//! - U3. A flush hands over the entries of other threads as well. When a thread ends, the kernel
//!   cancels the entries that it has handed over. Servers outlive their workers' operations; plain
//!   threads and helpers do not. So an operation that was cancelled, and not by its caller, is made
//!   again.
//!
//! | module | holds |
//! |---|---|
//! | `submission` | the queue of entries |
//! | `completion` | reaping |
//! | `refusal` | how entries are handed over, and what is done if the kernel refuses (U4 to U7) |

use crate::io::wait::{self, Reason};
use crate::rt::Handle;
use crate::rt::last::after_unwinding;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use submission::{QueuePosition, Submitted};
use umcg_core::context::lock::HoldLock;

mod completion;
mod refusal;
mod submission;

pub(super) use refusal::{AGAIN, is_passing};

const ENTRIES: u32 = 128;
/// Many operations may be under way at once; beyond this the kernel keeps their completions in a
/// list of its own.
const COMPLETIONS: u32 = 1024;
const PENDING: i64 = i64::MIN;
/// Result: the kernel has not taken the operation, and will not.
const UNTAKEN: i64 = i64::MIN + 1;
/// The user data of a cancellation: no party waits for its own completion.
const NOBODY: u64 = 0;
/// After how many nanoseconds the queue is flushed again, the first time and the last.
const RETRY: u64 = 1_000_000;
const RETRY_MOST: u64 = 20_000_000;

pub(crate) struct IoRing {
    ring: IoUring,
    submission: HoldLock<Submitted>,
    completion: HoldLock<()>,
    under_way: AtomicUsize,
    /// How many threads may be in the kernel to hand over entries, and GIVEN_UP (U5).
    flushes: AtomicU32,
    /// Since when the kernel says "later", in nanoseconds; 0 if it does not.
    refused_since: AtomicU64,
    /// If the ring is given up: when it is to be tried again (U6); [`wait::NEVER`] if it was
    /// refused for good.
    again_at: AtomicU64,
}

/// An operation under way.
struct UringOperation {
    handle: Handle,
    result: AtomicI64,
}

impl IoRing {
    pub(super) fn new() -> io::Result<IoRing> {
        let mut ring: IoUring = IoUring::builder()
            .dontfork()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::OpenAt::CODE,
            opcode::AsyncCancel::CODE,
        ];
        let params = ring.params();
        let complete = params.is_feature_nodrop()
            && params.is_feature_rw_cur_pos()
            && params.is_feature_cur_personality();
        if !complete || needed.iter().any(|&code| !probe.is_supported(code)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        let count = enter(&mut ring)?;
        Ok(IoRing {
            ring,
            submission: HoldLock::new(Submitted::new(count)),
            completion: HoldLock::new(()),
            under_way: AtomicUsize::new(0),
            flushes: AtomicU32::new(0),
            refused_since: AtomicU64::new(0),
            again_at: AtomicU64::new(0),
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns it, and is borrowed as long.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Whether an operation is under way.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Relaxed) != 0
    }

    /// Carries out an operation; parks the caller meanwhile. Returns the operation's result. If the
    /// caller unwinds, `discard` gets the result. None if the kernel does not take the operation,
    /// which has not begun then.
    ///
    /// # Safety
    /// The data that the entry points to stays as it is, and is not used otherwise, until this
    /// returns or unwinds.
    pub(crate) unsafe fn run(
        &self,
        reason: Reason,
        entry: squeue::Entry,
        discard: impl Fn(usize),
    ) -> Option<io::Result<usize>> {
        let operation = UringOperation {
            handle: Handle::current(),
            result: AtomicI64::new(PENDING),
        };
        let key = (&raw const operation).expose_provenance() as u64;
        self.under_way.fetch_add(1, Relaxed);
        let park = |pause: Option<u64>| match pause {
            None => wait::park(reason),
            Some(pause) => {
                wait::park_until(reason, wait::after(pause));
            }
        };
        let entry = entry.user_data(key);
        let result = after_unwinding(
            &mut None,
            |position| self.see_through(&entry, key, &operation, position, park),
            |position| self.cut_short(key, &operation, *position, reason, discard),
        );
        if result.is_none() {
            self.under_way.fetch_sub(1, Relaxed);
        }
        let result = result.filter(|&result| result != UNTAKEN)?;
        Some(usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32)))
    }

    /// The caller of an operation is about to unwind: waits for the operation's end first (U1).
    /// `position` is the operation's entry in the queue, if it is in there.
    #[cold]
    fn cut_short(
        &self,
        key: u64,
        operation: &UringOperation,
        position: Option<QueuePosition>,
        reason: Reason,
        discard: impl Fn(usize),
    ) {
        if position.is_none() {
            // It was never in the queue.
            self.under_way.fetch_sub(1, Relaxed);
            return;
        }
        let park = |pause: Option<u64>| {
            wait::park_shielded_until(reason, pause.map_or(wait::NEVER, wait::after))
        };
        let mut result = operation.result();
        if result.is_none() {
            let cancel = opcode::AsyncCancel::new(key).build().user_data(NOBODY);
            result = self.see_through(&cancel, NOBODY, operation, &mut None, park);
        }
        if result.is_none() {
            // The ring is given up. This needs no entering. If it fails, too, the operation ends by
            // itself.
            let cancel = types::CancelBuilder::user_data(key);
            let _ = self
                .ring
                .submitter()
                .register_sync_cancel(Some(types::Timespec::new()), cancel);
            self.take_all(Some(operation), &mut wait::wake);
        }
        let result = loop {
            match result.or_else(|| operation.result()) {
                Some(result) => break result,
                None => park(None),
            }
        };
        if let Ok(result) = usize::try_from(result) {
            discard(result);
        }
    }

    /// Hands over `entry`, and waits until `operation` has its result. `position` is filled in as
    /// soon as the entry is in the queue. `park` stops the caller, for a number of nanoseconds at
    /// most. None if the ring is given up before the entry was in the queue. If `key` is NOBODY,
    /// None also if the ring is given up later, after all entries that the kernel has not taken
    /// were given back.
    fn see_through(
        &self,
        entry: &squeue::Entry,
        key: u64,
        operation: &UringOperation,
        position: &mut Option<QueuePosition>,
        park: impl Fn(Option<u64>),
    ) -> Option<i64> {
        let mut pause = RETRY;
        if self.is_given_up() {
            // It may be time to try the ring again.
            self.flush(false);
        }
        loop {
            if position.is_none() {
                *position = self.push(entry, key);
            }
            self.flush(false);
            // Many operations are complete by now.
            self.take_all(Some(operation), &mut wait::wake);
            let seen = self.catch_up();
            if key == NOBODY && seen.is_given_back
                || key != NOBODY && !seen.is_open && position.is_none()
            {
                return operation.result();
            }
            if key == NOBODY && position.is_some_and(|position| position.epoch != seen.epoch) {
                *position = None; // it may have been given back meanwhile (U7)
                continue;
            }
            // If the ring is given up, all operations in the queue are told their outcome.
            let is_told = key != NOBODY && !seen.is_open;
            let is_settled =
                position.is_some_and(|position| is_told || position.number < seen.taken);
            loop {
                if let Some(result) = operation.result() {
                    return Some(result);
                }
                park((!is_settled).then_some(pause));
                if !is_settled {
                    break;
                }
            }
            pause = (pause * 2).min(RETRY_MOST);
        }
    }

    /// Gives an operation its result, and returns its caller's handle. This is the last access
    /// (U2).
    fn settle(&self, key: u64, result: i64) -> Handle {
        self.under_way.fetch_sub(1, Relaxed);
        // SAFETY: the key is that of an operation, which stays until it has its result (U1).
        let operation =
            unsafe { &*std::ptr::with_exposed_provenance::<UringOperation>(key as usize) };
        let handle = operation.handle;
        // ORDERING(result.1): Release, pairs with result.2: a thread that sees the result sees the
        // kernel's writes.
        operation.result.store(result, Release);
        handle
    }
}

/// Enters the kernel once, with an entry that does nothing: a filter of system calls may forbid
/// this call and allow the rest. Returns how many entries the kernel took.
fn enter(ring: &mut IoUring) -> io::Result<u64> {
    // SAFETY: it points to nothing.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
    while let Err(error) = ring.submit_and_wait(1) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    ring.completion().for_each(drop);
    Ok(1)
}

impl UringOperation {
    fn result(&self) -> Option<i64> {
        // ORDERING(result.2): Acquire, pairs with result.1.
        let result = self.result.load(Acquire);
        (result != PENDING).then_some(result)
    }
}

#[cfg(test)]
mod tests;
