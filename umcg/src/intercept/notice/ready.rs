//! Waits of workers for descriptors that are none of this library's, by the driver of their
//! runtime.
//!
//! Each number has a source of its own, made at the first wait and kept for ever. The file that a
//! number names may be another one at each wait, and nobody says so. So each wait tells the driver
//! what the number names now ([`Source::arm_anew`]), and a report about another file is a hint in
//! vain: the caller tries again.
//!
//! A number that is closed while workers wait for it: they try again, and learn of it.
//!
//! A number has [`ReadHints`], too: what the last calls on it have seen. They save system calls and
//! are never relied upon, since they may be about another file, or be old.

use crate::io::driver::Driver;
use crate::io::driver::pool;
use crate::io::driver::source::{Direction, Source};
use crate::io::wait::Reason;
use crate::rt::engine::server;
use crate::rt::wait::cancel;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::*};

/// How many numbers a page of the table has.
const PAGE: usize = 1024;
/// How many pages there are: the kernel's own limit is a million numbers.
const PAGES: usize = 1024;

/// What is known of a number.
struct Number {
    source: AtomicPtr<Source>,
    hints: ReadHints,
}

impl Number {
    const fn new() -> Number {
        Number {
            source: AtomicPtr::new(null_mut()),
            hints: ReadHints::new(),
        }
    }
}

type Page = [Number; PAGE];

/// Counts by twos the hooked calls by which a file may have become non-blocking: no hint is older
/// than the last of them.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A file may become non-blocking.
pub(super) fn changes() {
    CHANGES.fetch_add(2, Relaxed);
}

/// What the last reads from a number have seen. Its fields are read and written by themselves: a
/// wrong hint costs time only.
pub(super) struct ReadHints {
    /// The file was blocking, and had no time limit: [`CHANGES`] then, and 1. Else 0.
    plain_at: AtomicU32,
    /// The last read had less than it asked for.
    was_short: AtomicU8,
    /// So many times more it is believed that such a read is followed by a wait.
    credit: AtomicU8,
}

impl ReadHints {
    /// So many waits are begun without a try before one is tried again.
    const CREDIT: u8 = 15;

    const fn new() -> ReadHints {
        ReadHints {
            plain_at: AtomicU32::new(0),
            was_short: AtomicU8::new(0),
            credit: AtomicU8::new(0),
        }
    }

    /// Whether the file was blocking without a time limit.
    pub(super) fn is_plain(&self) -> bool {
        self.plain_at.load(Relaxed) == CHANGES.load(Relaxed) | 1
    }

    pub(super) fn set_plain(&self, is_plain: bool) {
        let at = if is_plain {
            CHANGES.load(Relaxed) | 1
        } else {
            0
        };
        self.plain_at.store(at, Relaxed);
    }

    /// Whether a read that begins now will most likely wait. Takes one of the times.
    pub(super) fn expects_wait(&self) -> bool {
        let credit = self.credit.load(Relaxed);
        if credit == 0 || self.was_short.load(Relaxed) == 0 || !self.is_plain() {
            return false;
        }
        self.credit.store(credit - 1, Relaxed);
        true
    }

    /// The first try of a read would have waited.
    pub(super) fn waits(&self) {
        if self.was_short.load(Relaxed) != 0 {
            self.credit.store(Self::CREDIT, Relaxed);
        }
    }

    /// A read had data: less than it asked for, or all; at once, or after a wait.
    pub(super) fn had(&self, is_short: bool, at_once: bool) {
        if at_once && self.was_short.load(Relaxed) != 0 {
            self.credit.store(0, Relaxed);
        }
        self.was_short.store(u8::from(is_short), Relaxed);
    }
}

static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(null_mut()) }; PAGES];

/// The number's own place, if its page exists.
fn number_of(number: usize) -> Option<&'static Number> {
    // ORDERING(page.1): Acquire, pairs with page.2: the page is seen whole.
    let page = TABLE.get(number / PAGE)?.load(Acquire);
    // SAFETY: null, or a page, which is never freed.
    unsafe { page.as_ref() }.map(|page| &page[number % PAGE])
}

fn make_number(number: usize) -> Option<&'static Number> {
    let entry = TABLE.get(number / PAGE)?;
    if entry.load(Relaxed).is_null() {
        let page: Box<Page> = Box::new([const { Number::new() }; PAGE]);
        let page = Box::into_raw(page);
        // ORDERING(page.2): Release, pairs with page.1.
        if entry
            .compare_exchange(null_mut(), page, Release, Relaxed)
            .is_err()
        {
            // SAFETY: made just above, and given to nobody.
            drop(unsafe { Box::from_raw(page) });
        }
    }
    number_of(number)
}

/// The hints of a number that a worker has waited for.
pub(super) fn hints_of(number: usize) -> Option<&'static ReadHints> {
    let number = number_of(number)?;
    let is_known = !number.source.load(Relaxed).is_null();
    is_known.then_some(&number.hints)
}

fn source_of(number: usize) -> Option<&'static Source> {
    // ORDERING(number.1): Acquire, pairs with number.2.
    let source = number_of(number)?.source.load(Acquire);
    // SAFETY: null, or a source, which is never freed.
    unsafe { source.as_ref() }
}

fn make_source(number: usize) -> Option<&'static Source> {
    let place = &make_number(number)?.source;
    let new = pool::take();
    // ORDERING(number.2): Release, pairs with number.1.
    let stored = place.compare_exchange(null_mut(), from_ref(new).cast_mut(), Release, Relaxed);
    if stored.is_err() {
        // SAFETY: the source knows no file yet.
        new.release(unsafe { BorrowedFd::borrow_raw(number as i32) });
    }
    source_of(number)
}

/// A number that the driver reports.
pub(super) struct ArmedNumber {
    source: &'static Source,
    direction: Direction,
    /// The driver did not know the file: hints are about another one.
    pub(super) is_new: bool,
}

impl ArmedNumber {
    /// Waits until the file may be read or written without a wait, or until the deadline. False if
    /// the deadline has passed. Switches; no point of cancellation.
    pub(super) fn wait(self, reason: Reason, deadline: u64) -> bool {
        cancel::shielded(|| self.source.wait(self.direction, reason, deadline))
    }
}

/// Asks the driver to report the file with this number. The caller is a worker of a runtime.
///
/// # Errors
/// The driver's: the file cannot be waited for (`EPERM`), it is not open, or there are too many.
pub(super) fn arm(fd: i32, direction: Direction) -> io::Result<ArmedNumber> {
    let number = usize::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let source = source_of(number)
        .or_else(|| make_source(number))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    let driver = server::running()
        .map(|running| Driver::of(running.local().shared()).clone())
        .ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the kernel says if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let is_new = source.arm_anew(fd, direction, driver)?;
    Ok(ArmedNumber {
        source,
        direction,
        is_new,
    })
}

/// Whether a worker may wait for the file with this number.
#[inline]
pub(super) fn has_waiters(number: usize) -> bool {
    source_of(number).is_some_and(Source::may_have_waiters)
}

/// The number was closed, or names another file: workers that wait for it try again.
pub(super) fn rouse(number: usize) {
    if let Some(source) = source_of(number) {
        source.rouse();
    }
}
