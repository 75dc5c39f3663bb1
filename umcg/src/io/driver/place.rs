//! Where the driver's descriptors stand among the process's.
//!
//! A program that knows nothing of the library expects the lowest free number for each new
//! descriptor, and may close all that it does not know. So with interception the driver's stand
//! high, and are known ([`is_ours`]).

use rustix::io::fcntl_dupfd_cloexec;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The lowest number for a descriptor of the driver's; 0 for any.
static LOWEST: AtomicI32 = AtomicI32::new(0);

/// The placed descriptors; -1 for none.
static OURS: [AtomicI32; 8] = [const { AtomicI32::new(-1) }; 8];

/// From here on descriptors are placed at this number or above it.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn from(lowest: RawFd) {
    LOWEST.store(lowest, Relaxed);
}

/// Whether this is one of the placed descriptors.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn is_ours(fd: RawFd) -> bool {
    fd >= 0 && OURS.iter().any(|ours| ours.load(Relaxed) == fd)
}

/// The placed descriptors, in any order.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn ours() -> impl Iterator<Item = RawFd> {
    OURS.iter()
        .map(|ours| ours.load(Relaxed))
        .filter(|fd| *fd >= 0)
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
