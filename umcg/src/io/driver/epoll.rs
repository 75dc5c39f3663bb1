//! The epoll set, and the eventfd that ends a wait for it.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How many reports one wait takes.
pub(super) const REPORTS: usize = 256;

/// Keys that are no source's address.
const WAKE: u64 = 0;
const RING: u64 = 1;

pub(super) struct Epoll {
    set: OwnedFd,
    /// Never read: edge-triggered, each write is a report.
    wake: OwnedFd,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Epoll> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&set, &wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Epoll { set, wake })
    }

    /// Level-triggered: the ring is reported until somebody has emptied it, who need not be the poller.
    pub(super) fn add_ring(&self, ring: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.set, ring, EventData::new_u64(RING), EventFlags::IN)?)
    }

    pub(super) fn add(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, EventData::new_u64(key), flags)?)
    }

    pub(super) fn modify(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.set, fd, EventData::new_u64(key), flags)?)
    }

    /// Explicitly, not by closing it: a duplicate would keep it in the set.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.set, fd);
    }

    pub(super) fn wake(&self) {
        // It fails only after 2^64 wakes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Waits, and passes on what is reported about sources. True when the ring has completions.
    pub(super) fn wait(&self, timeout: Option<Duration>, report: &mut dyn FnMut(u64, EventFlags)) -> bool {
        let mut buffer = [const { MaybeUninit::<Event>::uninit() }; REPORTS];
        // A signal handler ends the wait without a report, which the caller takes as any other idle turn.
        let Ok(events) = wait(self.set.as_fd(), timeout, &mut buffer) else { return false };
        let mut ring = false;
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            match key {
                WAKE => {}
                RING => ring = true,
                _ => report(key, flags),
            }
        }
        ring
    }
}

/// `epoll_pwait2`, whose timeout is in nanoseconds; where it is missing or forbidden, `epoll_wait`, in milliseconds rounded up.
fn wait<'a>(
    set: BorrowedFd<'_>,
    timeout: Option<Duration>,
    buffer: &'a mut [MaybeUninit<Event>; REPORTS],
) -> Result<&'a [Event], Errno> {
    static COARSE: AtomicBool = AtomicBool::new(false);
    if !COARSE.load(Relaxed) {
        let until = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let until = until.as_ref().map_or(std::ptr::null(), |until| until as *const Timespec);
        // SAFETY: the buffer has room for so many events; the kernel's and rustix's types have the same layout.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                set.as_raw_fd(),
                buffer.as_mut_ptr(),
                REPORTS as i32,
                until,
                std::ptr::null::<()>(),
                0usize,
            )
        };
        match outcome(count) {
            Err(Errno::NOSYS | Errno::PERM) => COARSE.store(true, Relaxed),
            Err(error) => return Err(error),
            // SAFETY: the kernel filled in so many.
            Ok(count) => return Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), count) }),
        }
    }
    let until = timeout.map_or(-1, |timeout| timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32);
    // SAFETY: as above.
    let count = unsafe { libc::epoll_wait(set.as_raw_fd(), buffer.as_mut_ptr().cast(), REPORTS as i32, until) };
    let count = outcome(count.into())?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), count) })
}

fn outcome(result: i64) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
