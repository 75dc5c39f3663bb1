//! The epoll set, and the eventfd that ends a wait for it.
//!
//! The eventfd is always ready to be written. So a wait is ended by changing what the set reports
//! of it: the change causes a report. Nothing is written to it unless the change is refused. So a
//! program may close descriptors it does not know, or put others in their places, without losing
//! anything by this. And this module notices it: the kernel does not find the eventfd in the set
//! any more.
//!
//! A refusal here would stop all input and output in silence, or make a server spin. So each call
//! has another one that stands in for it. If that fails, too, the process ends with a line that
//! says why.

use super::place::place;
use super::uring::is_passing;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use umcg_core::context::way::nap;

/// How many reports one wait takes.
pub(super) const REPORTS: usize = 256;

/// Keys that are no source's address.
const WAKE: u64 = 0;
const RING: u64 = 1;

/// How many nanoseconds a poller stays away when the kernel has no memory for a wait.
const PAUSE: u32 = 1_000_000;
/// How often that may happen in a row before it counts as a refusal.
const PATIENCE: u32 = 2000;

/// The events of the eventfd to report: that it can be written, each time that this is asked for.
const WAKING: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::ET);

type EventBuffer = [MaybeUninit<Event>; REPORTS];

pub(super) struct Epoll {
    set: OwnedFd,
    wake: OwnedFd,
    /// Whether `epoll_pwait2` is missing or forbidden.
    is_coarse: AtomicBool,
    /// Waits in a row for which the kernel had no memory.
    refusals: AtomicU32,
}

impl Epoll {
    /// # Errors
    /// No descriptors or memory left, or a call is refused.
    pub(super) fn new() -> io::Result<Epoll> {
        let set = place(epoll::create(CreateFlags::CLOEXEC)?)?;
        let wake = place(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)?;
        epoll::add(&set, &wake, EventData::new_u64(WAKE), WAKING)?;
        let epoll = Epoll {
            set,
            wake,
            is_coarse: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
        };
        match epoll.wait_for(
            Some(Duration::ZERO),
            &mut [const { MaybeUninit::uninit() }; REPORTS],
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(epoll),
            Err(error) => Err(error.into()),
        }
    }

    /// Level-triggered: the ring is reported until a thread has emptied it, which need not be the
    /// poller.
    pub(super) fn add_ring(&self, ring: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(
            &self.set,
            ring,
            EventData::new_u64(RING),
            EventFlags::IN,
        )?)
    }

    pub(super) fn add(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        epoll::add(&self.set, fd, EventData::new_u64(key), flags)
            .map_err(|error| self.refused(error))
    }

    pub(super) fn modify(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        epoll::modify(&self.set, fd, EventData::new_u64(key), flags)
            .map_err(|error| self.refused(error))
    }

    /// Passes an error on to the owner of the descriptor that the call named. An error about the
    /// set itself ends the process: the program may have given the set's number to another file.
    #[cold]
    fn refused(&self, error: Errno) -> io::Error {
        if matches!(error, Errno::INVAL | Errno::BADF) && !self.is_there() {
            lost("epoll_ctl", error);
        }
        error.into()
    }

    /// Whether the descriptor is an epoll set. It is asked for a report with no place to put it: a
    /// set answers that it has none, or EFAULT, and keeps the report. The call is one that waiting
    /// needs too, as a filter may allow no other. It is not the C library's, from which a thread
    /// that was cancelled does not return.
    fn is_there(&self) -> bool {
        let set = self.set.as_raw_fd();
        let (nowhere, no_mask) = (std::ptr::null_mut::<Event>(), std::ptr::null::<()>());
        let count = if self.is_coarse.load(Relaxed) {
            // SAFETY: nothing is written, as there is no memory at that address.
            unsafe { libc::syscall(libc::SYS_epoll_pwait, set, nowhere, 1, 0, no_mask, 0usize) }
        } else {
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: as above.
            unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    set,
                    nowhere,
                    1,
                    &raw const at_once,
                    no_mask,
                    0usize,
                )
            }
        };
        !matches!(outcome(count), Err(Errno::INVAL | Errno::BADF))
    }

    /// Removes the descriptor from the set explicitly. Closing it is not enough: a duplicate would
    /// keep it in the set.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.set, fd);
    }

    /// Ends a wait: the one that is under way, or else the next one.
    pub(super) fn wake(&self) {
        if let Err(error) = epoll::modify(&self.set, &self.wake, EventData::new_u64(WAKE), WAKING) {
            self.wake_otherwise(error);
        }
    }

    /// Ends a wait by writing, if the descriptor is still the eventfd.
    #[cold]
    fn wake_otherwise(&self, error: Errno) {
        // A file that is in no file system has no type.
        let is_ours = rustix::fs::fstat(&self.wake).map_or_else(
            |error| error != Errno::BADF,
            |stat| stat.st_mode & libc::S_IFMT == 0,
        );
        let one = 1u64.to_ne_bytes();
        let is_written = || {
            rustix::io::write(&self.wake, &one).is_ok()
                || rustix::io::writev(&self.wake, &[IoSlice::new(&one)]).is_ok()
        };
        if !is_ours || !is_written() {
            lost("epoll_ctl", error);
        }
    }

    /// Waits, and passes on the reports about sources. True if the ring has completions.
    pub(super) fn wait(
        &self,
        timeout: Option<Duration>,
        report: &mut dyn FnMut(u64, EventFlags),
    ) -> bool {
        let mut buffer: EventBuffer = [const { MaybeUninit::uninit() }; REPORTS];
        let events = match self.wait_for(timeout, &mut buffer) {
            Ok(events) => events,
            // A signal handler ends the wait without a report. The caller treats that as any other
            // idle turn.
            Err(Errno::INTR) => return false,
            Err(error)
                if is_passing(&error.into()) && self.refusals.fetch_add(1, Relaxed) < PATIENCE =>
            {
                nap(PAUSE);
                return false;
            }
            Err(error) => lost("epoll_wait", error),
        };
        if self.refusals.load(Relaxed) != 0 {
            self.refusals.store(0, Relaxed);
        }
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

    /// `epoll_pwait2`, whose timeout is in nanoseconds. Where it is missing or forbidden:
    /// `epoll_wait`, in milliseconds rounded up, or `epoll_pwait`.
    fn wait_for<'a>(
        &self,
        timeout: Option<Duration>,
        buffer: &'a mut EventBuffer,
    ) -> Result<&'a [Event], Errno> {
        let set = self.set.as_raw_fd();
        let mut count = Err(Errno::NOSYS);
        if !self.is_coarse.load(Relaxed) {
            count = fine(set, timeout, buffer);
        }
        if !matches!(count, Ok(_) | Err(Errno::INTR)) {
            let until = timeout.map_or(-1, |timeout| {
                timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
            });
            let (refused, events) = (count, buffer.as_mut_ptr());
            // SAFETY: the buffer has room for this many events; the kernel's and rustix's types
            // have the same layout.
            count = outcome(
                unsafe { libc::epoll_wait(set, events.cast(), REPORTS as i32, until) }.into(),
            );
            if !matches!(count, Ok(_) | Err(Errno::INTR)) {
                // SAFETY: as above.
                count = outcome(
                    unsafe {
                        libc::epoll_pwait(
                            set,
                            events.cast(),
                            REPORTS as i32,
                            until,
                            std::ptr::null(),
                        )
                    }
                    .into(),
                );
            }
            if count.is_ok() && refused.is_err_and(|error| !is_passing(&error.into())) {
                self.is_coarse.store(true, Relaxed);
            }
        }
        // SAFETY: the kernel has filled in this many.
        Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), count?) })
    }
}

fn fine(set: RawFd, timeout: Option<Duration>, buffer: &mut EventBuffer) -> Result<usize, Errno> {
    let until = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let until = until
        .as_ref()
        .map_or(std::ptr::null(), |until| until as *const Timespec);
    // SAFETY: the buffer has room for this many events; the kernel's and rustix's types have the
    // same layout.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set,
            buffer.as_mut_ptr(),
            REPORTS as i32,
            until,
            std::ptr::null::<()>(),
            0usize,
        )
    };
    outcome(count)
}

fn outcome(result: i64) -> Result<usize, Errno> {
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Ends the process: no party that waits for this driver would ever go on.
#[cold]
fn lost(call: &str, error: Errno) -> ! {
    umcg_core::fatal(format_args!(
        "{call} fails on the runtime's own descriptors ({error}): they were closed or replaced by \
         the program, or system calls are filtered that were allowed before"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;
    use std::os::fd::AsFd;
    use std::ptr::null_mut;

    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    }

    /// The body of a thread that is to end at its next point of cancellation of the C library's.
    extern "C" fn add_as_a_cancelled_thread(_: *mut c_void) -> *mut c_void {
        const DISABLE: i32 = 1;
        let Ok(epoll) = Epoll::new() else {
            return null_mut();
        };
        // SAFETY: no preconditions.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: the calling thread.
        unsafe { pthread_cancel(me) };
        // A set cannot be in itself.
        let added = epoll.add(epoll.set.as_fd(), 2, EventFlags::IN);
        // SAFETY: for the rest of this thread's life.
        unsafe { pthread_setcancelstate(DISABLE, null_mut()) };
        let is_refused = added.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
        std::ptr::without_provenance_mut(usize::from(is_refused))
    }

    #[test]
    #[cfg_attr(umcg_tsan, ignore = "ThreadSanitizer allows no threads after a fork")]
    fn a_refusal_is_no_point_of_cancellation() {
        // SAFETY: the child makes a thread, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (mut thread, mut result) = (0, null_mut());
            // SAFETY: the function takes any argument.
            let made = unsafe {
                libc::pthread_create(
                    &raw mut thread,
                    std::ptr::null(),
                    add_as_a_cancelled_thread,
                    null_mut(),
                )
            };
            // SAFETY: made just now, and joined once.
            let joined = made == 0 && unsafe { libc::pthread_join(thread, &raw mut result) } == 0;
            // SAFETY: ends the process, running nothing of the parent's.
            unsafe { libc::_exit(if joined && result.addr() == 1 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
