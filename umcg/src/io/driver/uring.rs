//! The ring: operations that the kernel carries out while their worker is parked.
//!
//! Any server submits and any reaps, so each end of the ring has a lock, held for a few words; the system call that hands entries to the
//! kernel is made outside of it. SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN are not used: completions must not wait until
//! the submitter, which may compute for long, enters the kernel.
//!
//! An operation stands in its caller's stack frame, and so does what it points to. So:
//!
//! - U1. `Ring::run` does not return, nor unwind, before the completion is there. When `park` unwinds (an abort), the operation is cancelled, and
//!   its end awaited without being cancelled again.
//! - U2. Who reaps reads the handle before it publishes the result: with the result the frame may go.
//! - U3. Who flushes hands over what others have put into the queue as well, and when a thread ends the kernel cancels what it has handed over. Servers outlive
//!   their workers' operations, plain threads and helpers do not: so an operation that was cancelled, and not by its caller, is made again.

use crate::io::wait::{self, Reason};
use crate::rt::Handle;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::*};
use umcg_core::context::lock::HoldLock;

const ENTRIES: u32 = 128;
/// Many operations may be under way at once; beyond this the kernel keeps their completions in a list of its own.
const COMPLETIONS: u32 = 1024;
/// How many completions are taken under one lock.
const REAPED: usize = 32;
const PENDING: i64 = i64::MIN;
/// The user data of a cancellation, whose own completion interests nobody.
const NOBODY: u64 = 0;

pub(crate) struct Ring {
    ring: IoUring,
    submission: HoldLock<()>,
    completion: HoldLock<()>,
    under_way: AtomicUsize,
}

/// An operation under way.
struct Operation {
    handle: Handle,
    result: AtomicI64,
}

impl Ring {
    pub(super) fn new() -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder().dontfork().setup_cqsize(COMPLETIONS).build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::OpenAt::CODE, opcode::AsyncCancel::CODE];
        let params = ring.params();
        let complete = params.is_feature_nodrop() && params.is_feature_rw_cur_pos() && params.is_feature_cur_personality();
        if !complete || needed.iter().any(|&code| !probe.is_supported(code)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(Ring { ring, submission: HoldLock::new(()), completion: HoldLock::new(()), under_way: AtomicUsize::new(0) })
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

    /// Carries out an operation; parks the caller meanwhile. Gives the operation's result; `discard` gets it when the caller unwinds.
    ///
    /// # Errors
    /// The operation's.
    ///
    /// # Safety
    /// What the entry points to stays as it is, and is not used otherwise, until this returns or unwinds.
    pub(crate) unsafe fn run(&self, reason: Reason, entry: squeue::Entry, discard: impl Fn(usize)) -> io::Result<usize> {
        let operation = Operation { handle: Handle::current(), result: AtomicI64::new(PENDING) };
        let key = (&raw const operation).expose_provenance() as u64;
        self.under_way.fetch_add(1, Relaxed);
        let end = End { ring: self, operation: &operation, key, reason, discard };
        self.submit(&entry.user_data(key));
        // Much is complete by now.
        self.reap(Some(key), &mut Handle::unpark);
        let result = loop {
            match operation.result() {
                Some(result) => break result,
                None => wait::park(reason),
            }
        };
        std::mem::forget(end);
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
    }

    /// Hands an entry to the kernel, now or, when that refuses for the moment, with the next one or the next reaping.
    fn submit(&self, entry: &squeue::Entry) {
        loop {
            let lock = self.submission.lock();
            // SAFETY: the lock keeps others from this end of the ring.
            let mut queue = unsafe { self.ring.submission_shared() };
            // SAFETY: what it points to stays, as `run` demands.
            let pushed = unsafe { queue.push(entry) }.is_ok();
            drop(queue);
            drop(lock);
            self.flush();
            if pushed {
                return;
            }
            self.reap(None, &mut Handle::unpark);
        }
    }

    /// Hands the kernel what is in the queue.
    fn flush(&self) {
        while let Err(error) = self.ring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                return; // short of memory, or of room for completions
            }
        }
    }

    /// Takes completions. `wake` gets whom they belong to, but not the operation `own`, whose caller does this. It gets them after the lock, because
    /// nobody may be unparked under a hold.
    pub(super) fn reap(&self, own: Option<u64>, wake: &mut dyn FnMut(Handle)) {
        loop {
            let mut handles = [None; REAPED];
            let taken = self.reap_some(own, &mut handles);
            handles.into_iter().flatten().for_each(&mut *wake);
            if taken < REAPED {
                break;
            }
        }
        if self.is_behind() {
            self.flush();
        }
    }

    /// Takes as many completions as there is room for; how many.
    fn reap_some(&self, own: Option<u64>, handles: &mut [Option<Handle>; REAPED]) -> usize {
        let _lock = self.completion.lock();
        // SAFETY: the lock keeps others from this end of the ring.
        let mut queue = unsafe { self.ring.completion_shared() };
        for (taken, place) in handles.iter_mut().enumerate() {
            let Some(completion) = queue.next() else { return taken };
            let key = completion.user_data();
            if key == NOBODY {
                continue;
            }
            self.under_way.fetch_sub(1, Relaxed);
            // SAFETY: an operation's, which stays until it has its result (U1).
            let operation = unsafe { &*std::ptr::with_exposed_provenance::<Operation>(key as usize) };
            *place = Some(operation.handle).filter(|_| own != Some(key));
            // ORDERING(result.1): Release, pairs with result.2: what the kernel wrote is seen by who sees the result. The last access (U2).
            operation.result.store(completion.result().into(), Release);
        }
        REAPED
    }

    /// Whether the kernel holds completions back, or has not taken all entries.
    fn is_behind(&self) -> bool {
        let _lock = self.submission.lock();
        // SAFETY: the lock keeps others from this end of the ring.
        let queue = unsafe { self.ring.submission_shared() };
        queue.cq_overflow() || !queue.is_empty()
    }
}

impl Operation {
    fn result(&self) -> Option<i64> {
        // ORDERING(result.2): Acquire, pairs with result.1.
        let result = self.result.load(Acquire);
        (result != PENDING).then_some(result)
    }
}

/// Sees an operation to its end when its caller unwinds (U1).
struct End<'a, F: Fn(usize)> {
    ring: &'a Ring,
    operation: &'a Operation,
    key: u64,
    reason: Reason,
    discard: F,
}

impl<F: Fn(usize)> Drop for End<'_, F> {
    fn drop(&mut self) {
        if self.operation.result().is_none() {
            self.ring.submit(&opcode::AsyncCancel::new(self.key).build().user_data(NOBODY));
            self.ring.reap(Some(self.key), &mut Handle::unpark);
        }
        let result = loop {
            match self.operation.result() {
                Some(result) => break result,
                None => wait::park_shielded(self.reason),
            }
        };
        if let Ok(result) = usize::try_from(result) {
            (self.discard)(result);
        }
    }
}
