//! The driver: a runtime learns from it that a file can be read or written, or that an operation is
//! complete.
//!
//! ```text
//!    sockets, pipes, pidfds ----> Source (source.rs) ---+
//!                                                       +--> epoll <-- the one server that polls
//!    files, ttys ----> UringOperation (uring/) ---> ring +       ^
//!                                                   wake(): eventfd
//! ```
//!
//! Descriptors that have readiness are reported by epoll, edge-triggered. Operations on others are
//! carried out by io_uring where there is one, and on helper threads where not. The ring's
//! descriptor is in epoll's set, so there is one place to wait at. `docs/decisions/0006-io.md`
//! gives the reasons and the figures. If a ring could not be made because of a shortage, a later
//! operation tries again.
//!
//! Any server may poll; one at a time does (`polling`). Waiters are unparked after that lock is
//! free again. So a waiter that wakes up, and the server that runs it, find the driver free.
//!
//! `sleeper` says whether the poller is in the kernel: AWAKE, ASLEEP, NOTIFIED. `wake` before a
//! blocking poll is remembered and ends it at once.
//!
//! A driver ends when its runtime does, while sockets that it knows may live on. `close` makes
//! their waiters try again, with the driver that they find then. A fork's child may not use the
//! parent's driver: each operation fails there, before it touches any of it.

mod epoll;
mod harmless;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod source;
pub(crate) mod uring;

use crate::io::wait::{NEVER, after};
use crate::rt::engine::poller::Poller;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::task::Handle;
use crate::rt::wait::queue::{self, ClaimedList};
use epoll::Epoll;
use rustix::event::epoll::EventFlags;
use source::Source;
use std::any::Any;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};
use umcg_core::asymmetric::full_fence;
use uring::IoRing;

/// How a runtime does its input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverKind {
    /// The value of the environment variable `UMCG_DRIVER` (`io_uring` or `epoll`). Without it,
    /// `IoUring` if the kernel allows it, else `Epoll`.
    #[default]
    Auto,
    /// Files by io_uring, sockets by epoll.
    IoUring,
    /// Files on helper threads, sockets by epoll.
    Epoll,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriverKind::Auto => "auto",
            DriverKind::IoUring => "io_uring",
            DriverKind::Epoll => "epoll",
        })
    }
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Driver(Arc<DriverState>);

struct DriverState {
    epoll: Epoll,
    ring: OnceLock<IoRing>,
    /// If there is no ring: when to try again to make one; [`NEVER`] if the cause was not a passing
    /// shortage.
    ring_at: AtomicU64,
    polling: AtomicBool,
    sleeper: AtomicU32,
    /// Descriptors that epoll knows.
    sources: AtomicUsize,
    open: AtomicBool,
    /// The value of [`pool::forks`] when the driver was made.
    born: u32,
}

impl Driver {
    /// A driver of this kind.
    ///
    /// # Errors
    /// No descriptors or memory left; or the kernel does not allow io_uring, and `kind` or the
    /// environment asks for it.
    pub(crate) fn new(kind: DriverKind) -> io::Result<Driver> {
        pool::install()?;
        let epoll = Epoll::new()?;
        let (ring, ring_at) = match asked(kind)? {
            DriverKind::Epoll => (None, NEVER),
            DriverKind::IoUring => (Some(epoll.make_ring()?), NEVER),
            DriverKind::Auto => match epoll.make_ring() {
                Ok(ring) => (Some(ring), NEVER),
                Err(error) => (None, again_at(&error)),
            },
        };
        Ok(Driver(Arc::new(DriverState {
            epoll,
            ring: ring.map_or_else(OnceLock::new, OnceLock::from),
            ring_at: AtomicU64::new(ring_at),
            polling: AtomicBool::new(false),
            sleeper: AtomicU32::new(AWAKE),
            sources: AtomicUsize::new(0),
            open: AtomicBool::new(true),
            born: pool::forks(),
        })))
    }

    /// The driver of a runtime.
    pub(crate) fn of(runtime: &RuntimeState) -> &Driver {
        match runtime.driver.as_any().downcast_ref() {
            Some(driver) => driver,
            None => unreachable!("a runtime is made with a driver of this type"),
        }
    }

    /// The kind that it became.
    pub(crate) fn kind(&self) -> DriverKind {
        if self.0.ring.get().is_some() {
            DriverKind::IoUring
        } else {
            DriverKind::Epoll
        }
    }

    /// Whether both are the same driver.
    pub(super) fn is(&self, other: &Driver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Checks whether the caller may use it.
    ///
    /// # Errors
    /// The driver has ended, or was made before a fork whose child this process is.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_left_behind() {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the runtime did not come along through the fork",
            ))
        } else if !self.0.open.load(Relaxed) {
            Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the runtime has ended",
            ))
        } else {
            Ok(())
        }
    }

    /// The driver's ring, if it has one. Called for an operation that is about to begin: a ring may
    /// be available by now.
    #[inline]
    pub(crate) fn ring(&self) -> Option<&IoRing> {
        self.0.ring.get().or_else(|| self.ask_for_ring())
    }

    #[cold]
    fn ask_for_ring(&self) -> Option<&IoRing> {
        let shared = &*self.0;
        let at = shared.ring_at.load(Relaxed);
        // Only one of the operations that come tries.
        let is_ours = at != NEVER
            && after(0) >= at
            && self.check().is_ok()
            && shared
                .ring_at
                .compare_exchange(at, NEVER, Relaxed, Relaxed)
                .is_ok();
        if !is_ours {
            return None;
        }
        match shared.epoll.make_ring() {
            Ok(ring) => Some(shared.ring.get_or_init(|| ring)),
            Err(error) => {
                shared.ring_at.store(again_at(&error), Relaxed);
                None
            }
        }
    }

    fn add(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        self.0.epoll.add(fd, key, flags)?;
        self.0.sources.fetch_add(1, Relaxed);
        Ok(())
    }

    fn modify(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> io::Result<()> {
        self.0.epoll.modify(fd, key, flags)
    }

    fn remove(&self, fd: BorrowedFd<'_>) {
        self.0.epoll.remove(fd);
        self.0.sources.fetch_sub(1, Relaxed);
    }
}

impl Poller for Driver {
    #[inline]
    fn has_sources(&self) -> bool {
        self.0.sources.load(Relaxed) != 0 || self.0.ring.get().is_some_and(IoRing::is_busy)
    }

    fn poll_while(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) -> bool {
        let shared = &*self.0;
        // ORDERING(polling.1): Acquire, pairs with polling.2: the buffers of the ring are as the
        // last poller left them.
        if shared.born != pool::forks()
            || shared.polling.load(Relaxed)
            || shared.polling.swap(true, Acquire)
        {
            return false;
        }
        let mut resumable = Resumable {
            parked: Batch::new(),
            claimed: ClaimedList::new(),
        };
        shared.collect(timeout, asleep, &mut resumable);
        // ORDERING(polling.2): Release, pairs with polling.1.
        shared.polling.store(false, Release);
        resumable.parked.unpark();
        resume(resumable.claimed);
        true
    }

    fn wake(&self) {
        // ORDERING(asleep.2): SeqCst, pairs with asleep.1.
        full_fence();
        // ORDERING(sleeper.1): AcqRel, pairs with sleeper.2: the poller that was woken sees the
        // caller's earlier writes.
        if self.0.sleeper.swap(NOTIFIED, AcqRel) == ASLEEP && !self.is_left_behind() {
            self.0.epoll.wake();
        }
    }

    fn close(&self) {
        self.0.open.store(false, Relaxed);
        if self.is_left_behind() {
            return;
        }
        let mut claimed = ClaimedList::new();
        for slab in pool::all() {
            for source in slab {
                source.driver_gone(self, &mut crate::io::wait::wake, &mut claimed);
            }
        }
        resume(claimed);
    }

    fn is_left_behind(&self) -> bool {
        self.0.born != pool::forks()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl DriverState {
    fn collect(
        &self,
        timeout: Option<Duration>,
        asleep: &mut dyn FnMut() -> bool,
        resumable: &mut Resumable,
    ) {
        let mut timeout = timeout;
        let blocking = timeout != Some(Duration::ZERO);
        if blocking {
            // ORDERING(sleeper.2): AcqRel, pairs with sleeper.1.
            let announced = self
                .sleeper
                .compare_exchange(AWAKE, ASLEEP, AcqRel, Relaxed)
                .is_ok();
            // ORDERING(asleep.1): SeqCst, pairs with asleep.2: either this thread sees that the
            // caller's sleep is over, or the waking thread sees the announcement.
            full_fence();
            if !announced || !asleep() {
                timeout = Some(Duration::ZERO);
            }
        }
        let Resumable { parked, claimed } = resumable;
        let mut completions = false;
        if blocking || self.sources.load(Relaxed) != 0 {
            completions = self.epoll.wait(timeout, &mut |key, flags| {
                if let Some(source) = Source::of_key(key) {
                    source.report(flags, &mut |handle| parked.push(handle), claimed);
                }
            });
        }
        if blocking {
            // ORDERING(sleeper.2)
            self.sleeper.swap(AWAKE, AcqRel);
        }
        // Even when no operation is under way any more, the completion of a cancellation may be
        // there.
        if let Some(ring) = self.ring.get().filter(|ring| completions || ring.is_busy()) {
            ring.reap(&mut |handle| parked.push(handle));
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("kind", &self.kind())
            .field("sources", &self.0.sources)
            .finish()
    }
}

impl Epoll {
    /// A ring whose completions this set reports.
    fn make_ring(&self) -> io::Result<IoRing> {
        let ring = IoRing::new()?;
        self.add_ring(ring.as_fd())?;
        Ok(ring)
    }
}

/// When to try again to make a ring, after this error.
fn again_at(error: &io::Error) -> u64 {
    if uring::is_passing(error) {
        after(uring::AGAIN)
    } else {
        NEVER
    }
}

/// The kind to make: the caller's choice, or the environment's.
fn asked(kind: DriverKind) -> io::Result<DriverKind> {
    if kind != DriverKind::Auto {
        return Ok(kind);
    }
    match std::env::var_os("UMCG_DRIVER") {
        None => Ok(DriverKind::Auto),
        Some(name) if name == "epoll" => Ok(DriverKind::Epoll),
        Some(name) if name == "io_uring" => Ok(DriverKind::IoUring),
        Some(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "UMCG_DRIVER is neither epoll nor io_uring",
        )),
    }
}

/// The parties that go on when the poll's lock is free again.
struct Resumable {
    parked: Batch,
    /// Waiters that are claimed: they waited for other events, too.
    claimed: ClaimedList,
}

/// Makes them go on. Any caller may do this.
fn resume(claimed: ClaimedList) {
    queue::undisturbed(|served| *served = claimed);
}

/// The parties to unpark then.
struct Batch {
    handles: [MaybeUninit<Handle>; Batch::SIZE],
    count: usize,
}

impl Batch {
    /// Room for both directions of each report of a poll.
    const SIZE: usize = 2 * epoll::REPORTS;

    fn new() -> Batch {
        Batch {
            handles: [const { MaybeUninit::uninit() }; Batch::SIZE],
            count: 0,
        }
    }

    fn push(&mut self, handle: Handle) {
        match self.handles.get_mut(self.count) {
            Some(place) => {
                place.write(handle);
                self.count += 1;
            }
            // More than one party waits in a direction, or many operations are complete.
            None => crate::io::wait::wake(handle),
        }
    }

    fn unpark(&mut self) {
        for handle in &self.handles[..self.count] {
            // SAFETY: written by `push`.
            crate::io::wait::wake(*unsafe { handle.assume_init_ref() });
        }
    }
}
