//! The readiness of a file descriptor, as `poll` tells it.
//!
//! That is asked first, by poll(2) without a wait. Only who has to wait lets the driver know the
//! descriptor: by a duplicate of it, as epoll keeps one entry for each file and number, and a
//! socket of ours may be known there by its own. The duplicate, and its [`Source`], stay with the
//! operation: the next wait costs a poll(2), and nothing else of the kernel's.
//!
//! - R1: what the driver reports is a hint. It claims who stands in the source's queue, who then
//!   asks poll(2), and goes on waiting if another one was faster. So what was selected is so.
//! - R2: no report is lost. The source is made unready by who saw poll(2) say no, by a
//!   compare-and-swap from what it read before (S1 of [`source`](crate::io::driver::source)); and
//!   is looked at once more after the place stands in the queue (S3 there).
//! - R3: nothing of the operation is touched by others but the place, under the lock of the
//!   source's queue. Sources are never freed: a report that comes late finds a queue, of whomever
//!   it may be by now, and is a hint for that one.

use super::current;
use super::driver::pool;
use super::driver::source::{Direction, Source as Told};
use crate::rt::wait::{ClaimedList, Place, Queued, Source};
use crate::select::operation::{Operation, Parts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

/// In the note of a place: poll(2) was asked, and there is an outcome. Before, and after a hint, it
/// is the direction.
const KNOWN: usize = 2;

/// Done when something can be read from a descriptor, or written to it. By [`readable`] and
/// [`writable`].
pub struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    direction: Direction,
    place: Place,
    /// None until somebody had to wait.
    watch: RefCell<Option<Watch>>,
    /// The place is to leave the source's queue.
    entered: Cell<bool>,
    outcome: RefCell<Option<io::Result<()>>>,
}

/// What the driver knows the descriptor by.
struct Watch {
    fd: OwnedFd,
    source: &'static Told,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.source.release(self.fd.as_fd());
    }
}

/// The descriptor's readiness for reading, as an operation, to wait for it beside others: done when
/// poll(2) says POLLIN, POLLHUP or POLLERR of it, so that reading does not wait. Nothing is read.
/// What somebody else reads before the caller does is gone: where there are several readers the
/// descriptor should be non-blocking.
///
/// For sockets of ours and others', pipes, terminals, eventfds, pidfds and whatever else has
/// readiness; a regular file is always ready. A worker waits by the driver of its runtime, any
/// other thread by that of the [global runtime](crate::rt::global), which is started for that.
/// While it is waited for, and until the operation is dropped, the driver has a duplicate of the
/// descriptor.
///
/// Its outcome is an error, at once, when the descriptor cannot be asked or waited for: there are
/// too many, or the runtime was left behind by a fork.
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

/// The same for writing: done when poll(2) says POLLOUT, POLLHUP or POLLERR. A connection that is
/// being made is ready when that has succeeded or failed.
pub fn writable(fd: &impl AsFd) -> Readiness<'_> {
    Readiness::to_write(fd.as_fd())
}

impl<'a> Readiness<'a> {
    /// [`readable`], for who has the borrow already.
    pub fn to_read(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness::new(fd, Direction::Read)
    }

    /// [`writable`], likewise.
    pub fn to_write(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness::new(fd, Direction::Write)
    }

    fn new(fd: BorrowedFd<'a>, direction: Direction) -> Readiness<'a> {
        let (watch, outcome) = (RefCell::new(None), RefCell::new(None));
        Readiness {
            fd,
            direction,
            place: Place::new(),
            watch,
            entered: Cell::new(false),
            outcome,
        }
    }

    /// Asks the kernel. True when there is an outcome.
    fn look(&self) -> bool {
        let watch = self.watch.borrow();
        let seen = watch
            .as_ref()
            .map(|watch| (watch.source, watch.source.look()));
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

    /// Has the driver report the descriptor.
    fn arm(&self) -> io::Result<()> {
        let mut watch = self.watch.borrow_mut();
        // A fork's child has its own driver to tell.
        let kept = watch.take().filter(|watch| !watch.source.is_foreign());
        let watch = match kept {
            Some(kept) => watch.insert(kept),
            None => {
                let fd = rustix::io::fcntl_dupfd_cloexec(self.fd, 3)?;
                watch.insert(Watch {
                    fd,
                    source: pool::take(),
                })
            }
        };
        if watch.source.is_armed(self.direction) {
            Ok(())
        } else {
            watch
                .source
                .arm(watch.fd.as_fd(), &[self.direction], current::driver()?)
        }
    }

    fn source(&self) -> Option<&'static Told> {
        self.watch.borrow().as_ref().map(|watch| watch.source)
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
            // C may name what is not open.
            Ok(_) if polled[0].revents().contains(PollFlags::NVAL) => return Err(Errno::BADF),
            Ok(count) => return Ok(count > 0),
        }
    }
}

impl Parts for Readiness<'_> {
    fn source(&self) -> Option<&dyn Source> {
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
unsafe impl Source for Readiness<'_> {
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
        // SAFETY: who waits leaves the queue before the place ends.
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
