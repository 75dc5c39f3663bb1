//! A descriptor that can be waited for: the loop of "try, and wait until it is worth trying again"
//! under sockets and pipes.
//!
//! The descriptor is non-blocking. The first system call is made without the driver. Only a caller
//! that has to wait gets a source and arms it. So a connection whose data is always there, or that
//! is answered and closed at once, never costs the driver anything.

use super::current;
use super::driver::pool;
use super::driver::source::{Direction, Source};
use super::wait::{self, Reason};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use std::{fmt, io, mem, ptr};

/// See the module's documentation.
pub(crate) struct Fd {
    /// None only while it is dropped or taken apart.
    fd: Option<OwnedFd>,
    /// Null until a caller had to wait.
    source: AtomicPtr<Source>,
    limits: [Limit; 2],
    /// Whether calls fail instead of waiting.
    impatient: AtomicBool,
}

/// How long one direction may wait; zero for no limit.
#[derive(Default)]
struct Limit {
    /// Nanoseconds from the beginning of each call.
    timeout: AtomicU64,
    /// Nanoseconds on the runtime's clock.
    deadline: AtomicU64,
}

/// How a system call shows that there is no more than it returned.
type Drained<R> = fn(&R, usize) -> bool;

impl Fd {
    /// Takes a non-blocking descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Fd {
        let source = AtomicPtr::new(ptr::null_mut());
        Fd {
            fd: Some(fd),
            source,
            limits: Default::default(),
            impatient: AtomicBool::new(false),
        }
    }

    /// Takes a descriptor that may be blocking: makes it, and all its duplicates, non-blocking.
    pub(crate) fn adopt(fd: OwnedFd) -> Fd {
        // It fails for no valid descriptor. If it did, calls would block, which is harmful but not
        // wrong.
        let _ = rustix::io::ioctl_fionbio(&fd, true);
        Fd::new(fd)
    }

    /// Another descriptor of the same file, with the same limits and the same setting for
    /// impatience.
    pub(crate) fn duplicate(&self) -> io::Result<Fd> {
        let copy = Fd::new(rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 3)?);
        for (to, from) in copy.limits.iter().zip(&self.limits) {
            to.timeout.store(from.timeout.load(Relaxed), Relaxed);
            to.deadline.store(from.deadline.load(Relaxed), Relaxed);
        }
        copy.set_impatient(self.impatient.load(Relaxed));
        Ok(copy)
    }

    /// The descriptor. The driver forgets it.
    pub(crate) fn into_inner(mut self) -> OwnedFd {
        self.release();
        match self.fd.take() {
            Some(fd) => fd,
            None => unreachable!("the descriptor is taken once"),
        }
    }

    /// Makes `call` until it does not say "not now". Waits in between as the limits allow.
    #[inline]
    pub(crate) fn call<R>(
        &self,
        direction: Direction,
        reason: Reason,
        call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        self.transfer(direction, reason, 0, |_, _| false, None, call)
    }

    /// Like [`Fd::call`], until `deadline` instead of the limits.
    pub(crate) fn call_until<R>(
        &self,
        direction: Direction,
        reason: Reason,
        deadline: u64,
        call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        self.transfer(direction, reason, 0, |_, _| false, Some(deadline), call)
    }

    /// Like [`Fd::call`] for a byte stream. Less than `asked` bytes mean that there is no more just
    /// now.
    #[inline]
    pub(crate) fn stream(
        &self,
        direction: Direction,
        reason: Reason,
        asked: usize,
        call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> io::Result<usize> {
        self.transfer(
            direction,
            reason,
            asked,
            |&done, asked| done < asked && done != 0,
            None,
            call,
        )
    }

    #[inline]
    fn transfer<R>(
        &self,
        direction: Direction,
        reason: Reason,
        asked: usize,
        drained: Drained<R>,
        deadline: Option<u64>,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        let mut deadline = deadline;
        let mut over: Option<ErrorKind> = None;
        loop {
            let source = self.source();
            let seen = source.map(Source::look);
            if seen.is_none_or(|seen| seen.is_ready(direction)) || over.is_some() {
                match call(self.as_fd()) {
                    Ok(result) => {
                        if let (Some(source), Some(seen), true) =
                            (source, seen, drained(&result, asked))
                        {
                            source.drained(direction, seen);
                        }
                        return Ok(result);
                    }
                    Err(Errno::AGAIN) => {
                        if let (Some(source), Some(seen)) = (source, seen) {
                            source.not_now(direction, seen);
                        }
                        if let Some(why) = over {
                            return Err(why.into());
                        }
                    }
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            let deadline = *deadline.get_or_insert_with(|| self.limits[direction as usize].end());
            over = self.pause(direction, reason, deadline)?;
        }
    }

    /// Waits until the call may be worth another try. None, or the reason why the next try is the
    /// last one. That try is made all the same: the driver may not have reported yet what the
    /// kernel knows.
    #[cold]
    #[inline(never)]
    fn pause(
        &self,
        direction: Direction,
        reason: Reason,
        deadline: u64,
    ) -> io::Result<Option<ErrorKind>> {
        if self.impatient.load(Relaxed) {
            return Ok(Some(ErrorKind::WouldBlock));
        }
        Ok((!self.wait(&[direction], reason, deadline)?).then_some(ErrorKind::TimedOut))
    }

    /// Like [`Fd::call`], for calls where the kernel says "not now" and offers no event to wait
    /// for: tries again, ever less often.
    pub(crate) fn call_at_intervals<R>(
        &self,
        direction: Direction,
        reason: Reason,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        let mut deadline = None;
        let mut interval = 50_000;
        loop {
            match call(self.as_fd()) {
                Ok(result) => return Ok(result),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if self.impatient.load(Relaxed) => {
                    return Err(ErrorKind::WouldBlock.into());
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            let deadline = *deadline.get_or_insert_with(|| self.limits[direction as usize].end());
            if deadline <= wait::after(0) {
                return Err(ErrorKind::TimedOut.into());
            }
            wait::park_until(reason, deadline.min(wait::after(interval)));
            interval = (interval * 2).min(10_000_000);
        }
    }

    /// Makes `call` once, if it may be worth it. None if the answer is "not now".
    pub(crate) fn try_call<R>(
        &self,
        direction: Direction,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<Option<R>> {
        let source = self.source();
        let seen = source.map(Source::look);
        while seen.is_none_or(|seen| seen.is_ready(direction)) {
            match call(self.as_fd()) {
                Ok(result) => return Ok(Some(result)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if let (Some(source), Some(seen)) = (source, seen) {
                        source.not_now(direction, seen);
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Waits until one of the two may be worth a read.
    pub(crate) fn wait_either(one: &Fd, other: &Fd, reason: Reason) -> io::Result<()> {
        let (one, other) = (
            one.armed(&[Direction::Read])?,
            other.armed(&[Direction::Read])?,
        );
        one.wait_either(other, Direction::Read, reason);
        Ok(())
    }

    /// Waits until the first of `directions` may be worth a try. The driver is asked to report all
    /// of them. False if `deadline` passes first.
    pub(crate) fn wait(
        &self,
        directions: &[Direction],
        reason: Reason,
        deadline: u64,
    ) -> io::Result<bool> {
        Ok(self
            .armed(directions)?
            .wait(directions[0], reason, deadline))
    }

    /// The source, armed for `directions`.
    fn armed(&self, directions: &[Direction]) -> io::Result<&'static Source> {
        let source = self.source().unwrap_or_else(|| self.make_source());
        if source.is_inherited() {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "the socket was waited for before the fork",
            ));
        }
        if !directions
            .iter()
            .all(|&direction| source.is_armed(direction))
        {
            source.arm(self.as_fd(), directions, current::driver()?)?;
        }
        Ok(source)
    }

    #[inline]
    fn source(&self) -> Option<&'static Source> {
        // ORDERING(source.1): Acquire, pairs with source.2.
        let source = self.source.load(Acquire);
        // SAFETY: sources are never freed.
        (!source.is_null()).then(|| unsafe { &*source })
    }

    fn make_source(&self) -> &'static Source {
        let new = pool::take();
        let raw = ptr::from_ref(new).cast_mut();
        // ORDERING(source.2): AcqRel, pairs with source.1: the source is seen as new, with no state
        // of a former owner.
        match self
            .source
            .compare_exchange(ptr::null_mut(), raw, AcqRel, Acquire)
        {
            Ok(_) => new,
            Err(other) => {
                new.release(self.as_fd());
                // SAFETY: as in `source`.
                unsafe { &*other }
            }
        }
    }

    fn release(&mut self) {
        let source = mem::replace(self.source.get_mut(), ptr::null_mut());
        if !source.is_null() {
            // SAFETY: as in `source`. The value is borrowed mutably, so no other thread uses the
            // source.
            unsafe { &*source }.release(self.as_fd());
        }
    }

    /// The timeout of the standard library: how long each call may wait.
    pub(crate) fn set_timeout(
        &self,
        direction: Direction,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let nanoseconds = timeout.map_or(0, |timeout| {
            u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
        });
        if timeout.is_some() && nanoseconds == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a timeout of zero"));
        }
        self.limits[direction as usize]
            .timeout
            .store(nanoseconds, Relaxed);
        Ok(())
    }

    pub(crate) fn timeout(&self, direction: Direction) -> Option<Duration> {
        match self.limits[direction as usize].timeout.load(Relaxed) {
            0 => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Sets whether calls fail with `WouldBlock` instead of waiting.
    pub(crate) fn set_impatient(&self, impatient: bool) {
        self.impatient.store(impatient, Relaxed);
    }

    /// Sets the moment until which all calls may wait.
    pub(crate) fn set_deadline(&self, direction: Direction, deadline: Option<Instant>) {
        let word = deadline.map_or(0, |deadline| wait::nanos(deadline).max(1));
        self.limits[direction as usize]
            .deadline
            .store(word, Relaxed);
    }
}

impl Limit {
    /// When a call that begins to wait now must stop.
    fn end(&self) -> u64 {
        let deadline = match self.deadline.load(Relaxed) {
            0 => wait::NEVER,
            deadline => deadline,
        };
        match self.timeout.load(Relaxed) {
            0 => deadline,
            timeout => deadline.min(wait::after(timeout)),
        }
    }
}

impl AsFd for Fd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Some(fd) => fd.as_fd(),
            None => unreachable!("the descriptor is there until the end"),
        }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if self.fd.is_some() {
            self.release();
        }
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fd.fmt(f)
    }
}
