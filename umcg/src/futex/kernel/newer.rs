//! futex_wait(2), futex_wake(2) and futex_requeue(2), which are calls of their own since Linux 6.7:
//! the same operations, with flags of the words' size.
//!
//! Calls with other flags than those of a private 32-bit word are the kernel's, and so are errors
//! that do not depend on memory. A requeue from a private word to a shared one would have to move a
//! waiter from here to the kernel: such a call is refused (EINVAL).

use super::single;
use super::time::{self, FutexTimeout};
use super::{Outcome, Rest, WordWake, beside, check, ended, failed, listed, memory, moved, vector};
use rustix::io::Errno;

/// The flags of a word.
const U32: u32 = 2;
const PRIVATE: u32 = 128;

/// The absolute timeout of these calls, by either clock.
pub(super) fn timeout(pointer: usize, clock: usize) -> Result<FutexTimeout, Outcome> {
    match (pointer, clock as i32) {
        (0, _) => Ok(FutexTimeout::NEVER),
        (_, clock @ (libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)) => {
            time::until(pointer, false, clock == libc::CLOCK_REALTIME).map_err(failed)
        }
        _ => Err(Outcome::Kernel),
    }
}

fn is_ours(flags: usize, words: &[usize]) -> bool {
    let fit = words.iter().all(|word| u32::try_from(*word).is_ok());
    flags as u32 == U32 | PRIVATE && fit
}

/// futex_wait(2). Otherwise as [`futex`](super::futex).
///
/// # Safety
/// As [`futex`](super::futex).
pub unsafe fn futex_wait(arguments: &[usize; 6]) -> Outcome {
    let [_, value, bits, flags, pointer, clock] = *arguments;
    if !is_ours(flags, &[value, bits]) {
        return Outcome::Kernel;
    }
    match timeout(pointer, clock) {
        Ok(until) => wait(arguments, until),
        Err(outcome) => outcome,
    }
}

/// [`go_on`](super::go_on) for a wait by this call.
///
/// # Safety
/// As [`futex_wait`], whose arguments these are.
pub unsafe fn go_on_futex_wait(arguments: &[usize; 6], rest: Rest) -> Outcome {
    wait(arguments, rest.until)
}

fn wait(arguments: &[usize; 6], until: FutexTimeout) -> Outcome {
    let (address, expected, bits) = (arguments[0], arguments[1] as u32, arguments[2] as u32);
    match check(address, bits) {
        Ok(()) => {
            let end = single::wait(address, expected, bits, until.deadline());
            ended(end, until, true)
        }
        Err(error) => failed(error),
    }
}

/// futex_wake(2), which takes 0 for 0. Otherwise as [`futex`](super::futex).
///
/// # Safety
/// As [`futex`](super::futex).
pub unsafe fn futex_wake(arguments: &[usize; 6]) -> Outcome {
    let [address, bits, count, flags, ..] = *arguments;
    if !is_ours(flags, &[bits]) {
        Outcome::Kernel
    } else if count as i32 != 0 {
        let (count, bits) = (count as i32, bits as u32);
        WordWake {
            address,
            count,
            bits,
        }
        .outcome(beside::nobody)
    } else if let Err(error) = check(address, bits as u32) {
        failed(error)
    } else if memory::may_be_there(address) {
        Outcome::Done(0)
    } else {
        Outcome::Kernel
    }
}

/// futex_requeue(2). Otherwise as [`futex`](super::futex).
///
/// # Safety
/// As [`futex`](super::futex).
pub unsafe fn futex_requeue(arguments: &[usize; 6]) -> Outcome {
    requeue(arguments).unwrap_or_else(|outcome| outcome)
}

fn requeue(&[list, flags, wake, others, ..]: &[usize; 6]) -> Result<Outcome, Outcome> {
    if flags as u32 != 0 || list == 0 {
        return Err(Outcome::Kernel);
    }
    let item = |at| vector::item(at).map_err(|end| listed(end, FutexTimeout::NEVER));
    let (from, to) = (item(list)?, item(list.wrapping_add(vector::ITEM))?);
    if from.is_shared && to.is_shared {
        return Err(Outcome::Kernel);
    }
    let (wake, others) = (wake as i32, others as i32);
    if wake < 0 || others < 0 || from.is_shared != to.is_shared {
        return Err(failed(Errno::INVAL));
    }
    for address in [from.address, to.address] {
        check(address, single::ALL).map_err(failed)?;
        if !memory::may_be_there(address) {
            return Err(Outcome::Kernel);
        }
    }
    let counts = (wake as usize, others as usize);
    let from = (from.address, Some(from.expected));
    Ok(moved(single::requeue(from, to.address, counts)))
}
