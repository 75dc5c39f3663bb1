//! Waits of workers for descriptors that are none of this library's, by the driver of their
//! runtime.
//!
//! Each number has a source of its own, made at the first wait and kept for ever. The file that a
//! number names may be another one at each wait. So a wait tells the driver what the number names
//! now ([`Source::arm_anew`]), and a report about another file is a hint in vain: the caller tries
//! again.
//!
//! A number that is closed while workers wait for it: they try again, and learn of it.
//!
//! A number has [`ReadHints`], too: what the last calls on it have seen. They may be about another
//! file, or be old.
//!
//! # Reads that need no call of the driver
//!
//! A wait that was armed anew leaves a *belief*: the driver knows this file by this number, and the
//! file is blocking and has no time limit. While it is held, reads use the driver as the library's
//! own sockets do (S1 and S2 of [`source`](crate::io::driver::source)). A try that would wait, or a
//! short read of a TCP stream, makes the source unready. An unready source is waited for without a
//! try and without arming.
//!
//! - B1. *If the belief is true, no report is lost.* The state is read before the try. It is made
//!   unready by a compare-and-swap from that state, and only if it was armed. Each report, and each
//!   end of a driver, changes the state, so the swap fails then. Arming anew by another worker asks
//!   for a new report.
//! - B2. *A false belief costs time, once.* A wait that relies on it ends after 20 ms
//!   (`attempt::BELIEVED`). Then the belief is over, the flags are asked for, and the driver is
//!   armed anew, which makes it report data that is there.
//! - B3. *A hooked call that may make it false ends it before the kernel makes the call*: `close`,
//!   `dup2` and `dup3` that of their number, all others those of all numbers ([`changes`]). A
//!   worker that is handed the number afterwards sees no belief. So B2 is for calls that are not
//!   hooked: those in the program's own file, and of other processes.
//! - B4. *A short read says "no more" of TCP only.* There may be more datagrams, messages of a Unix
//!   socket, or lines of a terminal. So the kind is asked for, once for each file. Of TCP, too, the
//!   end and urgent data forbid it. What a former file had of these is forgotten when the driver is
//!   given a new one.
//!
//! Waits that last longer than the belief begin by asking, and have no timer. After
//! [`ReadHints::LONG`] of them the belief is tried again.

use crate::io::driver::Driver;
use crate::io::driver::pool;
use crate::io::driver::source::{Direction, ReadinessSnapshot, Source};
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

/// Counts by twos the hooked calls by which a file may have become non-blocking, or which may have
/// closed any number: no belief is older than the last of them.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// All beliefs end (B3).
pub(super) fn changes() {
    CHANGES.fetch_add(2, Relaxed);
}

/// The number is about to be closed, or to name another file (B3).
pub(super) fn forget(number: usize) {
    if let Some(number) = number_of(number) {
        number.hints.plain_at.store(0, Relaxed);
        number.hints.kind.store(UNKNOWN, Relaxed);
        number.hints.long.store(0, Relaxed);
    }
}

/// The kinds of files, for B4.
const UNKNOWN: u8 = 0;
const TCP: u8 = 1;
const OTHER: u8 = 2;

/// What the last waits for a number have seen. Its fields are read and written by themselves: a
/// wrong hint costs time only.
struct ReadHints {
    /// The belief: [`CHANGES`] when it began, and 1. Else 0.
    plain_at: AtomicU32,
    kind: AtomicU8,
    /// So many waits more are expected to outlast the belief.
    long: AtomicU8,
}

impl ReadHints {
    /// How many waits begin by asking, after one that has outlasted the belief.
    const LONG: u8 = 15;

    const fn new() -> ReadHints {
        ReadHints {
            plain_at: AtomicU32::new(0),
            kind: AtomicU8::new(UNKNOWN),
            long: AtomicU8::new(0),
        }
    }

    fn is_plain(&self) -> bool {
        self.plain_at.load(Relaxed) == CHANGES.load(Relaxed) | 1
    }
}

/// A number that a worker has waited for, and that is read now.
#[derive(Clone, Copy)]
pub(super) struct ReadNumber {
    number: usize,
    source: &'static Source,
    hints: &'static ReadHints,
}

impl ReadNumber {
    /// None if no worker has waited for it.
    pub(super) fn of(number: usize) -> Option<ReadNumber> {
        let source = source_of(number)?;
        let hints = &number_of(number)?.hints;
        Some(ReadNumber {
            number,
            source,
            hints,
        })
    }

    /// The state, for the try that follows. None without a belief.
    pub(super) fn look(self) -> Option<ReadinessSnapshot> {
        let seen = self.source.look();
        (seen.is_armed(Direction::Read) && self.hints.is_plain()).then_some(seen)
    }

    /// A try after `seen` would have waited.
    pub(super) fn not_now(self, seen: ReadinessSnapshot) {
        self.source.not_now(Direction::Read, seen);
    }

    /// A try after `seen` had less than it asked for.
    pub(super) fn had_less(self, seen: ReadinessSnapshot) {
        if self.is_tcp() {
            self.source.drained(Direction::Read, seen);
        }
    }

    fn is_tcp(self) -> bool {
        let kind = match self.hints.kind.load(Relaxed) {
            UNKNOWN => {
                let kind = kind_of(self.number);
                self.hints.kind.store(kind, Relaxed);
                kind
            }
            kind => kind,
        };
        kind == TCP
    }

    /// Whether a wait may rely on the belief. Takes one of the waits that are expected to be long.
    pub(super) fn is_quick(self) -> bool {
        if self.look().is_none() {
            return false;
        }
        let long = self.hints.long.load(Relaxed);
        self.hints.long.store(long.saturating_sub(1), Relaxed);
        long == 0
    }

    /// Waits, by the belief. False if the deadline has passed. Switches; no point of cancellation.
    pub(super) fn wait(self, reason: Reason, deadline: u64) -> bool {
        let is_ready = shielded_wait(self.source, Direction::Read, reason, deadline);
        if !is_ready {
            self.hints.long.store(ReadHints::LONG, Relaxed);
        }
        is_ready
    }

    /// The belief ends, and the caller asks about the file. Returns the age of the next belief.
    pub(super) fn ask(self) -> u32 {
        self.hints.plain_at.store(0, Relaxed);
        CHANGES.load(Relaxed) | 1
    }

    /// The file was asked, after `asked`: whether it is blocking without a time limit. The driver
    /// was armed anew for it. `is_new`: it did not know the file before.
    pub(super) fn learn(self, asked: u32, is_plain: bool, is_new: bool) {
        if is_new {
            self.hints.kind.store(UNKNOWN, Relaxed);
        }
        if is_plain {
            self.hints.plain_at.store(asked, Relaxed);
        }
    }
}

fn kind_of(number: usize) -> u8 {
    use rustix::net::{SocketType, ipproto, sockopt};
    // SAFETY: the kernel says if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(number as i32) };
    let is_tcp = sockopt::socket_type(fd) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(fd) == Ok(Some(ipproto::TCP));
    if is_tcp { TCP } else { OTHER }
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
    /// The driver did not know the file by this number.
    pub(super) is_new: bool,
}

impl ArmedNumber {
    /// Waits until the file may be read or written without a wait, or until the deadline. False if
    /// the deadline has passed. Switches; no point of cancellation.
    pub(super) fn wait(self, reason: Reason, deadline: u64) -> bool {
        shielded_wait(self.source, self.direction, reason, deadline)
    }
}

fn shielded_wait(
    source: &'static Source,
    direction: Direction,
    reason: Reason,
    deadline: u64,
) -> bool {
    cancel::shielded(|| source.wait(direction, reason, deadline))
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

/// Whether a worker has waited for this number.
#[inline]
pub(super) fn is_known(number: usize) -> bool {
    source_of(number).is_some()
}

/// The number was closed, or names another file: workers that wait for it, or are about to, try
/// again.
pub(super) fn rouse(number: usize) {
    if let Some(source) = source_of(number) {
        source.rouse();
    }
}
