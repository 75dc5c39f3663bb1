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
//! The kernel may refuse to take entries (`io_uring_enter`):
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

use super::harmless;
use crate::io::wait::{self, Reason};
use crate::rt::Handle;
use crate::rt::last::after_unwinding;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use umcg_core::context::lock::HoldLock;
use umcg_core::context::way::nap;

const ENTRIES: u32 = 128;
/// Many operations may be under way at once; beyond this the kernel keeps their completions in a
/// list of its own.
const COMPLETIONS: u32 = 1024;
/// How many completions are taken in one hold of the lock.
const REAPED: usize = 32;
const PENDING: i64 = i64::MIN;
/// Result: the kernel has not taken the operation, and will not.
const UNTAKEN: i64 = i64::MIN + 1;
/// The user data of a cancellation: no party waits for its own completion.
const NOBODY: u64 = 0;
/// Bit of `flushes`, above the count.
const GIVEN_UP: u32 = 1 << 31;
/// How many nanoseconds the kernel may say "later" and nothing else before the ring is given up.
const PATIENCE: u64 = 2_000_000_000;
/// After how many nanoseconds a ring that was refused for a shortage is tried again.
pub(super) const AGAIN: u64 = 5_000_000_000;
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

/// The entries that were put into the queue.
struct Submitted {
    /// How many entries there have been in all.
    count: u64,
    /// The user data of the last ones.
    keys: [u64; ENTRIES as usize],
    /// The ring is given up, and the entries that the kernel has not taken have no owner.
    is_given_back: bool,
    /// How often entries were given back.
    epoch: u64,
}

/// The number of an entry of the queue.
#[derive(Clone, Copy)]
struct QueuePosition {
    /// How many entries came before it in all.
    number: u64,
    /// The value of [`Submitted::epoch`] when it came.
    epoch: u64,
}

/// The queue at some moment.
struct QueueSnapshot {
    /// How many entries the kernel has taken in all, and how many there have been.
    taken: u64,
    count: u64,
    epoch: u64,
    /// The ring is not given up.
    is_open: bool,
    is_given_back: bool,
    /// The kernel keeps completions back.
    keeps_back: bool,
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
            submission: HoldLock::new(Submitted {
                count,
                keys: [NOBODY; ENTRIES as usize],
                is_given_back: false,
                epoch: 0,
            }),
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

    /// Whether the kernel takes no operations any more (U5).
    #[inline]
    pub(super) fn is_given_up(&self) -> bool {
        self.flushes.load(Relaxed) & GIVEN_UP != 0
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

    /// Puts an entry into the queue, and returns its number. None if there is no room, or the ring
    /// is given up.
    fn push(&self, entry: &squeue::Entry, key: u64) -> Option<QueuePosition> {
        let mut submitted = self.submission.lock();
        if self.is_given_up() {
            return None;
        }
        // SAFETY: the lock keeps other threads from this end of the ring.
        let mut queue = unsafe { self.ring.submission_shared() };
        // SAFETY: the data that it points to stays, as `run` demands.
        unsafe { queue.push(entry) }.ok()?;
        let position = QueuePosition {
            number: submitted.count,
            epoch: submitted.epoch,
        };
        submitted.keys[(position.number % u64::from(ENTRIES)) as usize] = key;
        submitted.count += 1;
        Some(position)
    }

    /// Hands the kernel the entries in the queue. False if the kernel refuses. `soon`: a ring that
    /// was given up is tried again before its time.
    fn flush(&self, soon: bool) -> bool {
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
    fn give_back(&self) {
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

    /// Takes completions, and makes sure that the kernel keeps none back. `wake` gets the callers
    /// they belong to.
    pub(super) fn reap(&self, wake: &mut dyn FnMut(Handle)) {
        self.take_all(None, wake);
        self.catch_up();
    }

    /// Takes completions. `wake` gets the callers they belong to, except that of the operation
    /// `own`, which is the caller of this. It gets them after the lock is released, because no
    /// party may be unparked under a hold.
    fn take_all(&self, own: Option<&UringOperation>, wake: &mut dyn FnMut(Handle)) {
        let own = own.map_or(NOBODY, |own| ptr::from_ref(own).addr() as u64);
        loop {
            let mut handles = [None; REAPED];
            let taken = self.take_some(own, &mut handles);
            handles.into_iter().flatten().for_each(&mut *wake);
            if taken < REAPED {
                break;
            }
        }
    }

    /// Takes as many completions as there is room for; returns the number.
    fn take_some(&self, own: u64, handles: &mut [Option<Handle>; REAPED]) -> usize {
        let _lock = self.completion.lock();
        // SAFETY: the lock keeps other threads from this end of the ring.
        let mut queue = unsafe { self.ring.completion_shared() };
        for (taken, place) in handles.iter_mut().enumerate() {
            let Some(completion) = queue.next() else {
                return taken;
            };
            let key = completion.user_data();
            if key != NOBODY {
                *place = Some(self.settle(key, completion.result().into())).filter(|_| key != own);
            }
        }
        REAPED
    }

    /// Enters the kernel again if it keeps completions back, or has not taken all entries. Returns
    /// the state of the queue afterwards.
    fn catch_up(&self) -> QueueSnapshot {
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

    fn look(&self) -> QueueSnapshot {
        let submitted = self.submission.lock();
        // SAFETY: the lock keeps other threads from this end of the ring.
        let queue = unsafe { self.ring.submission_shared() };
        QueueSnapshot {
            taken: submitted.count - queue.len() as u64,
            count: submitted.count,
            epoch: submitted.epoch,
            is_open: !self.is_given_up(),
            is_given_back: submitted.is_given_back,
            keeps_back: queue.cq_overflow(),
        }
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

/// Whether an error means only a shortage.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::EMFILE | libc::ENFILE)
    )
}

impl UringOperation {
    fn result(&self) -> Option<i64> {
        // ORDERING(result.2): Acquire, pairs with result.1.
        let result = self.result.load(Acquire);
        (result != PENDING).then_some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;

    /// From now on the calling thread may not enter the kernel with a ring: it gets an error that
    /// says there is no memory. False where there are no filters.
    fn refuse_here() -> bool {
        let code = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        // BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ; BPF_RET
        let (load, equal, verdict) = (0x20, 0x15, 0x06);
        let mut program = [
            code(load, 0, 0),
            code(equal, 1, libc::SYS_io_uring_enter as u32),
            code(verdict, 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
            code(verdict, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: takes plain numbers.
        let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the program lives until the kernel has copied it.
        let second = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        first == 0 && second == 0
    }

    /// A ring with a read under way in the kernel that never ends by itself.
    struct Reading<'a> {
        ring: &'a IoRing,
        operation: &'static UringOperation,
        cancel: squeue::Entry,
        /// Makes another thread flush the queue. The kernel refuses that thread nothing.
        elsewhere: &'a dyn Fn(bool) -> bool,
    }

    /// Calls `f` in a thread from which the kernel refuses to take entries.
    fn reading(f: impl FnOnce(Reading<'_>) + Send) {
        let Ok(ring) = IoRing::new() else {
            return eprintln!("no io_uring here");
        };
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let ((ask, asked), (answer, answered)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            let (ring, reader) = (&ring, &reader);
            scope.spawn(move || {
                // It is leaked, as the test may fail.
                let operation: &UringOperation = Box::leak(Box::new(UringOperation {
                    handle: Handle::current(),
                    result: AtomicI64::new(PENDING),
                }));
                let key = ptr::from_ref(operation).expose_provenance() as u64;
                let byte: &mut u8 = Box::leak(Box::new(0));
                ring.under_way.fetch_add(1, Relaxed);
                let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), byte, 1)
                    .build()
                    .user_data(key);
                assert!(ring.push(&read, key).is_some() && ring.flush(false));
                if !refuse_here() {
                    return eprintln!("no filters of system calls here");
                }
                let elsewhere = |soon| {
                    ask.send(soon).unwrap();
                    answered.recv().unwrap()
                };
                let cancel = opcode::AsyncCancel::new(key).build().user_data(NOBODY);
                f(Reading {
                    ring,
                    operation,
                    cancel,
                    elsewhere: &elsewhere,
                });
            });
            asked
                .into_iter()
                .for_each(|soon| answer.send(ring.flush(soon)).unwrap());
        });
    }

    /// After this the ring is given up at the calling thread's next refusal.
    fn refused_for_long(ring: &IoRing) {
        ring.refused_since.store(1, Relaxed);
    }

    /// A cancellation waits in the queue and the ring is given up. Then another thread makes the
    /// kernel take the queue all the same, without the cancellation.
    #[test]
    fn a_cancellation_that_was_given_back_is_handed_over_again() {
        reading(
            |Reading {
                 ring,
                 operation,
                 cancel,
                 elsewhere,
             }| {
                let parks = Cell::new(0);
                let park = |pause: Option<u64>| {
                    parks.set(parks.get() + 1);
                    match parks.get() {
                        1 => {
                            refused_for_long(ring);
                            assert!(!ring.flush(false) && ring.is_given_up());
                            assert!(elsewhere(true) && !ring.is_given_up());
                        }
                        2 => {
                            assert!(
                                pause.is_some(),
                                "the cancellation is taken for one that the kernel has"
                            );
                            assert!(elsewhere(false));
                        }
                        3..10_000 => std::thread::sleep(std::time::Duration::from_millis(1)),
                        _ => panic!("the read is not cancelled"),
                    }
                };
                let result = ring.see_through(&cancel, NOBODY, operation, &mut None, park);
                assert_eq!(result, Some(-i64::from(libc::ECANCELED)));
            },
        );
    }

    /// As long as a thread is in the kernel, it may hand the operation over, and a cancellation by
    /// another way would not find it.
    #[test]
    fn a_ring_is_given_up_for_a_cancellation_once_all_have_left_the_kernel() {
        reading(
            |Reading {
                 ring,
                 operation,
                 cancel,
                 ..
             }| {
                ring.flushes.fetch_add(1, Relaxed);
                refused_for_long(ring);
                let parks = Cell::new(0);
                let park = |pause: Option<u64>| {
                    parks.set(parks.get() + 1);
                    assert!(parks.get() == 1 && pause.is_some() && ring.is_given_up());
                    // That thread leaves.
                    assert_eq!(ring.flushes.fetch_sub(1, Relaxed), GIVEN_UP | 1);
                    ring.give_back();
                };
                assert_eq!(
                    ring.see_through(&cancel, NOBODY, operation, &mut None, park),
                    None
                );
                assert_eq!(parks.get(), 1);
            },
        );
    }
}
