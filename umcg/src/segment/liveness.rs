//! How other processes know that a process lives: it has ranges of the segment's file locked, and
//! the kernel frees them when it ends.
//!
//! The locks belong to an open file description (`F_OFD_SETLK`), which no other process may have. A
//! child after `fork` would have them: so the child closes all of them. `exec` closes them, too.

use super::memory::Memory;
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg_core::context::lock::HoldLock;
use umcg_core::fork::Part;

/// All such descriptors of this process.
static ALL: HoldLock<Vec<RawFd>> = HoldLock::new(Vec::new());

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// An open file description that belongs to this process alone.
#[derive(Debug)]
pub(super) struct Liveness {
    fd: RawFd,
    forks: u32,
}

impl Liveness {
    /// Another description of the segment's file.
    pub(super) fn open(segment: &Memory) -> io::Result<Liveness> {
        install()?;
        let path = format!("/proc/self/fd/{}", segment.file().as_raw_fd());
        let mut all = ALL.lock();
        // Opened under the lock, so that no fork comes in between. Not by the C library's `open`,
        // which may end the calling thread (`pthread_cancel`) while it holds the lock.
        let fd = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into_raw_fd();
        all.push(fd);
        Ok(Liveness {
            fd,
            forks: FORKS.load(Relaxed),
        })
    }

    /// Whether it belongs to the process that this one was forked from.
    #[inline]
    pub(super) fn is_inherited(&self) -> bool {
        self.forks != FORKS.load(Relaxed)
    }

    /// Locks a byte if no other process has it locked. Also true if it is locked through this
    /// description already.
    pub(super) fn try_lock(&self, byte: u32) -> bool {
        self.set(libc::F_WRLCK as i16, byte)
    }

    /// Why nothing can be locked at all; none if locking is possible.
    pub(super) fn refusal(&self) -> Option<io::Error> {
        // A byte that no process ever locks.
        (!self.set(libc::F_UNLCK as i16, u32::MAX)).then(io::Error::last_os_error)
    }

    pub(super) fn unlock(&self, byte: u32) {
        self.set(libc::F_UNLCK as i16, byte);
    }

    fn set(&self, kind: i16, byte: u32) -> bool {
        // SAFETY: all bits 0 are a value of it.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind;
        range.l_whence = libc::SEEK_SET as i16;
        range.l_start = byte.into();
        range.l_len = 1;
        // SAFETY: `range` is one, and outlives the call.
        unsafe { libc::fcntl(self.fd, libc::F_OFD_SETLK, &range) == 0 }
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        // After a fork it is closed already, and its number may belong to another file.
        if self.is_inherited() {
            return;
        }
        all.retain(|fd| *fd != self.fd);
        // SAFETY: opened by `open`, and closed nowhere else.
        unsafe { rustix::io::close(self.fd) };
    }
}

/// Makes forks known to this module.
fn install() -> io::Result<()> {
    static PART: Part = Part::new(Part::ABOVE, || ALL.take(), forked);
    Ok(PART.enter()?)
}

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(in_child: bool) {
    // SAFETY: taken before the fork.
    let mut all = unsafe { ALL.adopt() };
    if in_child {
        for fd in &*all {
            // SAFETY: a description of the parent's, which nothing here uses any more.
            unsafe { rustix::io::close(*fd) };
        }
        all.clear();
        FORKS.fetch_add(1, Relaxed);
    }
}
