//! The driver, on messages that come at times of the simulation's: the steps of the real one when
//! it sleeps, is woken, and finds something.

use super::poller::Poller;
use crate::machine::{self, Cause};
use crate::rt::base::sync::{AtomicBool, AtomicU32, Ordering::*, full_fence};
use crate::rt::task::Task;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ptr::from_ref;
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;
/// The most events of one look.
const REPORTS: usize = 256;

pub(crate) struct Driver {
    has_sources: bool,
    polling: AtomicBool,
    sleeper: AtomicU32,
    /// Messages on their way, by the time when they come, and those that have come.
    coming: RefCell<BinaryHeap<Reverse<(u64, u64)>>>,
    /// The workers that wait for them, by their number.
    waiters: RefCell<Vec<&'static Task>>,
    here: RefCell<VecDeque<&'static Task>>,
    /// The thread that brings them.
    device: Cell<Option<usize>>,
    is_over: Cell<bool>,
}

// SAFETY: threads of a machine run on one kernel thread.
unsafe impl Send for Driver {}
// SAFETY: likewise.
unsafe impl Sync for Driver {}

impl Driver {
    pub(crate) fn new(has_sources: bool) -> Driver {
        Driver {
            has_sources,
            polling: AtomicBool::new(false),
            sleeper: AtomicU32::new(AWAKE),
            coming: RefCell::default(),
            waiters: RefCell::default(),
            here: RefCell::default(),
            device: Cell::new(None),
            is_over: Cell::new(false),
        }
    }

    /// A worker that waits for messages; the number by which they reach it.
    pub(crate) fn add_waiter(&self, task: &'static Task) -> u64 {
        let mut waiters = self.waiters.borrow_mut();
        waiters.push(task);
        waiters.len() as u64 - 1
    }

    /// A message comes for this waiter at that time.
    pub(crate) fn send(&self, waiter: u64, at: u64) {
        self.coming.borrow_mut().push(Reverse((at, waiter)));
        let is_first = self.coming.borrow().peek() == Some(&Reverse((at, waiter)));
        if let Some(device) = self.device.get().filter(|_| is_first) {
            machine::rouse(device, |_| 0);
        }
    }

    /// The body of the thread that brings messages. No processor of a server does that.
    pub(crate) fn bring(&self) {
        self.device.set(machine::current());
        while !self.is_over.get() {
            let next = self.coming.borrow().peek().map(|Reverse((at, _))| *at);
            if next.is_none_or(|at| at > machine::now()) {
                machine::sleep(next);
                continue;
            }
            let Some(Reverse((_, waiter))) = self.coming.borrow_mut().pop() else {
                continue;
            };
            let task = self.waiters.borrow()[waiter as usize];
            self.here.borrow_mut().push_back(task);
            if self.sleeper.peek() == ASLEEP {
                machine::wake_one(from_ref(&self.sleeper).addr());
            }
        }
    }

    pub(crate) fn end(&self) {
        self.is_over.set(true);
        if let Some(device) = self.device.get() {
            machine::rouse(device, |_| 0);
        }
    }

    fn collect(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) {
        if timeout != Some(Duration::ZERO) {
            let announced = self
                .sleeper
                .compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed)
                .is_ok();
            full_fence();
            if announced && asleep() && self.here.borrow().is_empty() {
                let until = timeout.map(|until| until.as_nanos() as u64);
                let may_sleep = || self.sleeper.peek() == ASLEEP && self.here.borrow().is_empty();
                machine::sleep_on(from_ref(&self.sleeper).addr(), until, may_sleep);
            }
            self.sleeper.swap(AWAKE, Relaxed);
        }
        machine::spend(Cause::Calls, |costs| costs.poll);
    }
}

impl Poller for Driver {
    fn has_sources(&self) -> bool {
        self.has_sources
    }

    /// `timeout` is a deadline: see `clock::until`.
    fn poll_while(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) -> bool {
        if self.polling.load(Relaxed) || self.polling.swap(true, Relaxed) {
            return false;
        }
        self.collect(timeout, asleep);
        let found: Vec<&'static Task> = {
            let mut here = self.here.borrow_mut();
            let count = here.len().min(REPORTS);
            here.drain(..count).collect()
        };
        machine::spend(Cause::Calls, |costs| costs.event * found.len() as u64);
        self.polling.store(false, Relaxed);
        found.into_iter().for_each(|task| task.unpark());
        true
    }

    fn wake(&self) {
        full_fence();
        if self.sleeper.swap(NOTIFIED, Relaxed) == ASLEEP {
            machine::wake_one(from_ref(&self.sleeper).addr());
        }
    }

    fn close(&self) {}

    fn is_left_behind(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
