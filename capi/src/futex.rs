//! `umcg/futex.h`: C's names for `umcg::futex`.
//!
//! A call first compares. Only if it has to wait is it a point of cancellation; the unwinding is caught here (`foreign::interruptible`).

use crate::array;
use crate::rt::{NO_TIMEOUT, status, value};
use libc::{EAGAIN, ECANCELED, EINVAL, EOVERFLOW, ETIMEDOUT, c_int};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;
use umcg::futex::{self, Changed, ChangedAt, Requeued, Wait, WaitMultipleError, WaitSet, shared};
use umcg::rt::foreign::{self, Cancelled};

const SHARED: c_int = 1;
/// What an index can be.
const MOST: usize = 1_000_000_000;
/// So many words are copied to the stack.
const FEW: usize = 32;

/// `umcg_futex_word_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Word {
    word: *const AtomicU32,
    expected: u32,
    flags: c_int,
}

const _: () = assert!(size_of::<Word>() == 16 && align_of::<Word>() == 8);

/// The word that C named.
///
/// # Safety
/// `word` is null, or a word that stays where it is as long as the caller uses it.
unsafe fn named<'a>(word: *const AtomicU32) -> Result<&'a AtomicU32, c_int> {
    if !word.is_aligned() {
        return Err(EINVAL);
    }
    // SAFETY: by the contract, and aligned.
    unsafe { word.as_ref() }.ok_or(EINVAL)
}

fn is_shared(flags: c_int) -> Result<bool, c_int> {
    match flags {
        0 => Ok(false),
        SHARED => Ok(true),
        _ => Err(EINVAL),
    }
}

fn count(number: c_int) -> Result<usize, c_int> {
    usize::try_from(number).map_err(|_| EINVAL)
}

/// # Safety
/// As `named`.
unsafe fn wait_of<'a>(word: *const AtomicU32, expected: u32, flags: c_int) -> Result<Wait<'a>, c_int> {
    // SAFETY: passed on.
    let word = unsafe { named(word) }?;
    Ok(if is_shared(flags)? { Wait::shared(word, expected) } else { Wait::new(word, expected) })
}

/// Waits, and tells C how that ended.
///
/// # Safety
/// `changed` is null, or room for a number.
unsafe fn waited(
    first: Option<usize>,
    changed: *mut c_int,
    wait: impl FnOnce() -> Result<usize, WaitMultipleError>,
) -> Result<c_int, c_int> {
    let ended = match first {
        // Without waiting, and so not cut short.
        Some(index) => Err(WaitMultipleError::Changed(index)),
        None => foreign::interruptible(wait).map_err(|Cancelled| ECANCELED)?,
    };
    match ended {
        Ok(index) => Ok(index as c_int),
        Err(WaitMultipleError::TimedOut) => Err(ETIMEDOUT),
        Err(WaitMultipleError::Changed(index)) => {
            if !changed.is_null() {
                // SAFETY: by the contract.
                unsafe { changed.write(index as c_int) };
            }
            Err(EAGAIN)
        }
    }
}

fn wait_for(words: &[Wait<'_>], deadline_ns: u64) -> Result<usize, WaitMultipleError> {
    match deadline_ns {
        NO_TIMEOUT => futex::wait_multiple(words).map_err(|ChangedAt(index)| WaitMultipleError::Changed(index)),
        at => futex::wait_multiple_deadline(words, foreign::instant(at)),
    }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wait(word: *const AtomicU32, expected: u32, flags: c_int, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let wait = unsafe { wait_of(word, expected, flags) };
    status(wait.and_then(|wait| {
        let first = (!wait.is_expected()).then_some(0);
        // SAFETY: null.
        unsafe { waited(first, null_mut(), || wait_for(&[wait], deadline_ns)) }.map(drop)
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wake(word: *const AtomicU32, most: c_int, flags: c_int) -> c_int {
    // SAFETY: passed on.
    let word = unsafe { named(word) };
    let woken = word.and_then(|word| {
        let most = count(most)?;
        Ok(if is_shared(flags)? { shared::wake(word, most) } else { futex::wake(word, most) })
    });
    value(woken.map(|woken| woken as c_int), -1)
}

/// # Safety
/// As `named`, for both.
unsafe fn requeue(
    (from, expected): (*const AtomicU32, Option<u32>),
    to: *const AtomicU32,
    (wake, others): (c_int, c_int),
    flags: c_int,
) -> Result<Requeued, c_int> {
    // SAFETY: passed on.
    let from = unsafe { named(from) }?;
    // SAFETY: passed on.
    let to = unsafe { named(to) }?;
    let (wake, others) = (count(wake)?, count(others)?);
    let done = match (is_shared(flags)?, expected) {
        (false, None) => Ok(futex::requeue(from, to, wake, others)),
        (false, Some(expected)) => futex::cmp_requeue(from, expected, to, wake, others),
        (true, None) => Ok(shared::requeue(from, to, wake, others)),
        (true, Some(expected)) => shared::cmp_requeue(from, expected, to, wake, others),
    };
    done.map_err(|Changed| EAGAIN)
}

fn both(done: Result<Requeued, c_int>) -> c_int {
    value(done.map(|done| (done.woken + done.moved) as c_int), -1)
}

/// # Safety
/// As `requeue`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_requeue(
    from: *const AtomicU32,
    to: *const AtomicU32,
    wake: c_int,
    others: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on.
    both(unsafe { requeue((from, None), to, (wake, others), flags) })
}

/// # Safety
/// As `requeue`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_cmp_requeue(
    from: *const AtomicU32,
    expected: u32,
    to: *const AtomicU32,
    wake: c_int,
    others: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on.
    both(unsafe { requeue((from, Some(expected)), to, (wake, others), flags) })
}

/// # Safety
/// `words` is null, or points to `n` words as for `named`; `changed` as for `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wait_multiple(words: *const Word, n: c_int, deadline_ns: u64, changed: *mut c_int) -> c_int {
    // SAFETY: passed on.
    let words = match unsafe { array(words, n) } {
        Ok(words) => words,
        Err(errno) => return status(Err(errno)),
    };
    let len = words.len();
    // SAFETY: passed on.
    let waits = words.iter().map(|word| unsafe { wait_of(word.word, word.expected, word.flags) });
    let wait = |waits: &[Wait<'_>]| {
        let first = waits.iter().position(|wait| !wait.is_expected());
        // SAFETY: passed on.
        unsafe { waited(first, changed, || wait_for(waits, deadline_ns)) }
    };
    let ended = if len <= FEW {
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        let mut few = [Wait::new(&NOTHING, 0); FEW];
        let copied = few.iter_mut().zip(waits).try_for_each(|(place, wait)| wait.map(|wait| *place = wait));
        copied.and_then(|()| wait(&few[..len]))
    } else {
        waits.collect::<Result<Vec<_>, _>>().and_then(|waits| wait(&waits))
    };
    value(ended, -1)
}

#[unsafe(no_mangle)]
extern "C" fn umcg_waitset_create() -> *mut WaitSet<'static> {
    Box::into_raw(Box::new(WaitSet::new()))
}

/// # Safety
/// `set` is null, or came from `umcg_waitset_create` and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_destroy(set: *mut WaitSet<'static>) {
    if !set.is_null() {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(set) });
    }
}

/// The set that C named.
///
/// # Safety
/// `set` is null, or came from `umcg_waitset_create`, and nobody else uses it.
unsafe fn named_set<'a>(set: *mut WaitSet<'static>) -> Result<&'a mut WaitSet<'static>, c_int> {
    // SAFETY: by the contract.
    unsafe { set.as_mut() }.ok_or(EINVAL)
}

/// # Safety
/// As `named_set`; the word as for `named`, until it is taken out.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_add(set: *mut WaitSet<'static>, word: *const AtomicU32, expected: u32, flags: c_int) -> c_int {
    // SAFETY: passed on.
    let added = unsafe { named_set(set) }.and_then(|set| {
        // SAFETY: passed on.
        let wait = unsafe { wait_of(word, expected, flags) }?;
        if set.len() == MOST { Err(EOVERFLOW) } else { Ok(set.push(wait)) }
    });
    value(added.map(|index| index as c_int), -1)
}

/// # Safety
/// As `named_set`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_expect(set: *mut WaitSet<'static>, index: c_int, expected: u32) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named_set(set) }.and_then(|set| {
        let index = usize::try_from(index).ok().filter(|index| *index < set.len()).ok_or(EINVAL)?;
        set.expect(index, expected);
        Ok(())
    }))
}

/// # Safety
/// As `named_set`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_clear(set: *mut WaitSet<'static>) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named_set(set) }.map(WaitSet::clear))
}

/// # Safety
/// As `named_set`; `changed` as for `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_wait(set: *mut WaitSet<'static>, deadline_ns: u64, changed: *mut c_int) -> c_int {
    // SAFETY: passed on.
    let ended = unsafe { named_set(set) }.and_then(|set| {
        if set.is_empty() {
            return Err(EINVAL);
        }
        let first = set.changed();
        let wait = || match deadline_ns {
            NO_TIMEOUT => set.wait().map_err(|ChangedAt(index)| WaitMultipleError::Changed(index)),
            at => set.wait_deadline(foreign::instant(at)),
        };
        // SAFETY: passed on.
        unsafe { waited(first, changed, wait) }
    });
    value(ended, -1)
}
