//! Events, and the right to run a worker.

use std::fmt;
use std::mem::ManuallyDrop;
use umcg_core::raw::{self, EventKind};

/// The program's own number for a worker. Its low five bits are zero, as in the C interface, so 59
/// bits are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(u64);

impl WorkerId {
    const SHIFT: u32 = 5;

    /// The id of an index below 2^59. Higher bits are cut off.
    pub const fn from_index(index: u64) -> WorkerId {
        WorkerId(index << Self::SHIFT)
    }

    /// The index.
    pub const fn index(self) -> u64 {
        self.0 >> Self::SHIFT
    }

    /// The id in the form of the C interface.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_raw(id: u64) -> WorkerId {
        WorkerId(id)
    }
}

/// The right to run one worker, which is suspended. There is at most one such value for each
/// worker, and none while the worker runs or blocks.
///
/// Dropping it does not lose the worker: any server gets it as [`Event::Wake`].
///
/// Running a worker twice at once does not compile:
///
/// ```compile_fail,E0382
/// fn twice(server: &umcg::Server, ready: umcg::Ready) {
///     drop(server.switch_to(ready));
///     drop(server.switch_to(ready));
/// }
/// ```
#[must_use = "a worker runs only when somebody switches to it"]
pub struct Ready(raw::Worker);

impl Ready {
    /// # Safety
    /// The caller has the right to run the worker, and gives it up to this value.
    #[inline]
    pub(crate) unsafe fn new(worker: raw::Worker) -> Ready {
        Ready(worker)
    }

    /// The worker, together with the right to run it.
    #[inline]
    pub(crate) fn into_raw(self) -> raw::Worker {
        ManuallyDrop::new(self).0
    }

    /// The worker's id.
    #[inline]
    pub fn id(&self) -> WorkerId {
        WorkerId(self.0.id())
    }

    /// The worker's name; empty if it has none.
    pub fn name(&self) -> String {
        self.0.name()
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: this value was the right to run it, and ends here.
        unsafe { self.0.put_back() };
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish()
    }
}

/// An event of a worker.
#[derive(Debug)]
#[must_use = "an event may hold the only right to run a worker"]
pub enum Event {
    /// It began to block in the kernel, and goes on outside its server. [`Event::Wake`] follows.
    Block(WorkerId),
    /// It has registered, can go on after having blocked, or its [`Ready`] was dropped.
    Wake(Ready),
    /// It gave the processor back, or switched to another worker.
    Wait(Ready),
    /// It unregistered or ended.
    Exit(WorkerId),
    /// The deadline of its wait has passed. The holder of its [`Ready`] may run it at any time,
    /// before and after this event. With several servers, one server may collect this event before
    /// another one, which got the worker's [`Event::Wait`], has stored the worker: record a timeout
    /// that comes first.
    Timeout(WorkerId),
    /// It ran for longer than the preemption interval.
    Preempt(Ready),
}

impl Event {
    /// The worker's id.
    pub fn id(&self) -> WorkerId {
        match self {
            Event::Block(id) | Event::Exit(id) | Event::Timeout(id) => *id,
            Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => ready.id(),
        }
    }

    /// The right to run the worker, if the event gives it: Wake, Wait and Preempt do.
    pub fn into_ready(self) -> Option<Ready> {
        match self {
            Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => Some(ready),
            Event::Block(_) | Event::Exit(_) | Event::Timeout(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn from_raw(event: raw::Event) -> Event {
        match event {
            raw::Event::Ready(kind, worker) => {
                // SAFETY: such an event gives its receiver the right to run the worker, once.
                let ready = unsafe { Ready::new(worker) };
                match kind {
                    EventKind::Wake => Event::Wake(ready),
                    EventKind::Preempt => Event::Preempt(ready),
                    _ => Event::Wait(ready),
                }
            }
            raw::Event::News(EventKind::Block, id) => Event::Block(WorkerId(id)),
            raw::Event::News(EventKind::Exit, id) => Event::Exit(WorkerId(id)),
            raw::Event::News(_, id) => Event::Timeout(WorkerId(id)),
        }
    }
}
