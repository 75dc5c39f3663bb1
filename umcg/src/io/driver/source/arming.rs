//! What the driver knows of a source: it is asked to report directions (S2), and forgets the source
//! in the end.

use super::{ARMED, CLOSED, Direction, READY, Source, TICK, URGENT, UnparkFn};
use crate::io::driver::{Driver, pool};
use crate::rt::wait::ClaimedList;
use rustix::event::epoll::EventFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::*;

impl Source {
    /// Asks the driver to report `directions`, for which the kernel has just said "not now". If no
    /// driver knows the descriptor yet, the caller's is asked.
    ///
    /// # Errors
    /// The driver's: the descriptor cannot be waited for, or there are too many.
    #[cold]
    pub(crate) fn arm(
        &'static self,
        fd: BorrowedFd<'_>,
        directions: &[Direction],
        here: Driver,
    ) -> io::Result<()> {
        let mut registration = self.registration.lock();
        // Checked under the lock: a driver that ends later finds this source.
        here.check()?;
        let state = self.state.load(Relaxed);
        let ready = directions
            .iter()
            .fold(0, |bits, direction| bits | direction.ready());
        let wanted = directions
            .iter()
            .fold(state & ARMED, |bits, direction| bits | direction.armed());
        if wanted == state & ARMED {
            return Ok(()); // another waiter was first
        }
        let flags = interest(wanted);
        self.ask(
            &mut registration,
            here,
            [ready, wanted],
            |known, here| match known {
                Some(driver) => driver.modify(fd, self.key(), flags),
                None => here.add(fd, self.key(), flags),
            },
        )
    }

    /// As [`arm`](Source::arm), for a source that stands for whatever file the descriptor's number
    /// names now: the driver is asked each time, since the file that it knows may be another one. A
    /// direction that is ready is reported again. True if the driver did not know the file by this
    /// number.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for interception")
    )]
    pub(crate) fn arm_anew(
        &'static self,
        fd: BorrowedFd<'_>,
        direction: Direction,
        here: Driver,
    ) -> io::Result<bool> {
        let mut registration = self.registration.lock();
        here.check()?;
        let wanted = self.state.load(Relaxed) & ARMED | direction.armed();
        let flags = interest(wanted);
        // Waiters that were told of the direction, and have not looked yet, are told again.
        let bits = [direction.ready(), wanted];
        self.ask(&mut registration, here, bits, |known, here| {
            match known.map(|driver| driver.modify(fd, self.key(), flags)) {
                Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Some(Ok(())) => Ok(false),
                _ => {
                    // Before its first report, which may set them again.
                    self.state.fetch_and(!(CLOSED | URGENT), Relaxed);
                    known
                        .unwrap_or(here)
                        .add(fd, self.key(), flags)
                        .map(|()| true)
                }
            }
        })
    }

    /// Makes these directions unready, and has the kernel asked for reports. `f` gets the driver
    /// that knows the source, if there is one, and the caller's. After that `wanted` is armed.
    fn ask<R>(
        &self,
        registration: &mut Option<Driver>,
        here: Driver,
        [ready, wanted]: [u64; 2],
        f: impl FnOnce(Option<&Driver>, &Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        // Done before the kernel is asked: its report may come at once (S2).
        self.state.fetch_and(!ready, Relaxed);
        match f(registration.as_ref(), &here) {
            Ok(result) => {
                self.state.fetch_or(wanted, Relaxed);
                registration.get_or_insert(here);
                Ok(result)
            }
            Err(error) => {
                self.state.fetch_or(ready, Relaxed);
                Err(error)
            }
        }
    }

    /// The driver ends. No direction is armed any more. All waiters try again, with the driver that
    /// they find then.
    pub(in crate::io::driver) fn driver_gone(
        &self,
        gone: &Driver,
        unpark: UnparkFn<'_>,
        claimed: &mut ClaimedList,
    ) {
        let mut registration = self.registration.lock();
        if !registration.as_ref().is_some_and(|driver| driver.is(gone)) {
            return;
        }
        *registration = None;
        self.set(|state| (state & !ARMED | READY).wrapping_add(TICK));
        drop(registration);
        self.call(Direction::Read, unpark, claimed);
        self.call(Direction::Write, unpark, claimed);
    }

    /// Called when the descriptor is about to be closed or given away. The caller is the last user
    /// of the source.
    pub(crate) fn release(&'static self, fd: BorrowedFd<'_>) {
        if self.is_inherited() {
            return; // the parent's driver still has it
        }
        let driver = self.registration.lock().take();
        if let Some(driver) = driver {
            driver.remove(fd);
        }
        self.generation.fetch_add(1, Relaxed);
        self.state.store(READY, Relaxed);
        pool::give(self);
    }
}

/// The events to ask the kernel for.
fn interest(armed: u64) -> EventFlags {
    let mut flags = EventFlags::ET;
    if armed & Direction::Read.armed() != 0 {
        flags |= EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI;
    }
    if armed & Direction::Write.armed() != 0 {
        flags |= EventFlags::OUT;
    }
    flags
}
