//! Workers: functions that are called for each of their turns.

#[path = "../../../../umcg/src/rt/task/runnable.rs"]
pub(crate) mod runnable;

/// Descriptors for the tests within the sources.
#[cfg(test)]
pub(crate) mod heap {
    use super::Task;

    pub(crate) fn take() -> Option<&'static Task> {
        Some(Box::leak(Box::new(Task::new())))
    }
}

use crate::machine::{self, Access, Cause, Place};
use crate::rt::engine::runtime::{RuntimeState, add};
use crate::rt::engine::server::ServerState;
use crate::rt::scheduler::Why;
use runnable::Runnable;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

pub(crate) const NO_SERVER: u16 = u16::MAX;
const DEFAULT_PRIORITY: u8 = 128;

/// How a worker's turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    Parks,
    Yields,
    Ends,
}

/// What a worker does.
pub(crate) trait Program {
    /// From one run on a server to the worker's leaving it.
    fn turn(&mut self, me: &'static Task) -> Leaves;
}

/// The word of a park, without its sorts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Park {
    Running,
    Signalled,
    Parked,
}

/// A link of a queue. It lies in the line of its descriptor.
pub(crate) struct Link(Cell<*mut Task>);

impl Link {
    #[track_caller]
    fn access(&self, access: Access) {
        let line = from_ref(self).addr() & !(align_of::<Task>() - 1);
        machine::access(line, access, Location::caller());
    }

    #[track_caller]
    pub(crate) fn load(&self, _: Ordering) -> *mut Task {
        self.access(Access::Load);
        self.0.get()
    }

    #[track_caller]
    pub(crate) fn store(&self, task: *mut Task, _: Ordering) {
        self.access(Access::Store);
        self.0.set(task);
    }

    #[track_caller]
    pub(crate) fn swap(&self, task: *mut Task, _: Ordering) -> *mut Task {
        self.access(Access::Locked);
        self.0.replace(task)
    }
}

pub(crate) struct Hints {
    pub(crate) priority: AtomicU8,
    pub(crate) server: AtomicU16,
    pub(crate) deadline: AtomicU64,
}

/// A worker's descriptor, on one line.
#[repr(C, align(128))]
pub(crate) struct Task {
    pub(crate) next: Link,
    pub(crate) before: Link,
    pub(crate) hints: Hints,
    pub(crate) runtime: AtomicU32,
    pub(crate) virtual_time: AtomicU64,
    pub(crate) was_preempted: AtomicBool,
    park: Cell<Park>,
    /// For how many others it waits.
    left: Cell<u32>,
    shared: Cell<Option<&'static RuntimeState>>,
    server: Cell<Option<usize>>,
    program: RefCell<Option<Box<dyn Program>>>,
}

// SAFETY: threads of a machine run on one kernel thread.
unsafe impl Send for Task {}
// SAFETY: likewise.
unsafe impl Sync for Task {}

/// For `umcg_core::raw::Worker`.
pub(crate) struct Named(u64);

impl Named {
    pub(crate) fn name(&self) -> String {
        format!("{:x}", self.0)
    }
}

impl Task {
    fn new() -> Task {
        Task {
            next: Link(Cell::new(null_mut())),
            before: Link(Cell::new(null_mut())),
            hints: Hints {
                priority: AtomicU8::new(DEFAULT_PRIORITY),
                server: AtomicU16::new(NO_SERVER),
                deadline: AtomicU64::new(u64::MAX),
            },
            runtime: AtomicU32::new(0),
            virtual_time: AtomicU64::new(0),
            was_preempted: AtomicBool::new(false),
            park: Cell::new(Park::Running),
            left: Cell::new(0),
            shared: Cell::new(None),
            server: Cell::new(None),
            program: RefCell::new(None),
        }
    }

    fn touch(&self, access: Access, place: Place) {
        machine::access(from_ref(self).addr(), access, place);
    }

    pub(crate) fn worker(&'static self) -> Named {
        Named(from_ref(self).addr() as u64)
    }

    pub(crate) fn shared(&self) -> &'static RuntimeState {
        self.shared.get().expect("made for a runtime")
    }

    /// A turn on this server.
    pub(crate) fn turn(&'static self, local: &ServerState) -> Leaves {
        let counts = &local.shared().counts;
        counts.ready.set(counts.ready.get().saturating_sub(1));
        add(&counts.running, 1);
        add(&counts.turns, 1);
        let index = local.here().index();
        if self
            .server
            .replace(Some(index))
            .is_some_and(|before| before != index)
        {
            add(&counts.moves, 1);
        }
        let program = self.program.borrow_mut().take();
        let mut program = program.expect("a worker that runs twice at once, or after its end");
        let leaves = program.turn(self);
        if leaves != Leaves::Ends {
            *self.program.borrow_mut() = Some(program);
        }
        counts.running.set(counts.running.get() - 1);
        leaves
    }

    /// The worker has left to park. False if it is to go on.
    pub(crate) fn commit(&self) -> bool {
        self.touch(Access::Locked, Location::caller());
        match self.park.get() {
            Park::Signalled => {
                self.park.set(Park::Running);
                false
            }
            _ => {
                self.park.set(Park::Parked);
                true
            }
        }
    }

    /// Ends the worker's park, or its next one.
    #[track_caller]
    pub(crate) fn unpark(&'static self) {
        self.touch(Access::Locked, Location::caller());
        match self.park.replace(Park::Signalled) {
            Park::Parked => {
                self.park.set(Park::Running);
                // SAFETY: that was in its word.
                let right = unsafe { Runnable::new(self) };
                self.shared().ready(right, Why::Woken);
            }
            Park::Running | Park::Signalled => {}
        }
    }

    /// The worker is to wait for so many.
    pub(crate) fn expect(&self, count: u32) {
        self.left.set(count);
    }

    /// Whether all of them have come.
    pub(crate) fn has_all(&self) -> bool {
        self.left.get() == 0
    }

    /// Another worker leaves it to this one to go on.
    #[track_caller]
    pub(crate) fn throw_ball(&'static self) {
        self.touch(Access::Locked, Location::caller());
        self.left.set(self.left.get() + 1);
        self.unpark();
    }

    /// Whether one has.
    pub(crate) fn take_ball(&self) -> bool {
        self.touch(Access::Locked, Location::caller());
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// One of those that the worker waits for has come: the last one wakes it.
    #[track_caller]
    pub(crate) fn count_down(&'static self) {
        self.touch(Access::Locked, Location::caller());
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.unpark();
        }
    }
}

/// All descriptors of a simulation. Those of workers that have ended are used again, the last one
/// first.
#[derive(Default)]
pub(crate) struct Pool {
    all: RefCell<Vec<*mut Task>>,
    free: RefCell<Vec<&'static Task>>,
}

impl Pool {
    /// A worker that is not ready yet.
    pub(crate) fn make(
        &self,
        shared: &'static RuntimeState,
        program: impl Program + 'static,
    ) -> &'static Task {
        machine::spend(Cause::Switch, |costs| costs.make);
        let free = self.free.borrow_mut().pop();
        let task = free.unwrap_or_else(|| {
            let task = Box::into_raw(Box::new(Task::new()));
            self.all.borrow_mut().push(task);
            // SAFETY: it lives until the pool is dropped, which comes after all workers.
            unsafe { &*task }
        });
        task.shared.set(Some(shared));
        task.park.set(Park::Running);
        task.left.set(0);
        task.server.set(None);
        *task.program.borrow_mut() = Some(Box::new(program));
        task
    }

    /// Workers that have not ended never will.
    pub(crate) fn forget_programs(&self) {
        for task in self.all.borrow().iter() {
            // SAFETY: it lives as long as the pool.
            let task = unsafe { &**task };
            drop(task.program.borrow_mut().take());
        }
    }

    /// The worker has ended, and no other will name it.
    pub(crate) fn recycle(&self, task: &'static Task) {
        self.free.borrow_mut().push(task);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for task in self.all.get_mut().drain(..) {
            // SAFETY: `make` took it out of a box. Queues and programs that name it have gone.
            drop(unsafe { Box::from_raw(task) });
        }
    }
}

/// Makes a new worker ready.
pub(crate) fn begin(task: &'static Task) {
    // SAFETY: it is new, so the caller has the right to run it.
    let right = unsafe { Runnable::new(task) };
    task.shared().ready(right, Why::Spawned);
}
