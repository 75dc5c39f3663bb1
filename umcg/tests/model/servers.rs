//! Servers that are idle, and what those of a runtime share, as the protocols see it.

use crate::rt::base::here::Here;
use crate::rt::engine::poller::Poller;
use crate::rt::engine::sleepers::Sleepers;
use crate::rt::task;
use crate::rt::task::runnable::Runnable;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use shuttle::sync::{Condvar, Mutex};
use std::any::Any;
use std::cell::Cell;
use std::time::Duration;
use umcg_core::{asymmetric, raw};

pub(crate) struct ServerState {
    here: Here,
    pub(crate) patience: Cell<u32>,
    shared: Option<&'static RuntimeState>,
}

impl ServerState {
    pub(crate) fn new(index: usize, shared: Option<&'static RuntimeState>) -> ServerState {
        // SAFETY: used on this thread only.
        let here = unsafe { Here::new(index) };
        ServerState {
            here,
            patience: Cell::new(2),
            shared,
        }
    }

    pub(crate) fn here(&self) -> &Here {
        &self.here
    }

    pub(crate) fn shared(&self) -> &'static RuntimeState {
        self.shared.unwrap()
    }

    pub(crate) fn timers(&self) -> &'static Timers {
        &self.shared().servers[self.here.index()].timers
    }

    pub(crate) fn note_look(&self) {}

    pub(crate) fn looks(&self) -> u64 {
        0
    }

    pub(crate) fn has_work(&self) -> bool {
        self.shared().scheduler.has_work(&self.here)
    }

    pub(crate) fn run(&self, _server: raw::Server, worker: Runnable) {
        self.shared().run(worker);
    }
}

/// One that nobody looks into.
impl Default for ServerState {
    fn default() -> ServerState {
        ServerState::new(0, None)
    }
}

pub(crate) struct RuntimeState {
    pub(crate) servers: Vec<SharedServer>,
    pub(crate) sleepers: Sleepers,
    pub(crate) driver: Box<dyn Poller>,
    pub(crate) watch: Nothing,
    pub(crate) scheduler: Queue,
    pub(crate) group: Nothing,
    pub(crate) closing: AtomicBool,
    over: AtomicBool,
    /// How many workers have begun to run, and how many begin before one ends.
    ran: Mutex<usize>,
    more: Condvar,
    together: usize,
}

pub(crate) struct SharedServer {
    pub(crate) timers: Timers,
}

pub(crate) struct Nothing;

impl Nothing {
    pub(crate) fn stay_awake(&self) {}

    pub(crate) fn has_events(&self) -> bool {
        false
    }
}

impl RuntimeState {
    pub(crate) fn new(servers: usize, together: usize, has_sources: bool) -> &'static RuntimeState {
        let server = |_| SharedServer {
            timers: Timers(AtomicU64::new(u64::MAX)),
        };
        Box::leak(Box::new(RuntimeState {
            servers: (0..servers).map(server).collect(),
            sleepers: Sleepers::new(servers),
            driver: Box::new(Driver::new(has_sources)),
            watch: Nothing,
            scheduler: Queue(Mutex::new(0)),
            group: Nothing,
            closing: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ran: Mutex::new(0),
            more: Condvar::new(),
            together,
        }))
    }

    pub(crate) fn attention(&self) -> bool {
        self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    pub(crate) fn live(&self) -> usize {
        1
    }

    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
        self.sleepers.wake_all(&*self.driver);
    }

    /// Makes a worker ready.
    pub(crate) fn push(&self) {
        *self.scheduler.0.lock().unwrap() += 1;
        asymmetric::light();
        if !self.sleepers.nobody_is_needed() {
            self.sleepers.wake_one(&*self.driver);
        }
    }

    /// A worker runs until as many have begun as must be running together.
    pub(crate) fn run(&self, _worker: Runnable) {
        *self.ran.lock().unwrap() += 1;
        self.more.notify_all();
        self.wait_for(self.together);
    }

    pub(crate) fn wait_for(&self, count: usize) {
        let mut ran = self.ran.lock().unwrap();
        while *ran < count {
            ran = self.more.wait(ran).unwrap();
        }
    }
}

/// A scheduler with one queue for all; its workers are a number.
pub(crate) struct Queue(Mutex<usize>);

impl Queue {
    pub(crate) fn has_work(&self, _here: &Here) -> bool {
        *self.0.lock().unwrap() > 0
    }

    pub(crate) fn nap(&self, _here: &Here) -> Option<Duration> {
        None
    }

    pub(crate) fn next(&self) -> Option<Runnable> {
        let mut count = self.0.lock().unwrap();
        *count = count.checked_sub(1)?;
        // SAFETY: a right to run that is not used.
        Some(unsafe { Runnable::new(task::make(true)) })
    }
}

/// One deadline, at which a worker becomes ready.
pub(crate) struct Timers(AtomicU64);

impl Timers {
    pub(crate) fn arm(&self, deadline: u64) {
        self.0.store(deadline, SeqCst);
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.load(SeqCst)
    }

    pub(crate) fn expire(&self) -> bool {
        let due = self.next() <= crate::kernel::now();
        if due {
            self.0.store(u64::MAX, SeqCst);
            crate::idle::current().push();
        }
        due
    }
}

/// The driver, without sources: its steps when it sleeps and is woken.
pub(crate) struct Driver {
    has_sources: bool,
    polling: AtomicBool,
    sleeper: AtomicU32,
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

impl Driver {
    fn new(has_sources: bool) -> Driver {
        Driver {
            has_sources,
            polling: AtomicBool::new(false),
            sleeper: AtomicU32::new(AWAKE),
        }
    }
}

impl Poller for Driver {
    fn has_sources(&self) -> bool {
        self.has_sources
    }

    fn wake(&self) {
        if self.sleeper.swap(NOTIFIED, SeqCst) == ASLEEP {
            crate::kernel::wake(&self.sleeper, 1);
        }
    }

    /// No source ever becomes ready: it sleeps until it is woken, or until then (see
    /// `time::until`). A caller that only looks leaves a wake-up to the sleeper.
    fn poll_while(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) -> bool {
        if self.polling.swap(true, SeqCst) {
            return false;
        }
        if timeout != Some(Duration::ZERO) {
            let announced = self
                .sleeper
                .compare_exchange(AWAKE, ASLEEP, SeqCst, SeqCst)
                .is_ok();
            if announced && asleep() {
                let until = timeout.map_or(u64::MAX, |until| until.as_nanos() as u64);
                let _ = crate::kernel::sleep(&self.sleeper, ASLEEP, until);
            }
            self.sleeper.swap(AWAKE, SeqCst);
        }
        self.polling.store(false, SeqCst);
        true
    }

    fn close(&self) {}

    fn is_left_behind(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
