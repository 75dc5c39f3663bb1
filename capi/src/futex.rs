//! `umcg/futex.h`: C's names for `umcg::futex`.
//!
//! A call first compares.

use crate::answer::{answer, errno_of, require};
use crate::array;
use crate::object::{boxed, store, unboxed};
use crate::wait::{deadline, interruptible};
use libc::{EAGAIN, EFAULT, EINVAL, EOVERFLOW, ETIMEDOUT, c_int};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;
use umcg::futex::ffi::{self, FutexEnd};
use umcg::futex::{self, Changed, Requeued, Wait, WaitSet};
use umcg_core::guarded;

const SHARED: c_int = 1;
/// The largest index.
const MOST: usize = 1_000_000_000;
/// Up to this many words are copied to the stack.
const FEW: usize = 32;

/// `umcg_futex_word_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FutexWord {
    word: *const AtomicU32,
    expected: u32,
    flags: c_int,
}

const _: () = assert!(size_of::<FutexWord>() == 16 && align_of::<FutexWord>() == 8);

/// The word that C named, and its value now. EFAULT if it cannot be read, so later code may read it
/// without care.
///
/// # Safety
/// Where `word` can be read there is a word, which stays where it is as long as the caller uses it.
#[inline]
unsafe fn named<'a>(word: *const AtomicU32) -> Result<(&'a AtomicU32, u32), c_int> {
    named_address(word)?;
    let value = guarded::load(word.expose_provenance()).ok_or(EFAULT)?;
    // SAFETY: not null, aligned, can be read; for the rest by the contract.
    Ok((unsafe { &*word }, value))
}

/// The address of a word; the word need not exist.
fn named_address(word: *const AtomicU32) -> Result<usize, c_int> {
    require(!word.is_null() && word.is_aligned(), EINVAL)?;
    Ok(word.addr())
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

/// The word to wait for, and whether it has the expected value.
///
/// # Safety
/// As `named`.
#[inline]
unsafe fn wait_of<'a>(
    word: *const AtomicU32,
    expected: u32,
    flags: c_int,
) -> Result<(Wait<'a>, bool), c_int> {
    let is_shared = is_shared(flags)?;
    // SAFETY: passed on.
    let (word, value) = unsafe { named(word) }?;
    let wait = if is_shared {
        Wait::shared(word, expected)
    } else {
        Wait::new(word, expected)
    };
    Ok((wait, value == expected))
}

/// One of many, which were checked before.
///
/// # Safety
/// As `named`; it can be read, if it is not null.
#[inline]
unsafe fn one_of<'a>(word: &FutexWord) -> Result<Wait<'a>, c_int> {
    require(word.word.is_aligned(), EINVAL)?;
    let is_shared = is_shared(word.flags)?;
    // SAFETY: by the contract, and aligned.
    let at = unsafe { word.word.as_ref() }.ok_or(EINVAL)?;
    Ok(if is_shared {
        Wait::shared(at, word.expected)
    } else {
        Wait::new(at, word.expected)
    })
}

/// Whether all words that are not null can be read. Words of one page that stand together are
/// checked by one access.
fn are_readable(words: &[FutexWord]) -> bool {
    /// The smallest that there is.
    const PAGE: usize = 4096;
    let mut page = usize::MAX;
    words.iter().all(|word| {
        let here = word.word.addr() / PAGE;
        let is_near = here == page || word.word.is_null();
        page = here;
        is_near || guarded::is_readable(word.word.expose_provenance(), 1)
    })
}

/// Waits, and tells C how that ended.
///
/// # Safety
/// `changed` is null, or room for a number.
#[inline]
unsafe fn waited(
    first: Option<usize>,
    changed: *mut c_int,
    wait: impl FnOnce() -> FutexEnd,
) -> Result<c_int, c_int> {
    let ended = match first {
        // Without waiting, and so not cut short.
        Some(index) => FutexEnd::Changed(index),
        None => interruptible(wait)?,
    };
    match ended {
        FutexEnd::Woken(index) => Ok(index as c_int),
        FutexEnd::TimedOut => Err(ETIMEDOUT),
        FutexEnd::Fault => Err(EFAULT),
        FutexEnd::Changed(index) => {
            // SAFETY: by the contract.
            unsafe { store(changed, index as c_int) };
            Err(EAGAIN)
        }
    }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wait(
    word: *const AtomicU32,
    expected: u32,
    flags: c_int,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let wait = unsafe { wait_of(word, expected, flags) };
    answer(wait.and_then(|(wait, is_expected)| {
        let first = (!is_expected).then_some(0);
        // SAFETY: null.
        unsafe {
            waited(first, null_mut(), || {
                ffi::wait_multiple(&[wait], deadline(deadline_ns))
            })
        }
        .map(drop)
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wake(word: *const AtomicU32, most: c_int, flags: c_int) -> c_int {
    let woken = named_address(word).and_then(|address| {
        let most = count(most)?;
        if !is_shared(flags)? {
            return Ok(ffi::wake(address, most));
        }
        // SAFETY: passed on.
        let (word, _) = unsafe { named(word) }?;
        ffi::wake_shared(word, most).map_err(errno_of)
    });
    answer(woken)
}

/// # Safety
/// As `named`, for both.
unsafe fn requeue(
    (from, expected): (*const AtomicU32, Option<u32>),
    to: *const AtomicU32,
    (wake, others): (c_int, c_int),
    flags: c_int,
) -> Result<Requeued, c_int> {
    named_address(to)?;
    named_address(from)?;
    let (wake, others) = (count(wake)?, count(others)?);
    let is_shared = is_shared(flags)?;
    // SAFETY: passed on.
    let (from, _) = unsafe { named(from) }?;
    // SAFETY: passed on.
    let (to, _) = unsafe { named(to) }?;
    match (is_shared, expected) {
        (false, None) => Ok(futex::requeue(from, to, wake, others)),
        (false, Some(expected)) => {
            futex::cmp_requeue(from, expected, to, wake, others).map_err(|Changed| EAGAIN)
        }
        (true, _) => ffi::requeue_shared((from, expected), to, wake, others).map_err(errno_of),
    }
}

fn both(done: Result<Requeued, c_int>) -> c_int {
    answer(done.map(|done| done.woken + done.moved))
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
unsafe fn wait_multiple(
    words: *const FutexWord,
    n: c_int,
    deadline_ns: u64,
    changed: *mut c_int,
) -> Result<c_int, c_int> {
    let size = count(n).unwrap_or(0).saturating_mul(size_of::<FutexWord>());
    let is_array = size != 0 && !words.is_null() && words.is_aligned();
    require(
        !is_array || guarded::is_readable(words.expose_provenance(), size),
        EFAULT,
    )?;
    // SAFETY: passed on.
    let words = unsafe { array(words, n) }?;
    require(are_readable(words), EFAULT)?;
    let len = words.len();
    // SAFETY: passed on; each can be read.
    let mut waits = words.iter().map(|word| unsafe { one_of(word) });
    let wait = |waits: &[Wait<'_>]| {
        let first = waits.iter().position(|wait| !wait.is_expected());
        // SAFETY: passed on.
        unsafe {
            waited(first, changed, || {
                ffi::wait_multiple(waits, deadline(deadline_ns))
            })
        }
    };
    if len > FEW {
        return wait(&waits.collect::<Result<Vec<_>, _>>()?);
    }
    static NOTHING: AtomicU32 = AtomicU32::new(0);
    let mut few = [Wait::new(&NOTHING, 0); FEW];
    few.iter_mut()
        .zip(&mut waits)
        .try_for_each(|(place, wait)| wait.map(|wait| *place = wait))?;
    wait(&few[..len])
}

/// # Safety
/// As `wait_multiple`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_futex_wait_multiple(
    words: *const FutexWord,
    n: c_int,
    deadline_ns: u64,
    changed: *mut c_int,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { wait_multiple(words, n, deadline_ns, changed) })
}

#[unsafe(no_mangle)]
extern "C" fn umcg_waitset_create() -> *mut WaitSet<'static> {
    boxed(Ok::<_, c_int>(WaitSet::new()))
}

/// # Safety
/// `set` is null, or came from `umcg_waitset_create` and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_destroy(set: *mut WaitSet<'static>) {
    // SAFETY: passed on.
    unsafe { unboxed(set) };
}

/// The set that C named.
///
/// # Safety
/// `set` is null, or came from `umcg_waitset_create`, and no other thread uses it.
unsafe fn named_set<'a>(set: *mut WaitSet<'static>) -> Result<&'a mut WaitSet<'static>, c_int> {
    // SAFETY: by the contract.
    unsafe { set.as_mut() }.ok_or(EINVAL)
}

/// # Safety
/// As `named_set`; the word as for `named`, until it is taken out.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_add(
    set: *mut WaitSet<'static>,
    word: *const AtomicU32,
    expected: u32,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named_set(set) }.and_then(|set| {
        // SAFETY: passed on.
        let (wait, _) = unsafe { wait_of(word, expected, flags) }?;
        require(set.len() < MOST, EOVERFLOW)?;
        Ok(set.push(wait))
    }))
}

/// # Safety
/// As `named_set`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_expect(
    set: *mut WaitSet<'static>,
    index: c_int,
    expected: u32,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named_set(set) }.and_then(|set| {
        let index = count(index)?;
        require(index < set.len(), EINVAL)?;
        set.expect(index, expected);
        Ok(())
    }))
}

/// # Safety
/// As `named_set`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_clear(set: *mut WaitSet<'static>) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named_set(set) }.map(WaitSet::clear))
}

/// # Safety
/// As `named_set`; `changed` as for `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_waitset_wait(
    set: *mut WaitSet<'static>,
    deadline_ns: u64,
    changed: *mut c_int,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named_set(set) }.and_then(|set| {
        require(!set.is_empty(), EINVAL)?;
        let first = set.changed();
        // SAFETY: passed on.
        unsafe { waited(first, changed, || ffi::wait_set(set, deadline(deadline_ns))) }
    }))
}
