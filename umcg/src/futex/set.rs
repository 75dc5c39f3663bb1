//! Waiting for the first of many words that is woken.

use super::many::{FutexEnd, MOST, Many};
use super::table::{Stand, address};
use super::{shared, table, wait_until, word};
use crate::rt::sync::{AtomicU32, Ordering::*};
use crate::rt::timed;
use crate::rt::wait::{self, Place};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const REASON: &&str = &"futexes";

/// Up to so many words need no memory but the stack.
const FEW: usize = 8;

/// A word to wait for, and its expected value.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    pub(super) word: &'a AtomicU32,
    pub(super) expected: u32,
    pub(super) is_shared: bool,
}

/// The word with this index had another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedAt(pub usize);

/// After so many waits in a row that need not stop, a set leaves the table.
const QUIET: u32 = 32;

/// Why the caller was not woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMultipleError {
    /// The word with this index had another value.
    Changed(usize),
    /// The time has passed.
    TimedOut,
}

impl fmt::Display for ChangedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the word number {} had another value", self.0)
    }
}

impl fmt::Display for WaitMultipleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitMultipleError::Changed(index) => ChangedAt(*index).fmt(f),
            WaitMultipleError::TimedOut => f.write_str("the time has passed"),
        }
    }
}

impl std::error::Error for ChangedAt {}
impl std::error::Error for WaitMultipleError {}

impl<'a> Wait<'a> {
    /// A word of this process.
    pub const fn new(word: &'a AtomicU32, expected: u32) -> Wait<'a> {
        Wait {
            word,
            expected,
            is_shared: false,
        }
    }

    /// A word that processes share, or that foreign code wakes by FUTEX_WAKE: see [`shared`].
    pub const fn shared(word: &'a AtomicU32, expected: u32) -> Wait<'a> {
        Wait {
            word,
            expected,
            is_shared: true,
        }
    }

    /// Whether the word has the expected value.
    #[inline]
    pub fn is_expected(&self) -> bool {
        self.word.load(Relaxed) == self.expected
    }
}

/// If all words have their expected values, waits until one of them is woken, and returns its
/// index. A word may be in the list more than once. A point of cancellation if it has to wait; a
/// wait that is cancelled has taken no wake-up. Switches.
///
/// The caller enters the queue of each word, and leaves all of them when it was woken. For repeated
/// waits for the same words, a [`WaitSet`] costs less.
///
/// # Errors
/// [`ChangedAt`].
///
/// # Panics
/// When the list is empty: it would wait for ever. When the kernel cannot wait for a shared word:
/// see [`shared`].
pub fn wait_multiple(words: &[Wait<'_>]) -> Result<usize, ChangedAt> {
    without_deadline(wait_multiple_until(words, u64::MAX))
}

timed! {
    "wait_multiple";
    /// # Errors
    /// [`WaitMultipleError`].
    ///
    /// # Panics
    /// As [`wait_multiple`].
    pub fn wait_multiple_deadline, wait_multiple_timeout(words: &[Wait<'_>])
        -> Result<usize, WaitMultipleError>;
    |deadline| wait_multiple_until(words, deadline)
}

fn without_deadline(result: Result<usize, WaitMultipleError>) -> Result<usize, ChangedAt> {
    result.map_err(|error| match error {
        WaitMultipleError::Changed(index) => ChangedAt(index),
        WaitMultipleError::TimedOut => unreachable!("a wait without a deadline was late"),
    })
}

impl From<FutexEnd> for Result<usize, WaitMultipleError> {
    fn from(end: FutexEnd) -> Self {
        match end {
            FutexEnd::Woken(index) => Ok(index),
            FutexEnd::Changed(index) => Err(WaitMultipleError::Changed(index)),
            FutexEnd::TimedOut => Err(WaitMultipleError::TimedOut),
            FutexEnd::Fault => panic!(
                "futex: the kernel cannot wait for a shared word in memory that this process may \
                 only read, and that nobody has ever written"
            ),
        }
    }
}

/// [`wait_multiple_deadline`] in nanoseconds.
pub(crate) fn wait_multiple_until(
    words: &[Wait<'_>],
    deadline: u64,
) -> Result<usize, WaitMultipleError> {
    wait_for_any(words, deadline).into()
}

/// [`wait_multiple_until`], with all its outcomes.
#[inline]
pub(crate) fn wait_for_any(words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    assert!(!words.is_empty(), "wait_multiple: an empty list");
    if let [
        Wait {
            word,
            expected,
            is_shared: false,
        },
    ] = words
    {
        return match wait_until(word, *expected, deadline) {
            Ok(()) => FutexEnd::Woken(0),
            Err(word::WaitError::Changed) => FutexEnd::Changed(0),
            Err(word::WaitError::TimedOut) => FutexEnd::TimedOut,
        };
    }
    if let Some(index) = changed(words).or_else(|| changed_soon(words, deadline)) {
        return FutexEnd::Changed(index);
    }
    let many = Many::new();
    let entries = words
        .iter()
        .enumerate()
        .map(|(index, word)| WordEntry::new(word, &many, index));
    if words.len() > FEW {
        return wait_once(&many, words, &entries.collect::<Vec<_>>(), deadline);
    }
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    let few: &mut [_] = &mut few[..words.len()];
    for (few, entry) in few.iter_mut().zip(entries) {
        few.write(entry);
    }
    // SAFETY: all were written.
    let few = unsafe { &*(few as *const [MaybeUninit<WordEntry>] as *const [WordEntry]) };
    wait_once(&many, words, few, deadline)
}

fn wait_once(many: &Many, words: &[Wait<'_>], entries: &[WordEntry], deadline: u64) -> FutexEnd {
    /// Takes the places out of the table, also when unwinding.
    struct Leave<'a>(&'a [Wait<'a>], &'a [WordEntry]);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            leave(self.0, self.1);
        }
    }
    let _leave = Leave(words, entries);
    // SAFETY: they stay in this frame until they have left.
    unsafe { enter(words, entries) };
    wait_for(
        many,
        words,
        words.iter().any(|wait| wait.is_shared),
        deadline,
    )
}

/// The record of one word: its place in the table.
#[repr(align(64))]
struct WordEntry {
    place: Place,
    stand: Stand,
}

impl WordEntry {
    fn new(wait: &Wait<'_>, many: *const Many, index: usize) -> WordEntry {
        WordEntry {
            place: Place::new(),
            stand: Stand::of_many(address(wait.word), many, index),
        }
    }
}

/// # Safety
/// The entries stay where they are until they have left.
unsafe fn enter(words: &[Wait<'_>], entries: &[WordEntry]) {
    let own = words
        .iter()
        .zip(entries)
        .filter(|(wait, _)| !wait.is_shared);
    wait::undisturbed(|_| {
        // SAFETY: passed on.
        own.for_each(|(_, entry)| unsafe { table().enter(&entry.stand, &entry.place) });
    });
}

fn leave(words: &[Wait<'_>], entries: &[WordEntry]) {
    let own = words
        .iter()
        .zip(entries)
        .filter(|(wait, _)| !wait.is_shared);
    wait::undisturbed(|_| {
        own.for_each(|(_, entry)| {
            table().leave(&entry.stand, &entry.place);
        });
    });
}

/// The first word that does not have its expected value.
#[inline]
pub(super) fn changed(words: &[Wait<'_>]) -> Option<usize> {
    words.iter().position(|wait| !wait.is_expected())
}

/// The same, if one changes while other workers run, or while a thread spins.
#[inline]
fn changed_soon(words: &[Wait<'_>], deadline: u64) -> Option<usize> {
    let look = || changed(words);
    wait::look_first(look).or_else(|| wait::second_look(deadline, look))
}

/// Waits for words whose places stand in the table, except for shared words.
#[inline]
fn wait_for(many: &Many, words: &[Wait<'_>], any_shared: bool, deadline: u64) -> FutexEnd {
    // Read only, at first.
    if let Some(index) = changed(words) {
        return FutexEnd::Changed(index);
    }
    if any_shared {
        return shared::wait_for(many, words, deadline);
    }
    many.arm();
    wait_armed(many, words, deadline)
}

/// Waits for the words whose places stand in the table. It is armed first; then the words are
/// compared (M2).
#[inline]
pub(super) fn wait_armed(many: &Many, words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    if let Some(index) = changed(words) {
        return many
            .disarm()
            .map_or(FutexEnd::Changed(index), FutexEnd::Woken);
    }
    many.wait(REASON, deadline)
        .map_or(FutexEnd::TimedOut, FutexEnd::Woken)
}

/// Words that are waited for again and again.
///
/// A set keeps its memory, and its places in the queues, from one wait to the next: a wait compares
/// the words, and stops; it costs the same few locked operations for one word and for a thousand.
/// It stands in a word's queue from the first wait on that stops, and goes to the end when it is
/// woken there. So it may be woken before a waiter that has waited for longer without a break, but
/// only once; then it is that waiter's turn. After 32 waits in a row that found a word changed the
/// set leaves the queues, until a wait stops again: wakers take no time for it meanwhile.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::*};
/// use umcg::futex::{self, WaitSet};
///
/// let words = [const { AtomicU32::new(0) }; 3];
/// let mut set: WaitSet = words.iter().map(|word| futex::Wait::new(word, 0)).collect();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         words[1].store(7, Release);
///         futex::wake(&words[1], 1);
///     });
///     let index = set.wait().unwrap_or_else(|changed| changed.0); // woken, or changed before
///     assert_eq!((index, words[index].load(Acquire)), (1, 7));
/// });
/// set.expect(1, 7);
/// words[2].store(1, Release);
/// assert_eq!(set.wait(), Err(futex::ChangedAt(2)));
/// ```
pub struct WaitSet<'a> {
    words: Vec<Wait<'a>>,
    /// Of the same length. Used by shared references only, because other threads may be looking at
    /// them. Their memory is never freed while one of them stands in the table, also if the set is
    /// forgotten.
    entries: Vec<WordEntry>,
    /// How many of them have entered.
    entered: usize,
    /// How many waits in a row have found a word that had changed, and did not stop.
    found: u32,
    any_shared: bool,
    many: NonNull<Many>,
}

// SAFETY: between waits it has no ties to a thread.
unsafe impl Send for WaitSet<'_> {}

impl<'a> WaitSet<'a> {
    /// An empty one.
    pub fn new() -> WaitSet<'a> {
        WaitSet::with_capacity(0)
    }

    /// An empty one with memory for so many words.
    pub fn with_capacity(words: usize) -> WaitSet<'a> {
        let (words, entries) = (Vec::with_capacity(words), Vec::with_capacity(words));
        // Last, as too large a capacity panics.
        let many = NonNull::from(Box::leak(Box::new(Many::new())));
        WaitSet {
            words,
            entries,
            entered: 0,
            found: 0,
            any_shared: false,
            many,
        }
    }

    fn many(&self) -> &Many {
        // SAFETY: from `with_capacity`, and freed by `drop`.
        unsafe { self.many.as_ref() }
    }

    /// Adds a word, which may be in the set already. Returns its index.
    ///
    /// # Panics
    /// When there are more than 1,000,000,000 words.
    pub fn push(&mut self, word: Wait<'a>) -> usize {
        let index = self.words.len();
        assert!(index < MOST, "WaitSet: too many words");
        if self.entries.len() == self.entries.capacity() {
            // They will move.
            self.leave();
        }
        self.entries
            .push(WordEntry::new(&word, self.many.as_ptr(), index));
        self.any_shared |= word.is_shared;
        self.words.push(word);
        index
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The first word that does not have its expected value. Does not wait.
    pub fn changed(&self) -> Option<usize> {
        changed(&self.words)
    }

    /// Sets the expected value of the word with this index.
    ///
    /// # Panics
    /// When there is no such word.
    #[inline]
    pub fn expect(&mut self, index: usize, value: u32) {
        self.words[index].expected = value;
    }

    /// Takes all words out. The memory is kept.
    pub fn clear(&mut self) {
        self.leave();
        self.entries.clear();
        self.words.clear();
        self.any_shared = false;
    }

    fn leave(&mut self) {
        leave(&self.words[..self.entered], &self.entries);
        self.entered = 0;
    }

    /// As [`wait_multiple`], for the words in the set. A point of cancellation if it has to wait.
    /// Switches.
    ///
    /// # Errors
    /// [`ChangedAt`].
    ///
    /// # Panics
    /// When the set is empty: it would wait for ever. When the kernel cannot wait for a shared
    /// word: see [`shared`].
    pub fn wait(&mut self) -> Result<usize, ChangedAt> {
        without_deadline(self.wait_until(u64::MAX))
    }

    timed! {
        "WaitSet::wait";
        /// # Errors
        /// [`WaitMultipleError`].
        ///
        /// # Panics
        /// As [`WaitSet::wait`].
        pub fn wait_deadline, wait_timeout(&mut self) -> Result<usize, WaitMultipleError>;
        |deadline| self.wait_until(deadline)
    }

    /// [`WaitSet::wait_deadline`] in nanoseconds.
    #[inline]
    pub(crate) fn wait_until(&mut self, deadline: u64) -> Result<usize, WaitMultipleError> {
        self.wait_for_any(deadline).into()
    }

    /// A wait has found a word that had changed. After many in a row the set is only in the way of
    /// the wakers.
    #[inline]
    fn note_found(&mut self) {
        self.found += 1;
        if self.found == QUIET {
            self.found = 0;
            self.leave();
        }
    }

    /// [`WaitSet::wait_until`], with all its outcomes.
    #[inline]
    pub(crate) fn wait_for_any(&mut self, deadline: u64) -> FutexEnd {
        assert!(!self.words.is_empty(), "WaitSet: nothing to wait for");
        let soon = || {
            // Where they are many, to stop costs less than a second look.
            if self.words.len() <= FEW {
                changed_soon(&self.words, deadline)
            } else {
                wait::look_first(|| self.changed())
            }
        };
        if let Some(index) = self.changed().or_else(soon) {
            self.note_found();
            return FutexEnd::Changed(index);
        }
        self.found = 0;
        if self.entered < self.words.len() {
            // SAFETY: `leave` takes them out before they move or end.
            unsafe { enter(&self.words[self.entered..], &self.entries[self.entered..]) };
            self.entered = self.words.len();
        }
        wait_for(self.many(), &self.words, self.any_shared, deadline)
    }
}

impl Drop for WaitSet<'_> {
    fn drop(&mut self) {
        self.leave();
        // SAFETY: from a box, and no place in the table names it any more.
        drop(unsafe { Box::from_raw(self.many.as_ptr()) });
    }
}

impl<'a> Extend<Wait<'a>> for WaitSet<'a> {
    fn extend<I: IntoIterator<Item = Wait<'a>>>(&mut self, words: I) {
        for word in words {
            self.push(word);
        }
    }
}

impl<'a> FromIterator<Wait<'a>> for WaitSet<'a> {
    fn from_iter<I: IntoIterator<Item = Wait<'a>>>(words: I) -> WaitSet<'a> {
        let words = words.into_iter();
        let mut set = WaitSet::with_capacity(words.size_hint().0);
        set.extend(words);
        set
    }
}

impl Default for WaitSet<'_> {
    fn default() -> Self {
        WaitSet::new()
    }
}

impl fmt::Debug for WaitSet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitSet")
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Not one that finds changes now and then: its words have to be changed all the time.
    #[test]
    fn a_set_that_never_has_to_stop_leaves_the_table_until_it_stops() {
        let words = [const { AtomicU32::new(0) }; 2];
        let mut set: WaitSet<'_> = words.iter().map(|word| Wait::new(word, 0)).collect();
        let stops = |set: &mut WaitSet<'_>| {
            let late = set.wait_timeout(Duration::from_millis(1));
            assert_eq!(late, Err(WaitMultipleError::TimedOut));
            assert_eq!(set.entered, 2);
        };
        let finds = |set: &mut WaitSet<'_>, times| {
            words[1].store(1, Relaxed);
            (0..times).for_each(|_| assert_eq!(set.wait(), Err(ChangedAt(1))));
            words[1].store(0, Relaxed);
        };
        stops(&mut set);
        finds(&mut set, QUIET - 1);
        stops(&mut set);
        finds(&mut set, QUIET);
        assert_eq!(set.entered, 0);
        stops(&mut set);
    }
}
