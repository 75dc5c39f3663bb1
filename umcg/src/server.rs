//! The safe server.

use crate::{Error, Event, Ready, WaitError};
use std::marker::PhantomData;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use umcg_core::raw::{self, Nothing};

/// The calling thread as a server. It stays one until this value is dropped, on the same thread:
/// neither the value nor a reference to it goes to another thread.
///
/// ```compile_fail,E0277
/// let server = umcg::Server::register().unwrap();
/// std::thread::scope(|scope| drop(scope.spawn(|| server.try_wait())));
/// ```
#[derive(Debug)]
pub struct Server {
    server: raw::Server,
    /// Neither Send nor Sync: it stands for this thread.
    _here: PhantomData<*const ()>,
}

impl Server {
    /// Makes the calling thread a server. The thread goes on running; from here on it chooses the
    /// workers that it runs. It does not preempt its workers, unless [`set_preemption`] says so.
    ///
    /// # Errors
    /// [`Error::Registered`], [`Error::OutOfMemory`], [`Error::Os`].
    pub fn register() -> Result<Server, Error> {
        Server::register_in(raw::Group::first(), 0)
    }

    /// Makes the calling thread a server in a runtime's group.
    pub(crate) fn register_in(group: raw::Group, interval: u64) -> Result<Server, Error> {
        match raw::Server::register(group, interval) {
            Ok(server) => Ok(Server {
                server,
                _here: PhantomData,
            }),
            Err(error) => Err(Error::from_raw(error.raw_os_error())),
        }
    }

    pub(crate) fn raw(&self) -> raw::Server {
        self.server
    }

    /// Runs a worker in the server's place. Returns when it, or another worker that it switched to,
    /// blocks, waits, exits or has run for too long. Switches. Makes no system call for a light
    /// worker, nor for a thread worker where the thread pointer can be written in user mode.
    ///
    /// # Panics
    /// If a worker that runs in the server's place calls it: such a worker could have borrowed the
    /// server.
    #[inline]
    pub fn switch_to(&self, ready: Ready) -> Event {
        self.check_flow();
        // SAFETY: this is the server's own flow, and the value was the right to run the worker.
        Event::from_raw(unsafe { self.server.run(ready.into_raw()) })
    }

    /// The next event of an idle worker: one that came back from blocking, switched to another
    /// worker, timed out, or registered. Waits until there is one. A signal handler that runs
    /// meanwhile does not end the wait.
    ///
    /// # Errors
    /// [`WaitError::Woken`].
    ///
    /// # Panics
    /// As [`Server::switch_to`].
    pub fn wait(&self) -> Result<Event, WaitError> {
        loop {
            match self.wait_until(None) {
                Err(WaitError::Interrupted) => {}
                other => return other,
            }
        }
    }

    /// Like [`Server::wait`], but a signal handler that runs meanwhile ends the wait.
    ///
    /// # Errors
    /// [`WaitError::Woken`], [`WaitError::Interrupted`].
    ///
    /// # Panics
    /// As [`Server::switch_to`].
    pub fn wait_interruptible(&self) -> Result<Event, WaitError> {
        self.wait_until(None)
    }

    /// Like [`Server::wait`], until `deadline` at most.
    ///
    /// # Errors
    /// [`WaitError::Woken`], [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`Server::switch_to`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<Event, WaitError> {
        loop {
            match self.wait_until(Some(nanoseconds(deadline))) {
                Err(WaitError::Interrupted) => {}
                other => return other,
            }
        }
    }

    /// Like [`Server::wait`], for `timeout` at most.
    ///
    /// # Errors
    /// [`WaitError::Woken`], [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`Server::switch_to`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Event, WaitError> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.wait_deadline(deadline),
            None => self.wait(),
        }
    }

    /// The next event of an idle worker if there is one. Costs a nanosecond if there is none.
    #[inline]
    pub fn try_wait(&self) -> Option<Event> {
        self.server.try_wait().map(Event::from_raw)
    }

    /// The events of idle workers that are there now, one after the other.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.try_wait())
    }

    fn wait_until(&self, deadline: Option<u64>) -> Result<Event, WaitError> {
        self.check_flow();
        // SAFETY: this is the server's own flow.
        match unsafe { self.server.wait(deadline) } {
            Ok(event) => Ok(Event::from_raw(event)),
            Err(Nothing::Woken) => Err(WaitError::Woken),
            Err(Nothing::TimedOut) => Err(WaitError::TimedOut),
            Err(Nothing::Interrupted) => Err(WaitError::Interrupted),
        }
    }

    /// Panics if a worker calls. A light worker shares the server's thread, so the type alone does
    /// not prevent the call.
    #[inline]
    fn check_flow(&self) {
        assert!(
            !self.server.is_attached(),
            "a worker called its server's own operations"
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.check_flow();
        // SAFETY: this is the server's own flow, and the value ends here.
        unsafe { self.server.unregister() };
    }
}

/// Wakes one idle server, whose wait then ends with [`WaitError::Woken`]. False if no server is
/// idle: the call is not remembered. Does not switch.
///
/// A server that is about to wait when this is called is not woken. If no wake-up may be missed,
/// keep a count of the pending work. Then either the server checks the count before it waits, and
/// waits with a timeout; or the waker repeats the call as long as a server that announced its wait
/// has not woken up. The example `work_stealing` has the first form.
pub fn wake() -> bool {
    raw::wake_server(raw::Group::first())
}

/// Sets how long a worker may run without giving way before its server gets [`Event::Preempt`]. The
/// default, `None`, is no limit. CPU time counts. The worker is taken off after one interval to one
/// and a half, rounded up to the kernel's ticks (with 250 of them a second, not before 12 ms).
///
/// Preemption uses a timer signal (SIGURG). A worker is not preempted while a signal is blocked
/// that was not blocked when the server registered; nor in the C library and the language runtimes,
/// and in functions that these have called, signal handlers included. If other workers of the same
/// server want a lock, its holder must hold it in a [`critical`](crate::critical) section. Examples
/// are a `std::sync::Mutex` that they share, and standard output, whose lock also knows its owner.
///
/// # Errors
/// [`Error::Os`]: the kernel's error for the interval.
pub fn set_preemption(interval: Option<Duration>) -> Result<(), Error> {
    let nanoseconds = interval.map_or(0, |interval| {
        interval.as_nanos().clamp(1, u128::from(u64::MAX - 1)) as u64
    });
    raw::set_preemption(nanoseconds).map_err(|error| Error::from_raw(error.raw_os_error()))
}

/// A deadline as the C interface and the lists below count it: in nanoseconds of CLOCK_REALTIME. A
/// deadline that has passed becomes the present moment.
pub(crate) fn nanoseconds(deadline: Instant) -> u64 {
    let remaining = deadline.saturating_duration_since(Instant::now());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (now + remaining).as_nanos().min(u128::from(u64::MAX - 1)) as u64
}
