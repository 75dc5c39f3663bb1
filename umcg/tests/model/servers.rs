//! Servers that are idle, and what those of a runtime share, as the protocols see it.

use crate::kernel;
use crate::rt::base::here::Here;
use crate::rt::engine::active::Active;
use crate::rt::engine::poller::Poller;
use crate::rt::engine::sleepers::Sleepers;
use crate::rt::scheduler::{Count, Scheduler, Wake, Why};
use crate::rt::task;
use crate::rt::task::runnable::Runnable;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::yield_now;
use std::any::Any;
use std::cell::Cell;
use std::time::Duration;
use umcg_core::{asymmetric, raw};

pub(crate) struct ServerState {
    here: Here,
    pub(crate) patience: Cell<u32>,
    is_inactive: Cell<bool>,
    shared: Option<&'static RuntimeState>,
}

impl ServerState {
    pub(crate) fn new(index: usize, shared: Option<&'static RuntimeState>) -> ServerState {
        // SAFETY: used on this thread only.
        let here = unsafe { Here::new(index) };
        ServerState {
            here,
            patience: Cell::new(2),
            is_inactive: Cell::new(false),
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
        let scheduler = &self.shared().scheduler;
        if self.is_inactive() {
            scheduler.has_bound(&self.here)
        } else {
            scheduler.has_work(&self.here)
        }
    }

    pub(crate) fn is_inactive(&self) -> bool {
        self.is_inactive.get()
    }

    pub(crate) fn set_inactive(&self, is_inactive: bool) {
        self.is_inactive.set(is_inactive);
    }

    /// There are no slots.
    pub(crate) fn give_slot_away(&self) {}

    pub(crate) fn pick_bound(&self) -> Option<Runnable> {
        self.shared().scheduler.next_bound(&self.here)
    }

    pub(crate) fn run(&self, _server: raw::Server, worker: Runnable) {
        self.shared().run(&self.here, worker);
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
    pub(crate) active: Active,
    pub(crate) sleepers: Sleepers,
    pub(crate) driver: Box<dyn Poller>,
    pub(crate) watch: Nothing,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) group: Events,
    pub(crate) closing: AtomicBool,
    over: AtomicBool,
    /// How many workers have begun to run, and how many begin before one ends.
    ran: Mutex<usize>,
    more: Condvar,
    together: usize,
    only_bound_wait: AtomicBool,
    /// How many times workers yield before they begin.
    yields: AtomicUsize,
    /// How many workers the first one is to make ready.
    brood: AtomicUsize,
}

pub(crate) struct SharedServer {
    pub(crate) timers: Timers,
}

pub(crate) struct Nothing;

impl Nothing {
    pub(crate) fn stay_awake(&self) {}
}

/// How many workers are back from the kernel, and were not taken by a server.
pub(crate) struct Events(AtomicUsize);

impl Events {
    pub(crate) fn has_events(&self) -> bool {
        self.0.load(SeqCst) > 0
    }

    fn take(&self) -> bool {
        let one_less = |events: usize| events.checked_sub(1);
        self.0.fetch_update(SeqCst, SeqCst, one_less).is_ok()
    }
}

impl RuntimeState {
    pub(crate) fn new(servers: usize, together: usize, has_sources: bool) -> &'static RuntimeState {
        RuntimeState::with_scheduler(Count::default(), servers, together, has_sources)
    }

    pub(crate) fn with_scheduler(
        mut scheduler: impl Scheduler,
        servers: usize,
        together: usize,
        has_sources: bool,
    ) -> &'static RuntimeState {
        scheduler.start(servers);
        let server = |_| SharedServer {
            timers: Timers(AtomicU64::new(u64::MAX)),
        };
        Box::leak(Box::new(RuntimeState {
            servers: (0..servers).map(server).collect(),
            active: Active::new(servers, servers, true),
            sleepers: Sleepers::new(servers),
            driver: Box::new(Driver::new(has_sources)),
            watch: Nothing,
            scheduler: Box::new(scheduler),
            group: Events(AtomicUsize::new(0)),
            closing: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ran: Mutex::new(0),
            more: Condvar::new(),
            together,
            only_bound_wait: AtomicBool::new(false),
            yields: AtomicUsize::new(0),
            brood: AtomicUsize::new(0),
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

    /// Makes a worker ready that makes so many more ready, from its server, and waits for them.
    pub(crate) fn push_parent(&self, brood: usize) {
        self.brood.store(brood, SeqCst);
        self.push();
    }

    /// Makes a worker ready, from outside.
    pub(crate) fn push(&self) {
        self.ready(None, None);
    }

    /// A worker is back from the kernel.
    pub(crate) fn post_event(&self) {
        self.group.0.fetch_add(1, SeqCst);
        self.wake_from_outside(Wake::One);
    }

    /// A server takes an event, if there is one, and makes its worker ready.
    pub(crate) fn settle_one(&self, here: &Here) {
        if self.group.take() {
            let wake = self
                .scheduler
                .ready(new_worker(None), Why::Unblocked, Some(here));
            self.wake_from_outside(wake);
        }
    }

    /// From here on only workers that are bound to a server wait for others.
    pub(crate) fn let_bound_wait(&self) {
        self.only_bound_wait.store(true, SeqCst);
    }

    /// The same with one that only this server may run.
    pub(crate) fn push_bound(&self, server: usize) {
        self.ready(Some(server), None);
    }

    fn ready(&self, server: Option<usize>, here: Option<&Here>) {
        let worker = new_worker(server);
        self.wake_from_outside(self.scheduler.ready(worker, Why::Woken, here));
    }

    /// Workers that begin yield so many times, all in all.
    pub(crate) fn let_yield(&self, times: usize) {
        self.yields.store(times, SeqCst);
    }

    pub(crate) fn wake_from_outside(&self, wake: Wake) {
        asymmetric::light();
        match wake {
            Wake::Nobody => {}
            Wake::Server(server) => self.sleepers.wake(&*self.driver, server),
            Wake::UnlessNapping if self.scheduler.will_look() => {}
            Wake::One | Wake::UnlessNapping if !self.sleepers.is_one_needed() => {}
            Wake::One | Wake::UnlessNapping => self.sleepers.wake_one(&*self.driver),
        }
    }

    /// A server looks by itself at some time.
    pub(crate) fn tell(&self, _server: usize) {}

    /// There are no ranks.
    pub(crate) fn call_again(&self) {}

    /// A worker runs until as many have begun as must be running together.
    pub(crate) fn run(&self, here: &Here, worker: Runnable) {
        let is_bound = worker.server().is_some();
        let once_less = |times: usize| times.checked_sub(1);
        if self.yields.fetch_update(SeqCst, SeqCst, once_less).is_ok() {
            // A bound one has handed over to another one, which yields.
            let (bound, yielding) = match is_bound {
                true => (Some(worker), new_worker(None)),
                false => (None, worker),
            };
            let why = match shuttle::rand::thread_rng().gen_bool(0.5) {
                true => Why::Preempted,
                false => Why::Yielded,
            };
            let wake = self.scheduler.ready(yielding, why, Some(here));
            self.wake_from_outside(wake);
            if bound.is_none() {
                return;
            }
        }
        *self.ran.lock().unwrap() += 1;
        self.more.notify_all();
        let brood = self.brood.swap(0, SeqCst);
        for _ in 0..brood {
            pass_time();
            self.ready(None, Some(here));
        }
        if is_bound || !self.only_bound_wait.load(SeqCst) {
            self.wait_for(self.together);
        }
    }

    pub(crate) fn count_run(&self) -> usize {
        *self.ran.lock().unwrap()
    }

    pub(crate) fn wait_for(&self, count: usize) {
        let mut ran = self.ran.lock().unwrap();
        while *ran < count {
            ran = self.more.wait(ran).unwrap();
        }
    }
}

fn new_worker(server: Option<usize>) -> Runnable {
    let task = task::make(true);
    task.server.set(server);
    // SAFETY: a right to run that is not used.
    unsafe { Runnable::new(task) }
}

/// Now and then, as long as a patrol in vain takes.
fn pass_time() {
    if thread_rng().gen_bool(0.25) {
        let until = kernel::now() + 600_000;
        while kernel::now() < until {
            yield_now();
        }
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
        let due = self.next() <= kernel::now();
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
            kernel::wake(&self.sleeper, 1);
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
                let _ = kernel::sleep(&self.sleeper, ASLEEP, until);
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
