//! The readiness of a file descriptor, as `poll` reports it.
//!
//! First poll(2) is called without a wait. Only an operation that has to wait registers the
//! descriptor with the driver. It registers a duplicate, because epoll keeps one entry for each
//! file and number, and a socket of this crate may be known there by its own number. The duplicate,
//! and its [`Source`], stay with the operation: its next wait costs one poll(2), and no other
//! system call.
//!
//! - R1: a report of the driver is a hint. It claims the waiter in the source's queue. The waiter
//!   then calls poll(2), and goes on waiting if another reader was faster. So a selected outcome is
//!   true.
//! - R2: no report is lost. The operation that saw poll(2) say no makes the source unready, by a
//!   compare-and-swap from the state that it read before (S1 of
//!   [`source`](crate::io::driver::source)). The source is checked once more after the place stands
//!   in the queue (S3 there).
//! - R3: other threads touch only the operation's place, under the lock of the source's queue.
//!   Sources are never freed. A report that comes late finds the queue of the source's present
//!   user, and is a hint for that one.

use super::current;
use super::driver::pool;
use super::driver::source::{Direction, Source};
use crate::rt::wait::{ClaimedList, Place, Queued, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

/// In the note of a place: poll(2) was called, and there is an outcome. Before that, and after a
/// hint, the note is the direction.
const KNOWN: usize = 2;

/// Completes when a descriptor can be read from, or written to. Made by [`readable`] and
/// [`writable`].
pub struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    direction: Direction,
    place: Place,
    /// None until the operation had to wait.
    registration: RefCell<Option<Registration>>,
    /// The place is in the source's queue, and has to leave it.
    entered: Cell<bool>,
    outcome: RefCell<Option<io::Result<()>>>,
}

/// The registration of the descriptor with the driver.
struct Registration {
    fd: OwnedFd,
    source: &'static Source,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.source.release(self.fd.as_fd());
    }
}

/// The descriptor's readiness for reading, as an operation, to wait for it beside others. It
/// completes when poll(2) reports POLLIN, POLLHUP or POLLERR, so that reading does not wait. No
/// data is read. Another reader may take the data before the caller does: if there are several
/// readers, the descriptor should be non-blocking.
///
/// Use it for sockets of this crate and others, pipes, terminals, eventfds, pidfds and all other
/// files that have readiness. A regular file is always ready. A worker waits by the driver of its
/// runtime. Any other thread waits by that of the [global runtime](crate::rt::global), which is
/// started for that. During a wait, and until the operation is dropped, the driver has a duplicate
/// of the descriptor.
///
/// Its outcome is an error, at once, if the descriptor cannot be polled or waited for, there are
/// too many descriptors, or the runtime was left behind by a fork.
///
/// ```
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// let (mut near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
/// let worker = umcg::spawn(move || {
///     umcg::select! {
///         ready = umcg::io::readable(&far) => ready.unwrap(),
///         () = umcg::select::after(Duration::from_secs(60)) => panic!("it takes too long"),
///     }
///     let mut letter = [0; 5];
///     far.read_exact(&mut letter).unwrap();
///     letter
/// });
/// near.write_all(b"hello").unwrap();
/// assert_eq!(&worker.join().unwrap(), b"hello");
/// ```
pub fn readable(fd: &impl AsFd) -> Readiness<'_> {
    Readiness::to_read(fd.as_fd())
}

/// The same for writing: completes when poll(2) reports POLLOUT, POLLHUP or POLLERR. A connection
/// that is being made is ready when that has succeeded or failed.
pub fn writable(fd: &impl AsFd) -> Readiness<'_> {
    Readiness::to_write(fd.as_fd())
}

impl<'a> Readiness<'a> {
    /// [`readable`], for a caller that already has the borrow.
    pub fn to_read(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness::new(fd, Direction::Read)
    }

    /// [`writable`], for a caller that already has the borrow.
    pub fn to_write(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness::new(fd, Direction::Write)
    }

    fn new(fd: BorrowedFd<'a>, direction: Direction) -> Readiness<'a> {
        let (registration, outcome) = (RefCell::new(None), RefCell::new(None));
        Readiness {
            fd,
            direction,
            place: Place::new(),
            registration,
            entered: Cell::new(false),
            outcome,
        }
    }

    /// Asks the kernel. True if there is an outcome.
    fn look(&self) -> bool {
        let registration = self.registration.borrow();
        let seen = registration
            .as_ref()
            .map(|registration| (registration.source, registration.source.look()));
        let outcome = match is_ready(self.fd, self.direction) {
            Ok(true) => Ok(()),
            Ok(false) => {
                if let Some((source, seen)) = seen {
                    source.not_now(self.direction, seen);
                }
                return false;
            }
            Err(error) => Err(error.into()),
        };
        *self.outcome.borrow_mut() = Some(outcome);
        true
    }

    /// Asks the driver to report the descriptor.
    fn arm(&self) -> io::Result<()> {
        let mut registration = self.registration.borrow_mut();
        // A fork's child must register with its own driver.
        let kept = registration
            .take()
            .filter(|registration| !registration.source.is_inherited());
        let registration = match kept {
            Some(kept) => registration.insert(kept),
            None => {
                let fd = rustix::io::fcntl_dupfd_cloexec(self.fd, 3)?;
                registration.insert(Registration {
                    fd,
                    source: pool::take(),
                })
            }
        };
        if registration.source.is_armed(self.direction) {
            Ok(())
        } else {
            registration.source.arm(
                registration.fd.as_fd(),
                &[self.direction],
                current::driver()?,
            )
        }
    }

    fn source(&self) -> Option<&'static Source> {
        self.registration
            .borrow()
            .as_ref()
            .map(|registration| registration.source)
    }
}

fn is_ready(fd: BorrowedFd<'_>, direction: Direction) -> Result<bool, Errno> {
    let asked = match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    };
    let mut polled = [PollFd::from_borrowed_fd(fd, asked)];
    loop {
        match poll(
            &mut polled,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        ) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            // A caller from C may name a descriptor that is not open.
            Ok(_) if polled[0].revents().contains(PollFlags::NVAL) => return Err(Errno::BADF),
            Ok(count) => return Ok(count > 0),
        }
    }
}

impl OperationParts for Readiness<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn note(&self) -> usize {
        self.direction as usize
    }

    fn prepare(&self) -> u64 {
        *self.outcome.borrow_mut() = self.arm().err().map(Err);
        u64::MAX
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    /// In a fork's child the source is another one.
    fn may_stay(&self) -> bool {
        false
    }

    fn finish(&self, note: usize) -> bool {
        note == KNOWN || self.look()
    }
}

// SAFETY: places are entered, left and claimed under the lock of the source's queue.
unsafe impl Queued for Readiness<'_> {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        self.entered.replace(false) && self.source().is_some_and(|source| source.leave(place))
    }
}

// SAFETY: as above.
unsafe impl SelectQueue for Readiness<'_> {
    fn serve_now(&self, _: usize) -> Option<usize> {
        self.look().then_some(KNOWN)
    }

    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        let Some(source) = self.source().filter(|_| self.outcome.borrow().is_none()) else {
            // It could not be armed.
            if claim() {
                place.note.set(KNOWN);
            }
            return;
        };
        self.entered.set(true);
        // SAFETY: a waiter leaves the queue before its place ends.
        if unsafe { source.enter(place, self.direction) } {
            claim();
        }
    }
}

impl Operation for Readiness<'_> {
    type Output = io::Result<()>;

    fn outcome(&mut self) -> io::Result<()> {
        self.outcome.take().expect("the operation was not selected")
    }
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("fd", &self.fd)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}
