//! The operations of futex(2) on one word or two, by their addresses.

use super::super::table;
use super::super::table::{Operated, Requeued, Stand};
use super::memory::{self, Reader};
use crate::rt::engine::server::ServerState;
use crate::rt::time::now;
use crate::rt::wait::{self, ClaimedList, Single};

pub(crate) use super::super::table::ALL;

const REASON: &&str = &"futex";

/// Returned in place of a place's note, which is never so small.
const CHANGED: usize = 1;
const FAULT: usize = 2;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordEnd {
    Woken,
    /// The word had another value.
    Changed,
    /// The word cannot be read.
    Fault,
    TimedOut,
    /// A cut has come.
    Cut,
}

/// The result of a requeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Done(Requeued),
    /// The word had another value.
    Changed,
    /// The word cannot be read.
    Fault,
}

/// Why a change of a word failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpError {
    /// The word cannot be written.
    Fault,
    /// No such operation, or no such comparison; then the word was changed.
    Unknown,
}

/// If the word has this value, waits until it is woken by a waker that has one of these bits; until
/// the deadline; or for a cut. A word that had another value at any moment of the call may be said
/// to have changed. No point of cancellation. Switches.
#[inline]
pub(crate) fn wait(address: usize, expected: u32, bits: u32, deadline: u64) -> WordEnd {
    let reader = Reader::here();
    look(reader, address, expected)
        .unwrap_or_else(|| wait_looked(reader, address, expected, bits, deadline))
}

/// Looks at the word: the end of a wait that need not begin. Its page may have to be read from a
/// disk: better now than under the lock.
#[inline(always)]
pub(crate) fn look(reader: Reader, address: usize, expected: u32) -> Option<WordEnd> {
    match reader.load(address) {
        None => Some(WordEnd::Fault),
        Some(value) if value != expected => Some(WordEnd::Changed),
        Some(_) => None,
    }
}

/// The same as [`wait`], after a look.
#[inline(always)]
pub(crate) fn wait_looked(
    reader: Reader,
    address: usize,
    expected: u32,
    bits: u32,
    deadline: u64,
) -> WordEnd {
    let stand = Stand::alone(address, bits);
    let enter = |single: &mut Single<'_>, _: &mut ClaimedList| {
        let mut value = None;
        let is_expected = || {
            value = reader.load(address);
            value == Some(expected)
        };
        // SAFETY: the waiter leaves the table before its frame ends.
        let entered = unsafe { table().enter_if(is_expected, &stand, |note| single.place(note)) };
        (!entered).then_some(if value.is_some() { CHANGED } else { FAULT })
    };
    match wait::one_cuttable(&stand, REASON, deadline, enter) {
        None if now() >= deadline => WordEnd::TimedOut,
        None => WordEnd::Cut,
        Some(CHANGED) => WordEnd::Changed,
        Some(FAULT) => WordEnd::Fault,
        Some(_) => WordEnd::Woken,
    }
}

/// Wakes up to so many waiters of the word that have one of these bits; at least one, as the kernel
/// takes 0 and less for 1. The word is not looked at. Does not switch.
#[inline]
pub(crate) fn wake(address: usize, count: i32, bits: u32) -> usize {
    if table().is_idle(address) {
        return 0;
    }
    wait::undisturbed(|served| table().wake(address, at_least_one(count), bits, served))
}

/// Wakes all waiters of the word. Called in a step.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn wake_in_step(address: usize, local: &ServerState) {
    if table().is_idle(address) {
        return;
    }
    let mut served = ClaimedList::new();
    table().wake(address, usize::MAX, ALL, &mut served);
    served.resume(Some(local));
}

/// Wakes up to `wake` waiters of the word `from`, and moves up to `others` more to `to`, if `from`
/// has the expected value. Does not switch.
pub(crate) fn requeue(
    (from, expected): (usize, Option<u32>),
    to: usize,
    counts: (usize, usize),
) -> Compared {
    if expected.is_some() && memory::load(from).is_none() {
        return Compared::Fault;
    }
    let mut is_there = true;
    let is_expected = || {
        expected.is_none_or(|expected| {
            let value = memory::load(from);
            is_there = value.is_some();
            value == Some(expected)
        })
    };
    let done = wait::undisturbed(|served| table().requeue((from, to), is_expected, counts, served));
    match done {
        Some(done) => Compared::Done(done),
        None if is_there => Compared::Changed,
        None => Compared::Fault,
    }
}

/// Changes the second word; wakes waiters of the first; and if the second had a value for which the
/// comparison holds, also waiters of the second. Of each at least one, as [`wake`]. Does not
/// switch.
pub(crate) fn wake_op(
    (first, count): (usize, i32),
    (second, count_there): (usize, i32),
    op: WakeOp,
) -> Result<Operated, OpError> {
    if op.kind > WakeOp::XOR {
        return Err(OpError::Unknown);
    }
    // As in `wait`.
    memory::load(second).ok_or(OpError::Fault)?;
    let change = || {
        let before = memory::update(second, |value| op.apply(value)).ok_or(OpError::Fault)?;
        op.compare(before as i32).ok_or(OpError::Unknown)
    };
    let (here, there) = (
        (first, at_least_one(count)),
        (second, at_least_one(count_there)),
    );
    wait::undisturbed(|served| table().wake_with(here, there, change, served))
}

/// As many as the kernel wakes for this count.
pub(super) fn at_least_one(count: i32) -> usize {
    count.max(1) as usize
}

/// The operation and the comparison of FUTEX_WAKE_OP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeOp {
    kind: u32,
    argument: i32,
    comparison: u32,
    compared_to: i32,
}

impl WakeOp {
    const SET: u32 = 0;
    const ADD: u32 = 1;
    const OR: u32 = 2;
    const AND_NOT: u32 = 3;
    const XOR: u32 = 4;
    const SHIFT: u32 = 8;

    /// From the last argument of the call.
    pub(crate) fn decode(code: u32) -> WakeOp {
        // Twelve bits, with a sign.
        let signed = |code: u32| (code << 20) as i32 >> 20;
        let argument = signed(code >> 12);
        WakeOp {
            kind: (code >> 28) & !WakeOp::SHIFT,
            argument: if (code >> 28) & WakeOp::SHIFT != 0 {
                1 << (argument & 31)
            } else {
                argument
            },
            comparison: (code >> 24) & 15,
            compared_to: signed(code),
        }
    }

    fn apply(self, value: u32) -> u32 {
        let argument = self.argument as u32;
        match self.kind {
            WakeOp::SET => argument,
            WakeOp::ADD => value.wrapping_add(argument),
            WakeOp::OR => value | argument,
            WakeOp::AND_NOT => value & !argument,
            _ => value ^ argument,
        }
    }

    /// Whether the comparison holds for the value before.
    fn compare(self, before: i32) -> Option<bool> {
        let other = self.compared_to;
        match self.comparison {
            0 => Some(before == other),
            1 => Some(before != other),
            2 => Some(before < other),
            3 => Some(before <= other),
            4 => Some(before > other),
            5 => Some(before >= other),
            _ => None,
        }
    }
}
