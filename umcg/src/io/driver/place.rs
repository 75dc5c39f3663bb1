//! Where the driver's descriptors stand among the process's.
//!
//! A program that knows nothing of the library expects the lowest free number for each new
//! descriptor, and may close all that it does not know. So with interception the driver's stand
//! high, and are known ([`is_ours`]). A thread of the library's that opens files all the time does
//! so in a table of its own ([`set_apart`]).

use rustix::io::fcntl_dupfd_cloexec;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use umcg_core::call;

/// The lowest number for a descriptor of the driver's; 0 for any.
static LOWEST: AtomicI32 = AtomicI32::new(0);

/// The placed descriptors; -1 for none.
static OURS: [AtomicI32; 8] = [const { AtomicI32::new(-1) }; 8];

/// The thread with a table of its own; 0 for none.
static APART: AtomicI32 = AtomicI32::new(0);

/// From here on descriptors are placed at this number or above it.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn from(lowest: RawFd) {
    LOWEST.store(lowest, Relaxed);
}

/// Whether descriptors are placed: the program knows nothing of the library.
pub(crate) fn is_wanted() -> bool {
    LOWEST.load(Relaxed) != 0
}

/// Whether this is one of the placed descriptors.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn is_ours(fd: RawFd) -> bool {
    fd >= 0 && OURS.iter().any(|ours| ours.load(Relaxed) == fd)
}

/// Places a new descriptor.
///
/// # Errors
/// No descriptors left.
pub(crate) fn place(fd: OwnedFd) -> io::Result<OwnedFd> {
    let lowest = LOWEST.load(Relaxed);
    if lowest == 0 {
        return Ok(fd);
    }
    let placed = fcntl_dupfd_cloexec(&fd, lowest)?;
    let number = placed.as_raw_fd();
    OURS.iter()
        .find(|ours| ours.compare_exchange(-1, number, Relaxed, Relaxed).is_ok());
    Ok(placed)
}

/// The ranges of numbers between the placed ones, from `first` to `last`.
pub(crate) fn between(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut ours = OURS.each_ref().map(|ours| ours.load(Relaxed));
    ours.sort_unstable();
    let ours = ours
        .into_iter()
        .filter_map(|fd| u32::try_from(fd).ok())
        .filter(move |fd| (first..=last).contains(fd));
    let mut next = Some(first);
    let ends = ours.map(Some).chain([None]);
    let ranges = ends.filter_map(move |fd| {
        let first = next?;
        next = fd.and_then(|fd| fd.checked_add(1));
        match fd {
            Some(fd) => fd.checked_sub(1).map(|before| (first, before)),
            None => Some((first, last)),
        }
    });
    ranges.filter(|(first, last)| first <= last)
}

fn tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Whether the calling thread has no descriptors of the program's. Async-signal-safe.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn is_caller_apart() -> bool {
    APART.load(Relaxed) == tid()
}

/// Gives the calling thread a table of descriptors of its own, with the placed ones alone. False if
/// none are placed, or the kernel refuses: then it has the process's.
pub(crate) fn set_apart() -> bool {
    if !is_wanted() {
        return false;
    }
    APART.store(tid(), Relaxed);
    let mut flags = libc::CLOSE_RANGE_UNSHARE;
    // Copies of the program's would keep its files open.
    between(0, u32::MAX).all(|(first, last)| {
        // SAFETY: the first call gives the caller, a thread of the library's, a table of its own,
        // and it uses no descriptors but the placed ones.
        let result = unsafe { libc::close_range(first, last, flags as i32) };
        flags = 0;
        result == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_between_the_placed_ones() {
        for (ours, fd) in OURS.iter().zip([9, 3, 4]) {
            ours.store(fd, Relaxed);
        }
        let ranges = |first, last| between(first, last).collect::<Vec<_>>();
        assert_eq!(ranges(0, u32::MAX), [(0, 2), (5, 8), (10, u32::MAX)]);
        assert_eq!(ranges(3, 4), []);
        assert_eq!(ranges(4, 9), [(5, 8)]);
        assert_eq!(ranges(5, 6), [(5, 6)]);
        assert_eq!(ranges(9, 12), [(10, 12)]);
        OURS.iter().for_each(|ours| ours.store(-1, Relaxed));
    }
}
