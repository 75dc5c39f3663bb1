//! Waits of workers for descriptors that are none of this library's, by the driver of their
//! runtime.
//!
//! Each number has a source of its own, made at the first wait and kept for ever. The file that a
//! number names may be another one at each wait, and nobody says so. So each wait tells the driver
//! what the number names now ([`Source::arm_anew`]), and a report about another file is a hint in
//! vain: the caller tries again.
//!
//! A number that is closed while workers wait for it: they try again, and learn of it.

use crate::io::driver::Driver;
use crate::io::driver::pool;
use crate::io::driver::source::{Direction, Source};
use crate::io::wait::Reason;
use crate::rt::engine::server;
use crate::rt::wait::cancel;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// How many numbers a page of the table has.
const PAGE: usize = 1024;
/// How many pages there are: the kernel's own limit is a million numbers.
const PAGES: usize = 1024;

type Page = [AtomicPtr<Source>; PAGE];

static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(null_mut()) }; PAGES];

/// The place of the number, if its page exists.
fn place_of(number: usize) -> Option<&'static AtomicPtr<Source>> {
    // ORDERING(page.1): Acquire, pairs with page.2: the page is seen whole.
    let page = TABLE.get(number / PAGE)?.load(Acquire);
    // SAFETY: null, or a page, which is never freed.
    unsafe { page.as_ref() }.map(|page| &page[number % PAGE])
}

fn make_place(number: usize) -> Option<&'static AtomicPtr<Source>> {
    let entry = TABLE.get(number / PAGE)?;
    if entry.load(Relaxed).is_null() {
        let page: Box<Page> = Box::new([const { AtomicPtr::new(null_mut()) }; PAGE]);
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
    place_of(number)
}

fn source_of(number: usize) -> Option<&'static Source> {
    // ORDERING(number.1): Acquire, pairs with number.2.
    let source = place_of(number)?.load(Acquire);
    // SAFETY: null, or a source, which is never freed.
    unsafe { source.as_ref() }
}

fn make_source(number: usize) -> Option<&'static Source> {
    let place = make_place(number)?;
    let new = pool::take();
    // ORDERING(number.2): Release, pairs with number.1.
    let stored = place.compare_exchange(null_mut(), from_ref(new).cast_mut(), Release, Relaxed);
    if stored.is_err() {
        // SAFETY: the source knows no file yet.
        new.release(unsafe { BorrowedFd::borrow_raw(number as i32) });
    }
    source_of(number)
}

/// Waits until the file may be read or written without a wait, or until the deadline. False if the
/// deadline has passed. The caller is a worker of a runtime. Switches; no point of cancellation.
///
/// # Errors
/// The driver's: the file cannot be waited for (`EPERM`), it is not open, or there are too many.
pub(super) fn wait(
    fd: i32,
    direction: Direction,
    reason: Reason,
    deadline: u64,
) -> io::Result<bool> {
    let number = usize::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let source = source_of(number)
        .or_else(|| make_source(number))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    let driver = server::running()
        .map(|running| Driver::of(running.local().shared()).clone())
        .ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the kernel says if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    source.arm_anew(fd, direction, driver)?;
    Ok(cancel::shielded(|| {
        source.wait(direction, reason, deadline)
    }))
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
