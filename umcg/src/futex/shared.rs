//! Words in memory that processes share, and words that code without this library waits for or
//! wakes: waiting in the kernel.
//!
//! The functions mean the same as those of [`futex`](super), but go to the kernel (futex(2) without
//! FUTEX_PRIVATE_FLAG, futex_waitv(2)). So they meet all other code that does, in any process. A
//! wake-up is a system call. A kernel thread waits in the kernel itself. A worker gives its server
//! to others meanwhile: a light worker of the library's waits for it, in a blocking scope. So a
//! worker's wait can be cancelled, and it can wait for words of both kinds at once
//! ([`wait_multiple`](super::wait_multiple) with [`Wait::shared`](super::Wait::shared)).
//!
//! futex_waitv, which waits for up to 128 words, is there since Linux 5.16; more words are waited
//! for by several. Where it is missing (or `UMCG_NO_FUTEX_WAITV` is in the environment) every
//! waiter for several words, and every worker, looks at the words from time to time, in the end
//! every millisecond. It sees that a word has changed, but not a wake-up without a change, and does
//! not count among the waiters that a wake-up has woken.
//!
//! The kernel knows a shared word by the page that it lies in. Memory that is private to the
//! process, that it may only read, and that was never written has no page of its own: there the
//! kernel says EFAULT, and a wait for such a word panics, as it could never be changed or woken.

use super::many::{Claim, FutexEnd, Many};
use super::set::{self, Wait, changed};
use super::table::Requeued;
use super::{Changed, WaitError, WaitMultipleError};
use crate::rt::sync::AtomicU32;
use crate::rt::timed;
use crate::rt::{Builder, JoinHandle, ffi, server, time, wait};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::ClockId;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock};

/// The most words that futex_waitv takes.
const MOST: usize = 128;

/// The pause between two looks, the first and the longest, where there is no futex_waitv.
const SHORT: u64 = 50_000;
const LONG: u64 = 1_000_000;

/// If the word has this value, waits until it is woken. A point of cancellation if it has to wait.
/// Switches.
///
/// # Errors
/// [`Changed`].
///
/// # Panics
/// When the kernel cannot wait for the word: see [above](self).
pub fn wait(word: &AtomicU32, expected: u32) -> Result<(), Changed> {
    // Without a deadline there is no other error.
    wait_until(word, expected, u64::MAX).map_err(|_| Changed)
}

timed! {
    "wait";
    /// # Errors
    /// [`WaitError`].
    ///
    /// # Panics
    /// As [`wait`].
    pub fn wait_deadline, wait_timeout(word: &AtomicU32, expected: u32) -> Result<(), WaitError>;
    |deadline| wait_until(word, expected, deadline)
}

/// [`wait_deadline`] in nanoseconds.
pub(crate) fn wait_until(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), WaitError> {
    set::wait_multiple_until(&[Wait::shared(word, expected)], deadline)
        .map(drop)
        .map_err(|error| match error {
            WaitMultipleError::Changed(_) => WaitError::Changed,
            WaitMultipleError::TimedOut => WaitError::TimedOut,
        })
}

/// Wakes up to `count` waiters of the word. Returns how many. Does not switch.
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    // A word that the kernel does not know has no waiters.
    wake_in_kernel(word, count).unwrap_or(0)
}

pub(super) fn wake_in_kernel(word: &AtomicU32, count: usize) -> Result<usize, Errno> {
    // The kernel takes 0 for 1.
    if count == 0 {
        Ok(0)
    } else {
        futex::wake(word, Flags::empty(), most(count))
    }
}

/// Wakes up to `wake` waiters of the word `from`, and moves up to `others` more to the word `to`.
/// Does not switch.
///
/// Change the word `from` before you move its waiters. When a process is stopped and goes on
/// (SIGSTOP, a debugger, a frozen container), the kernel begins its waits anew: waiters that were
/// moved wait for the word `from` again if it still has the value that they expect.
pub fn requeue(from: &AtomicU32, to: &AtomicU32, wake: usize, others: usize) -> Requeued {
    requeue_in_kernel((from, None), to, wake, others).unwrap_or_default()
}

/// Like [`requeue`], if the word `from` has this value.
///
/// # Errors
/// [`Changed`]: nothing was done.
pub fn cmp_requeue(
    from: &AtomicU32,
    expected: u32,
    to: &AtomicU32,
    wake: usize,
    others: usize,
) -> Result<Requeued, Changed> {
    match requeue_in_kernel((from, Some(expected)), to, wake, others) {
        Err(Errno::AGAIN) => Err(Changed),
        done => Ok(done.unwrap_or_default()),
    }
}

pub(super) fn requeue_in_kernel(
    (from, expected): (&AtomicU32, Option<u32>),
    to: &AtomicU32,
    wake: usize,
    others: usize,
) -> Result<Requeued, Errno> {
    let (wake, others) = (most(wake), most(others));
    let done = match expected {
        None => futex::requeue(from, Flags::empty(), wake, others, to),
        Some(expected) => futex::cmp_requeue(from, Flags::empty(), wake, others, to, expected),
    };
    done.map(|all| Requeued::of(all, wake as usize))
}

/// A number of waiters, as the kernel counts.
fn most(count: usize) -> u32 {
    count.min(i32::MAX as usize) as u32
}

impl Requeued {
    /// The kernel says how many there were in all; it wakes before it moves.
    fn of(all: usize, wake: usize) -> Requeued {
        Requeued {
            woken: all.min(wake),
            moved: all.saturating_sub(wake),
        }
    }
}

/// Waits for words of which some are shared; the places of the others stand in the table.
pub(super) fn wait_for(many: &Many, words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    let is_thread = server::current_task().is_none();
    if is_thread
        && words.len() <= MOST
        && (words.len() == 1 || has_waitv())
        && words.iter().all(|wait| wait.is_shared)
    {
        match sleep(words, None, deadline) {
            Slept::Woken(index) => return FutexEnd::Woken(index),
            Slept::Changed(index) => return FutexEnd::Changed(index),
            Slept::TimedOut => return FutexEnd::TimedOut,
            Slept::Fault => return FutexEnd::Fault,
            Slept::Stopped | Slept::Failed => {}
        }
    }
    if has_waitv() {
        wait_by_others(many, words, deadline)
    } else {
        look_now_and_then(many, words, deadline)
    }
}

/// Starts sleepers for the shared words, and waits for the sleepers and for the other words.
fn wait_by_others(many: &Many, words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    many.arm();
    let mut sleepers = Vec::new();
    let started = ffi::start_global().is_ok() && Sleeper::start_all(many, words, &mut sleepers);
    // A wait that is cut short must leave no sleeper behind that knows these words; and while
    // unwinding it must not wait for one.
    let end =
        started.then(|| catch_unwind(AssertUnwindSafe(|| set::wait_armed(many, words, deadline))));
    let mut untold = Vec::new();
    ffi::shielded(|| {
        sleepers
            .into_iter()
            .for_each(|sleeper| untold.extend(sleeper.stop()))
    });
    let end = end.unwrap_or_else(|| {
        Ok(many
            .disarm()
            .map_or(FutexEnd::Woken(failed(words.len())), FutexEnd::Woken))
    });
    let is_woken = matches!(end, Ok(FutexEnd::Woken(told)) if told < words.len());
    // A sleeper was woken as the wait ended. That is the waiter's own wake-up, since it reached the
    // waiter's place, to whichever word that had been moved. A waiter that was asked to end learns
    // of that in its next wait.
    let own = if is_woken { None } else { untold.pop() };
    pass_on(words, &untold);
    match end {
        _ if own.is_some() => FutexEnd::Woken(own.unwrap_or_default()),
        Ok(FutexEnd::Woken(told)) if told == failed(words.len()) => {
            look_now_and_then(many, words, deadline)
        }
        Ok(FutexEnd::Woken(told)) if told == faulted(words.len()) => FutexEnd::Fault,
        Ok(FutexEnd::Woken(told)) if told >= words.len() => FutexEnd::Changed(told - words.len()),
        Ok(end) => end,
        Err(payload) => resume_unwind(payload),
    }
}

/// One wait was woken more than once: passes the other wake-ups on to the next waiters.
fn pass_on(words: &[Wait<'_>], woken: &[usize]) {
    for index in woken {
        wake(words[*index].word, 1);
    }
}

/// A sleeper's answer for so many words is the index of a word that was woken; above those, the
/// index of a word that has changed; above those, that it could not sleep.
const fn failed(words: usize) -> usize {
    2 * words
}

/// Or that the kernel said EFAULT.
const fn faulted(words: usize) -> usize {
    failed(words) + 1
}

/// A light worker that waits in the kernel for another waiter's words.
struct Sleeper {
    wait: Arc<KernelWait>,
    /// Returns the index of a word that was woken, if its waiter could not be told any more.
    worker: JoinHandle<Option<usize>>,
}

struct KernelWait {
    stop: AtomicU32,
    /// With their indices. Not looked at any more once the worker has ended.
    words: Vec<Wait<'static>>,
    indices: Vec<usize>,
    many: *const Many,
    /// How many words there are in all.
    all: usize,
}

// SAFETY: its pointees outlive the worker, which `stop` waits for, and are made for many threads.
unsafe impl Send for KernelWait {}
// SAFETY: as above.
unsafe impl Sync for KernelWait {}

impl Sleeper {
    /// As many as it takes. False when there is no memory or thread for one.
    fn start_all(many: &Many, words: &[Wait<'_>], sleepers: &mut Vec<Sleeper>) -> bool {
        let indices: Vec<usize> = (0..words.len())
            .filter(|index| words[*index].is_shared)
            .collect();
        indices.chunks(MOST - 1).all(|indices| {
            // SAFETY: only the lifetime changes; they are there until `stop` returns.
            let word = |index: &usize| unsafe {
                std::mem::transmute::<Wait<'_>, Wait<'static>>(words[*index])
            };
            let wait = Arc::new(KernelWait {
                stop: AtomicU32::new(0),
                words: indices.iter().map(word).collect(),
                indices: indices.to_vec(),
                many,
                all: words.len(),
            });
            let own = wait.clone();
            // SAFETY: it has no thread-locals.
            let worker = unsafe {
                Builder::new()
                    .name("futex")
                    .spawn_light(move || crate::blocking(|| own.run()))
            };
            worker
                .map(|worker| sleepers.push(Sleeper { wait, worker }))
                .is_ok()
        })
    }

    /// The index of a word that was woken, if it could not tell its waiter.
    fn stop(self) -> Option<usize> {
        self.wait.stop.store(1, Relaxed);
        let _ = futex::wake(&self.wait.stop, Flags::PRIVATE, 1);
        // It does not panic.
        self.worker.join().ok().flatten()
    }
}

impl KernelWait {
    /// The index of a word that was woken, if that could not be told.
    fn run(&self) -> Option<usize> {
        let slept = sleep(&self.words, Some(&self.stop), u64::MAX);
        let told = match slept {
            Slept::Woken(at) => self.indices[at],
            Slept::Changed(at) => self.all + self.indices[at],
            Slept::Failed => failed(self.all),
            Slept::Fault => faulted(self.all),
            Slept::Stopped | Slept::TimedOut => return None,
        };
        // SAFETY: there until `stop` returns.
        let many = unsafe { &*self.many };
        let is_told = wait::undisturbed(|served| match many.claim(told as u32) {
            Claim::Failed | Claim::Second => false,
            Claim::Served(claimed) => {
                claimed.into_iter().for_each(|claimed| served.push(claimed));
                true
            }
        });
        // The wait was cut short, was late, or was woken elsewhere.
        (matches!(slept, Slept::Woken(_)) && !is_told).then_some(told)
    }
}

/// How a sleep in the kernel ended.
#[derive(Clone, Copy)]
enum Slept {
    Woken(usize),
    Changed(usize),
    TimedOut,
    /// By the `stop` word.
    Stopped,
    /// The kernel had no memory.
    Failed,
    /// The kernel cannot know a word.
    Fault,
}

/// The calling kernel thread sleeps until a word is woken, or `stop`, a private one, has another
/// value than 0.
fn sleep(words: &[Wait<'_>], stop: Option<&AtomicU32>, deadline: u64) -> Slept {
    let until = time::timespec(deadline);
    // Of several words that were woken Linux reports the last. So `stop` comes first, and no
    // wake-up is lost by it.
    let stops = stop
        .into_iter()
        .map(|stop| in_kernel(stop, 0, WaitFlags::PRIVATE));
    let list: Vec<_> = stops
        .chain(
            words
                .iter()
                .map(|wait| in_kernel(wait.word, wait.expected, WaitFlags::empty())),
        )
        .collect();
    loop {
        let slept = match words {
            [wait] if stop.is_none() => futex::wait_bitset(
                wait.word,
                Flags::empty(),
                wait.expected,
                until.as_ref(),
                NonZeroU32::MAX,
            )
            .map(|()| 0),
            _ => futex::waitv(
                &list,
                WaitvFlags::empty(),
                until.as_ref(),
                ClockId::Monotonic,
            ),
        };
        match slept {
            Ok(index) => {
                return index
                    .checked_sub(usize::from(stop.is_some()))
                    .map_or(Slept::Stopped, Slept::Woken);
            }
            Err(Errno::TIMEDOUT) => return Slept::TimedOut,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if stop.is_some_and(|stop| stop.load(Relaxed) != 0) {
                    return Slept::Stopped;
                }
                // None when it has the expected value again: as if it had been so all the time.
                if let Some(index) = changed(words) {
                    return Slept::Changed(index);
                }
            }
            Err(Errno::FAULT) => return Slept::Fault,
            Err(_) => return Slept::Failed,
        }
    }
}

fn in_kernel(word: &AtomicU32, expected: u32, flags: WaitFlags) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = expected.into();
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32 | flags;
    wait
}

/// Whether there is futex_waitv.
fn has_waitv() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let asked = futex::waitv(&[], WaitvFlags::empty(), None, ClockId::Monotonic);
        std::env::var_os("UMCG_NO_FUTEX_WAITV").is_none() && asked == Err(Errno::INVAL)
    })
}

/// Waits without help from the kernel. The kernel is only asked whether it knows the words: by a
/// requeue of no waiters to the same word.
fn look_now_and_then(many: &Many, words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    let mut shared = words.iter().filter(|wait| wait.is_shared);
    if shared.any(|wait| requeue_in_kernel((wait.word, None), wait.word, 0, 0) == Err(Errno::FAULT))
    {
        return FutexEnd::Fault;
    }
    let mut pause = SHORT;
    loop {
        let until = deadline.min(time::now().saturating_add(pause));
        many.arm();
        match set::wait_armed(many, words, until) {
            FutexEnd::TimedOut if until < deadline => pause = LONG.min(pause * 2),
            FutexEnd::Changed(index) => return FutexEnd::Woken(index),
            end => return end,
        }
    }
}
