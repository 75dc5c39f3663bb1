//! futex(2) and futex_waitv(2) in user mode: the calls of a program that knows nothing of this
//! library, for its private words.
//!
//! The waiters stand in the table of [`futex`](super), workers and kernel threads alike. Results
//! and errors are those of the kernel (Linux 6.18), and so is the order in which errors are found.
//! `umcg/tests/futex_kernel` makes the same calls here and there, and compares.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the calls as the kernel has them: arguments, errors, results |
//! | `single` | the operations on one word or two |
//! | `beside` | wake-ups that also reach flows which sleep in the kernel for such words |
//! | `vector` | waiting for a list of words |
//! | `newer` | the calls of Linux 6.7 |
//! | `doze` | sleeping in the kernel, for a list of private and shared words |
//! | `time` | timeouts: from the caller's memory to deadlines |
//! | `memory` | words and structures in the caller's memory, which may not be there |
//!
//! # Whose call it is
//!
//! - K1: *a private word has all its waiters here*, or all in the kernel: a wake-up looks in one
//!   place. So each private call of the plain operations is done here, also if nobody waits, and
//!   the kernel gets none of them ([`Outcome::Kernel`] is never an answer for a word that may have
//!   waiters here).
//! - K2: the kernel does calls without FUTEX_PRIVATE_FLAG, those with priority inheritance
//!   (`*_PI`), and those that it does not know. FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI
//!   come in pairs, so their words have their waiters in the kernel. The kernel's own wake-ups, of
//!   robust lists and of the tid at a thread's end, are of shared words.
//! - K3: a list of futex_waitv in which all words are shared is the kernel's. A list of both kinds
//!   stands in the table for its private words, and sleeps in the kernel for the others: see
//!   `vector`.
//!
//! # Differences from the kernel
//!
//! - Waiters are served in the order in which they came. The kernel serves those with real-time
//!   priorities first.
//! - A deadline of CLOCK_REALTIME is converted when the wait begins. If the clock is set back
//!   meanwhile, the wait ends without a reason (0) instead of too early (ETIMEDOUT), and the caller
//!   waits again. If it is set forward, the wait ends late.
//! - FUTEX_WAKE_OP at a word that another thread unmaps during the call may end the process.
//! - FUTEX_CMP_REQUEUE_PI at a word with waiters of FUTEX_WAIT does not find them: it gives 0 in
//!   place of EINVAL.
//!
//! Rejected: asking the kernel for each error. Between its look and ours the page could be mapped,
//! and then the kernel would wait for a word of ours.

pub(crate) mod beside;
mod doze;
mod memory;
mod newer;
pub(crate) mod single;
mod time;
pub(crate) mod vector;

pub use newer::{futex_requeue, futex_wait, futex_wake, go_on_futex_wait};

use crate::rt::Handle;
use crate::rt::wait::cut;
use memory::Reader;
#[cfg(all(feature = "intercept", target_arch = "x86_64"))]
pub(crate) use memory::UNCLEAR;
use rustix::io::Errno;
pub(crate) use single::WordEnd;
use single::{Compared, WakeOp};
use time::FutexTimeout;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel's result: a number, or a negated errno.
    Done(isize),
    /// Not a call for this table: make the system call itself.
    Kernel,
    /// The caller waits for private and shared words at once: call again at home, where the caller
    /// may sleep in the kernel.
    Home,
    /// A cut has ended the wait, which has taken no wake-up.
    Cut(Rest),
}

/// The rest of a wait that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// True if the kernel restarts the call after a handler with SA_RESTART; false if it then
    /// returns EINTR in any case. Without a handler the wait goes on: see [`go_on`].
    pub restarts: bool,
    until: FutexTimeout,
}

impl Rest {
    /// The rest in words, for a caller that keeps it while handlers run.
    pub fn into_words(self) -> [usize; 3] {
        let [deadline, real] = self.until.into_words();
        [usize::from(self.restarts), deadline, real]
    }

    /// The rest of these words.
    pub fn from_words([restarts, deadline, real]: [usize; 3]) -> Rest {
        Rest {
            restarts: restarts != 0,
            until: FutexTimeout::from_words([deadline, real]),
        }
    }
}

/// In the operation of futex(2).
const PRIVATE: u32 = 128;
const CLOCK_REALTIME: u32 = 256;
const WAIT: u32 = 0;
const WAKE: u32 = 1;
const REQUEUE: u32 = 3;
const CMP_REQUEUE: u32 = 4;
const WAKE_OP: u32 = 5;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;

/// futex(2). Does not unwind; leaves errno alone. May switch.
///
/// # Safety
/// The arguments are those of a system call: the kernel might write at their addresses, too, and
/// here the library does.
pub unsafe fn futex(arguments: &[usize; 6]) -> Outcome {
    // SAFETY: passed on.
    unsafe { futex_with(arguments, beside::nobody) }
}

/// The same, where others sleep in the kernel for private words: `others` wakes those
/// ([`beside`]).
///
/// # Safety
/// As [`futex`].
#[inline]
pub(crate) unsafe fn futex_with(
    arguments: &[usize; 6],
    others: impl Fn(usize, usize, u32) -> usize,
) -> Outcome {
    let (operation, pointer) = (arguments[1] as u32, arguments[3]);
    let (flags, command) = (
        operation & (PRIVATE | CLOCK_REALTIME),
        operation & !(PRIVATE | CLOCK_REALTIME),
    );
    let is_wait = matches!(command, WAIT | WAIT_BITSET);
    let is_plain = matches!(
        command,
        WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE | WAKE_OP
    );
    if flags & PRIVATE == 0 || !(is_wait || is_plain) {
        return Outcome::Kernel;
    }
    let is_real = flags & CLOCK_REALTIME != 0;
    let until = if is_wait {
        match time::until(pointer, command == WAIT, is_real) {
            Ok(until) => until,
            Err(error) => return failed(error),
        }
    } else {
        FutexTimeout::NEVER
    };
    if is_real && command != WAIT_BITSET {
        return failed(Errno::NOSYS);
    }
    if is_wait {
        wait(arguments, until)
    } else {
        wake_or_move(command, arguments, others)
    }
}

/// A wait of futex(2) for a private word, without a timeout, as nearly all are.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for interception")
)]
pub(crate) struct WordWait {
    reader: Reader,
    address: usize,
    expected: u32,
    bits: u32,
}

#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for interception")
)]
impl WordWait {
    /// None if these arguments are another call's, or wrong.
    #[inline(always)]
    pub(crate) fn of(arguments: &[usize; 6]) -> Option<WordWait> {
        const PLAIN: u32 = PRIVATE | WAIT;
        const BITSET: u32 = PRIVATE | WAIT_BITSET;
        // Without a timeout its clock does not matter.
        const BITSET_REAL: u32 = BITSET | CLOCK_REALTIME;
        let [address, operation, expected, pointer, _, bits] = *arguments;
        let bits = match operation as u32 {
            PLAIN => single::ALL,
            BITSET | BITSET_REAL => bits as u32,
            _ => return None,
        };
        let is_right = pointer == 0 && check(address, bits).is_ok();
        is_right.then(|| WordWait {
            reader: Reader::here(),
            address,
            expected: expected as u32,
            bits,
        })
    }

    /// Looks at the word: the result of a call that need not wait. The caller has not switched
    /// since [`WordWait::of`].
    #[inline(always)]
    pub(crate) fn look(self) -> Option<isize> {
        let error = match single::look(self.reader, self.address, self.expected)? {
            WordEnd::Fault => Errno::FAULT,
            _ => Errno::AGAIN,
        };
        Some(-(error.raw_os_error() as isize))
    }

    /// Waits, right after a look. Switches.
    #[inline(always)]
    pub(crate) fn wait(&self) -> WordEnd {
        let WordWait {
            reader,
            address,
            expected,
            bits,
        } = *self;
        single::wait_looked(reader, address, expected, bits, u64::MAX)
    }

    /// The result of the call, after such a wait.
    #[cold]
    pub(crate) fn outcome(end: WordEnd) -> Outcome {
        ended(end, FutexTimeout::NEVER, true)
    }
}

/// A wake-up of futex(2) for a private word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordWake {
    address: usize,
    count: i32,
    bits: u32,
}

impl WordWake {
    /// None if these arguments are another call's, or wrong.
    #[inline(always)]
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for interception")
    )]
    pub(crate) fn of(arguments: &[usize; 6]) -> Option<WordWake> {
        const PLAIN: u32 = PRIVATE | WAKE;
        const BITSET: u32 = PRIVATE | WAKE_BITSET;
        let [address, operation, count, _, _, bits] = *arguments;
        let bits = match operation as u32 {
            PLAIN => single::ALL,
            BITSET => bits as u32,
            _ => return None,
        };
        let wake = WordWake {
            address,
            count: count as i32,
            bits,
        };
        check(address, bits).is_ok().then_some(wake)
    }

    /// How many it has woken, of [`others`](beside) too. None if this is a call for the kernel:
    /// whether it takes the word's address for one depends on its version and the processor.
    #[inline(always)]
    pub(crate) fn wake(self, others: impl Fn(usize, usize, u32) -> usize) -> Option<usize> {
        let woken = beside::wake(self.address, self.count, self.bits, others);
        (woken > 0 || memory::may_be_there(self.address)).then_some(woken)
    }

    /// The result of the call, whose arguments may be wrong.
    #[inline]
    fn outcome(self, others: impl Fn(usize, usize, u32) -> usize) -> Outcome {
        if let Err(error) = check(self.address, self.bits) {
            return failed(error);
        }
        let woken = self.wake(others);
        woken.map_or(Outcome::Kernel, |woken| Outcome::Done(woken as isize))
    }
}

/// Wakes all waiters of a word, as FUTEX_WAKE does.
pub fn wake_all(address: usize) -> usize {
    single::wake(address, i32::MAX, single::ALL)
}

/// Whether nobody waits for the word in the table, so that a waker has nothing to do there. The
/// caller has changed the word before. False is only a guess.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for interception")
)]
pub(crate) fn is_idle(address: usize) -> bool {
    super::table().is_idle(address)
}

/// Goes on with a wait that was cut, if no handler ran.
///
/// # Safety
/// As [`futex`], whose arguments these are; or those of [`waitv`].
pub unsafe fn go_on(is_waitv: bool, arguments: &[usize; 6], rest: Rest) -> Outcome {
    if is_waitv {
        wait_for_list(arguments, rest.until)
    } else {
        wait(arguments, rest.until)
    }
}

/// FUTEX_WAIT and FUTEX_WAIT_BITSET.
fn wait(arguments: &[usize; 6], until: FutexTimeout) -> Outcome {
    let command = arguments[1] as u32 & !(PRIVATE | CLOCK_REALTIME);
    let (address, expected) = (arguments[0], arguments[2] as u32);
    let bits = bits_of(command == WAIT_BITSET, arguments);
    if let Err(error) = check(address, bits) {
        return failed(error);
    }
    let end = single::wait(address, expected, bits, until.deadline());
    // Whether there is a timeout, also if it never comes.
    ended(end, until, arguments[3] == 0)
}

fn ended(end: WordEnd, until: FutexTimeout, restarts: bool) -> Outcome {
    match end {
        WordEnd::Woken => Outcome::Done(0),
        WordEnd::Changed => failed(Errno::AGAIN),
        WordEnd::Fault => failed(Errno::FAULT),
        WordEnd::TimedOut => until.passed(),
        WordEnd::Cut => Outcome::Cut(Rest { restarts, until }),
    }
}

/// The operations that do not wait.
fn wake_or_move(
    command: u32,
    arguments: &[usize; 6],
    others: impl Fn(usize, usize, u32) -> usize,
) -> Outcome {
    let [from, _, count, second_count, to, last] = *arguments;
    let (count, second_count, last) = (count as i32, second_count as i32, last as u32);
    if matches!(command, WAKE | WAKE_BITSET) {
        let bits = bits_of(command == WAKE_BITSET, arguments);
        return WordWake {
            address: from,
            count,
            bits,
        }
        .outcome(others);
    }
    if command != WAKE_OP && (count < 0 || second_count < 0) {
        return failed(Errno::INVAL);
    }
    for address in [from, to] {
        if let Err(error) = check(address, single::ALL) {
            return failed(error);
        } else if !memory::may_be_there(address) {
            return Outcome::Kernel;
        }
    }
    if command == WAKE_OP {
        let op = WakeOp::decode(last);
        return match beside::wake_op((from, count), (to, second_count), op, others) {
            Ok(woken) => Outcome::Done(woken as isize),
            Err(error) => failed(error.into()),
        };
    }
    let expected = (command == CMP_REQUEUE).then_some(last);
    let counts = (count as usize, second_count as usize);
    moved(beside::requeue((from, expected), to, counts, others))
}

fn moved(done: Compared) -> Outcome {
    match done {
        Compared::Done(done) => Outcome::Done((done.woken + done.moved) as isize),
        Compared::Changed => failed(Errno::AGAIN),
        Compared::Fault => failed(Errno::FAULT),
    }
}

/// futex_waitv(2). Otherwise as [`futex`].
///
/// # Safety
/// As [`futex`].
pub unsafe fn waitv(arguments: &[usize; 6]) -> Outcome {
    let [list, count, flags, pointer, clock, _] = *arguments;
    let count = count as u32 as usize;
    // Errors that do not depend on memory: the kernel finds them, too.
    if flags as u32 != 0 || count == 0 || count > vector::MOST || list == 0 {
        return Outcome::Kernel;
    }
    match newer::timeout(pointer, clock) {
        Ok(until) => wait_for_list(arguments, until),
        Err(outcome) => outcome,
    }
}

fn wait_for_list(arguments: &[usize; 6], until: FutexTimeout) -> Outcome {
    let (list, count) = (arguments[0], arguments[1] as u32 as usize);
    listed(vector::wait(list, count, until.deadline()), until)
}

fn listed(end: vector::ListEnd, until: FutexTimeout) -> Outcome {
    match end {
        vector::ListEnd::Woken(index) => Outcome::Done(index as isize),
        vector::ListEnd::Changed => failed(Errno::AGAIN),
        vector::ListEnd::Fault => failed(Errno::FAULT),
        vector::ListEnd::Misaligned => failed(Errno::INVAL),
        vector::ListEnd::Kernel => Outcome::Kernel,
        vector::ListEnd::Home => Outcome::Home,
        vector::ListEnd::Refused(error) => failed(error),
        vector::ListEnd::TimedOut => until.passed(),
        vector::ListEnd::Cut => Outcome::Cut(Rest {
            restarts: true,
            until,
        }),
    }
}

fn bits_of(has_bits: bool, arguments: &[usize; 6]) -> u32 {
    if has_bits {
        arguments[5] as u32
    } else {
        single::ALL
    }
}

/// The checks that come before any look at the table or the words, in their order.
fn check(address: usize, bits: u32) -> Result<(), Errno> {
    if bits == 0 || address % size_of::<u32>() != 0 {
        return Err(Errno::INVAL);
    }
    Ok(())
}

fn failed(error: Errno) -> Outcome {
    Outcome::Done(-(error.raw_os_error() as isize))
}

impl From<single::OpError> for Errno {
    fn from(error: single::OpError) -> Errno {
        match error {
            single::OpError::Fault => Errno::FAULT,
            single::OpError::Unknown => Errno::NOSYS,
        }
    }
}

/// Ends the wait of a worker or thread that is in one of these calls, for a signal; or else its
/// next one. Call [`take_cut`] when the signal is served. Not for signal handlers. The caller keeps
/// the worker or thread from ending meanwhile: the handle names the next one then.
pub fn cut(handle: Handle) {
    cut::cut(handle.task());
}

/// The same for the caller, in a signal handler of its kernel thread. Async-signal-safe.
pub fn cut_here(handle: Handle) {
    cut::cut_here(handle.task());
}

/// Whether a cut has come since this was last called.
pub fn take_cut(handle: Handle) -> bool {
    cut::take_cut(handle.task())
}

/// Waits until `deadline`, in nanoseconds of CLOCK_MONOTONIC, or for a cut; `u64::MAX` for never.
/// False if it was cut. Switches.
pub fn sleep(deadline: u64) -> bool {
    cut::sleep_cuttable(&"sleep", deadline)
}
