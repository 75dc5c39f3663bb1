//! A machine of virtual cores: threads that are coroutines on one kernel thread, and a clock that
//! counts what they do.
//!
//! Each virtual thread has a core to itself, and a time of its own. Whatever it does that another
//! thread could notice is done *in the order of these times*: before such a step the thread waits
//! until no other one is behind it ([`Machine::take_turn`]), and then the step is done at once. So
//! two runs with one seed are the same. What it does then costs time ([`Costs`]), by a cause
//! ([`Cause`]).
//!
//! A thread that sleeps has no time. It goes on at the time that the waking thread gives it, or at
//! its deadline. If all threads sleep, and there is no deadline, nothing can happen any more: work
//! that is left is lost ([`Stop::Stuck`]). The machine then has its threads end.
//!
//! Functions here are called by the stand-ins in `rt`. Outside of a simulation they do nothing.
//!
//! Not chosen: a kernel thread for each server, which would be as real, a thousand times as slow,
//! and in another order each time. Nor a list of events with functions to call: the runtime's code
//! is straight code that waits in the middle.

mod account;
mod costs;
mod kernel;
mod lines;

pub use account::{Cause, Spent};
pub use costs::Costs;

pub(crate) use account::Place;
use account::{Account, Places};
use kernel::Kernel;
pub(crate) use kernel::{heavy, light, sleep_on, wake_one};
pub(crate) use lines::Access;
use lines::Lines;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::null;
use umcg::uth::{self, Uth, UthAttr};

/// When a simulation begins. Not 0, which some of the runtime's words have for never.
pub(crate) const BEGIN: u64 = 1_000_000_000;
const STACK: usize = 128 << 10;
/// How far ahead of the others a thread may be in a scan of words that do not depend on each other,
/// as a processor loads such words in any order. It saves most of the switches.
const AHEAD: u64 = 200;
/// How often threads are made to end before that is given up.
const MOST_ENDS: usize = 10_000;

/// Why a simulation ended before its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All threads slept, and nothing was to wake them.
    Stuck,
    /// The time that it was given was over.
    OutOfTime,
}

/// A virtual thread.
pub(crate) struct Thread {
    core: u16,
    /// Its time counts as a server's.
    is_server: bool,
    uth: Cell<Option<Uth>>,
    body: Cell<Option<Box<dyn FnOnce()>>>,
    time: Cell<u64>,
    /// Time that others have taken from it.
    debt: Cell<u64>,
    /// When its stores are all done.
    stored: Cell<u64>,
    state: Cell<State>,
    /// Which of its entries in the queue is valid.
    generation: Cell<u32>,
    /// When another thread has roused it; none if it goes on by itself.
    roused: Cell<Option<u64>>,
    /// Where its last step was a load.
    loaded: Cell<*const Location<'static>>,
    /// All that it does now is for this.
    cause: Cell<Option<(Cause, Place)>>,
    account: Account,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Asleep,
    Over,
}

impl Thread {
    /// All of its time was spent for some cause.
    fn check(&self) {
        let spent: u64 = Cause::ALL
            .into_iter()
            .map(|cause| self.account.of(cause))
            .sum();
        assert_eq!(
            spent,
            self.time.get() - BEGIN,
            "time that nothing accounts for"
        );
    }
}

/// A thread that goes on at some time: that time, the thread, and its generation.
type Moment = Reverse<(u64, usize, u32)>;

pub(crate) struct Machine {
    costs: Costs,
    cores_per_socket: u16,
    threads: Vec<Thread>,
    queue: RefCell<BinaryHeap<Moment>>,
    /// The running thread; none on the machine's own flow.
    current: Cell<Option<usize>>,
    own: Cell<Option<Uth>>,
    lines: RefCell<Lines>,
    kernel: Kernel,
    places: Places,
    random: Cell<u64>,
    limit: u64,
    stop: Cell<Option<Stop>>,
    /// How often the threads were made to end.
    ends: Cell<usize>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

thread_local! {
    static MACHINE: Cell<*const Machine> = const { Cell::new(null()) };
}

/// Calls `f` with the machine and the thread that runs on it, if there is one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Machine, &Thread) -> R) -> Option<R> {
    // SAFETY: `Machine::run` sets it for as long as it has the machine.
    let machine = unsafe { MACHINE.get().as_ref() }?;
    let current = machine.current.get()?;
    Some(f(machine, &machine.threads[current]))
}

/// A new thread to be.
pub(crate) struct Body {
    pub(crate) is_server: bool,
    pub(crate) run: Box<dyn FnOnce()>,
}

impl Machine {
    /// The servers come first: they share out the sockets.
    pub(crate) fn new(
        costs: Costs,
        sockets: usize,
        seed: u64,
        limit: u64,
        bodies: Vec<Body>,
    ) -> Self {
        assert!(
            bodies.len() <= lines::MOST_CORES,
            "so many servers are too many"
        );
        let servers = bodies.iter().filter(|body| body.is_server).count();
        let thread = |(core, body): (usize, Body)| Thread {
            core: core as u16,
            is_server: body.is_server,
            uth: Cell::new(None),
            body: Cell::new(Some(body.run)),
            time: Cell::new(BEGIN),
            debt: Cell::new(0),
            stored: Cell::new(0),
            state: Cell::new(State::Ready),
            generation: Cell::new(0),
            roused: Cell::new(None),
            loaded: Cell::new(null()),
            cause: Cell::new(None),
            account: Account::default(),
        };
        Machine {
            costs,
            cores_per_socket: servers.div_ceil(sockets).max(1) as u16,
            threads: bodies.into_iter().enumerate().map(thread).collect(),
            queue: RefCell::default(),
            current: Cell::new(None),
            own: Cell::new(None),
            lines: RefCell::default(),
            kernel: Kernel::default(),
            places: Places::default(),
            random: Cell::new(seed),
            limit: BEGIN.saturating_add(limit),
            stop: Cell::new(None),
            ends: Cell::new(0),
            panic: Cell::new(None),
        }
    }

    /// The words near this one share its line.
    pub(crate) fn anchor(&self, address: usize) {
        self.lines.borrow_mut().anchor(address);
    }

    /// Runs until all threads are over. If that does not come by itself, calls `end`, which is to
    /// make them end, and returns why.
    pub(crate) fn run(&self, end: impl Fn()) -> Option<Stop> {
        let was_processor = uth::vp_init(None).is_err();
        assert!(!was_processor, "a simulation needs a thread to itself");
        self.own.set(uth::current());
        MACHINE.set(self);
        for (index, thread) in self.threads.iter().enumerate() {
            let attr = UthAttr {
                stack_size: STACK,
                name: "",
            };
            let made = uth::create_with(&attr, entry, std::ptr::without_provenance_mut(index));
            thread.uth.set(Some(made.expect("memory for a stack")));
            self.queue.borrow_mut().push(Reverse((BEGIN, index, 0)));
        }
        loop {
            self.switch();
            if let Some(panic) = self.panic.take() {
                // Frames of other threads are left as they are.
                MACHINE.set(null());
                resume_unwind(panic);
            }
            if self
                .threads
                .iter()
                .all(|thread| thread.state.get() == State::Over)
            {
                break;
            }
            if self.queue_is_empty() || self.stop.get().is_some() {
                self.end_early(&end);
            }
        }
        MACHINE.set(null());
        for thread in &self.threads {
            let uth = thread.uth.take().expect("made above");
            // SAFETY: its function has returned.
            unsafe { uth::delete(uth) }.expect("it is over");
        }
        uth::vp_exit().expect("on the native flow");
        self.threads.iter().for_each(Thread::check);
        self.stop.get()
    }

    fn queue_is_empty(&self) -> bool {
        self.earliest().is_none()
    }

    /// All threads that sleep look again.
    fn end_early(&self, end: &impl Fn()) {
        if self.stop.get().is_none() {
            self.stop.set(Some(Stop::Stuck));
        }
        end();
        let now = self.threads.iter().map(|thread| thread.time.get()).max();
        for (index, thread) in self.threads.iter().enumerate() {
            if thread.state.get() == State::Asleep {
                self.rouse(index, now.unwrap_or(BEGIN), 0);
            }
        }
        self.kernel.forget_sleepers();
        self.ends.set(self.ends.get() + 1);
        assert!(
            self.ends.get() < MOST_ENDS,
            "threads of a simulation do not end"
        );
    }

    /// The thread that goes on first, and when.
    fn earliest(&self) -> Option<(u64, usize)> {
        let mut queue = self.queue.borrow_mut();
        while let Some(&Reverse((time, index, generation))) = queue.peek() {
            if self.threads[index].generation.get() == generation {
                return Some((time, index));
            }
            queue.pop();
        }
        None
    }

    /// Goes on with the earliest thread, or with the machine's own flow if there is none.
    fn switch(&self) {
        let before = self.current.get();
        let next = match self.earliest() {
            Some((time, _)) if time > self.limit && self.stop.get().is_none() => {
                self.stop.set(Some(Stop::OutOfTime));
                None
            }
            next => next,
        };
        let next = next.map(|(time, index)| {
            self.queue.borrow_mut().pop();
            let thread = &self.threads[index];
            thread.time.set(time);
            thread.state.set(State::Ready);
            thread
                .generation
                .set(thread.generation.get().wrapping_add(1));
            index
        });
        if next == before {
            return;
        }
        let uth = |index: Option<usize>| match index {
            Some(index) => self.threads[index].uth.get(),
            None => self.own.get(),
        };
        self.current.set(next);
        let (old, new) = (uth(before), uth(next).expect("set in `run`"));
        // SAFETY: all of them run on this kernel thread only, and `old` is the caller.
        unsafe { uth::switch_to(old, new) }.expect("a thread that has not ended");
    }

    fn enqueue(&self, index: usize, time: u64) {
        let generation = self.threads[index].generation.get();
        self.queue
            .borrow_mut()
            .push(Reverse((time, index, generation)));
    }

    /// Returns when no other thread is behind the calling one. Then its next step is in order.
    fn take_turn(&self, thread: &Thread) {
        self.take_turn_within(thread, 0);
    }

    /// The same, but that others may be so far behind.
    fn take_turn_within(&self, thread: &Thread, ahead: u64) {
        loop {
            let debt = thread.debt.take();
            if debt > 0 {
                self.spend(thread, Cause::Interrupted, debt);
            }
            let (Some(me), now) = (self.current.get(), thread.time.get()) else {
                return;
            };
            match self.earliest() {
                Some((time, other)) if (time + ahead, other) < (now, me) => {}
                _ if now > self.limit && self.stop.get().is_none() => {}
                _ => return,
            }
            self.enqueue(me, now);
            self.switch();
        }
    }

    fn spend(&self, thread: &Thread, cause: Cause, time: u64) {
        thread.time.set(thread.time.get() + time);
        let cause = thread.cause.get().map_or(cause, |(cause, _)| cause);
        thread.account.add(cause, time);
    }

    fn spend_at(&self, thread: &Thread, cause: Cause, time: u64, place: Place) {
        self.spend(thread, cause, time);
        if thread.is_server && time > 0 {
            let (cause, place) = thread.cause.get().unwrap_or((cause, place));
            self.places.add(cause, place, time);
        }
    }

    /// The calling thread sleeps until it is roused, or until then. True if it was roused.
    fn sleep(&self, thread: &Thread, until: Option<u64>) -> bool {
        let Some(me) = self.current.get() else {
            return false;
        };
        let begins = thread.time.get();
        thread.state.set(State::Asleep);
        thread.roused.set(None);
        if let Some(until) = until {
            self.enqueue(me, until.max(begins));
        }
        self.switch();
        // It took no time from anybody meanwhile.
        thread.debt.set(0);
        let roused = thread.roused.get();
        let slept_until = roused.unwrap_or(thread.time.get()).max(begins);
        thread.account.add(Cause::Asleep, slept_until - begins);
        thread
            .account
            .add(Cause::Latency, thread.time.get() - slept_until);
        roused.is_some()
    }

    /// A thread that sleeps goes on so much later than now.
    fn rouse(&self, index: usize, now: u64, latency: u64) {
        let thread = &self.threads[index];
        thread
            .generation
            .set(thread.generation.get().wrapping_add(1));
        thread.roused.set(Some(now));
        self.enqueue(index, (now + latency).max(thread.time.get()));
    }

    /// The time that all servers have spent for a cause.
    pub(crate) fn spent(&self, cause: Cause) -> u64 {
        let servers = self.threads.iter().filter(|thread| thread.is_server);
        servers.map(|thread| thread.account.of(cause)).sum()
    }

    /// The time that the last of the other threads has spent for a cause.
    pub(crate) fn spent_by_last(&self, cause: Cause) -> u64 {
        self.threads
            .last()
            .map_or(0, |thread| thread.account.of(cause))
    }

    /// How often servers called `heavy` in a file of the sources.
    pub(crate) fn count_heavy(&self, file: &str) -> u64 {
        self.kernel.heavy_in(file)
    }

    /// The places where servers waited, the dearest first.
    pub(crate) fn dearest(&self) -> Vec<Spent> {
        self.places.dearest()
    }
}

/// The function of a virtual thread.
extern "C-unwind" fn entry(index: *mut c_void) {
    // SAFETY: as in `with`.
    let Some(machine) = (unsafe { MACHINE.get().as_ref() }) else {
        return;
    };
    let thread = &machine.threads[index.addr()];
    let body = thread.body.take().expect("begun once");
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        machine.panic.set(Some(panic));
    }
    thread.state.set(State::Over);
    // Its return leads to the machine's own flow.
    machine.current.set(None);
}

thread_local! {
    /// The word that was used last outside of a simulation.
    static USED: Cell<usize> = const { Cell::new(0) };
}

/// The address of the word that `f` uses, outside of a simulation.
pub(crate) fn address_of<R>(f: impl Fn() -> R) -> usize {
    USED.set(0);
    f();
    USED.get()
}

/// A word is used at `address`.
pub(crate) fn access(address: usize, access: Access, place: Place) {
    if MACHINE.get().is_null() {
        USED.set(address);
    }
    with(|machine, thread| machine.access(thread, address, access, place));
}

impl Machine {
    fn access(&self, thread: &Thread, address: usize, access: Access, place: Place) {
        let in_scan = access == Access::Load && std::ptr::eq(thread.loaded.get(), place);
        self.take_turn_within(thread, if in_scan { AHEAD } else { 0 });
        let costs = &self.costs;
        let transfer = |from: u16| {
            let near = match in_scan {
                true => costs.line_in_scan,
                false => costs.line,
            };
            match from / self.cores_per_socket == thread.core / self.cores_per_socket {
                true => near,
                false => near * costs.far / 100,
            }
        };
        if access == Access::Locked {
            self.drain(thread, place);
        }
        let now = thread.time.get();
        let outcome = self
            .lines
            .borrow_mut()
            .access(address, access, thread.core, now, transfer);
        self.spend_at(thread, Cause::Lines, outcome.goes_on - now, place);
        let step = match access {
            Access::Locked => costs.locked,
            _ => costs.hit,
        };
        self.spend(thread, Cause::Steps, step);
        thread.stored.set(thread.stored.get().max(outcome.stored));
        let is_load = access == Access::Load;
        thread.loaded.set(if is_load { place } else { null() });
    }

    fn fence(&self, thread: &Thread, place: Place) {
        self.take_turn(thread);
        self.drain(thread, place);
        self.spend(thread, Cause::Steps, self.costs.fence);
        thread.loaded.set(null());
    }

    /// Waits until the thread's stores are done.
    fn drain(&self, thread: &Thread, place: Place) {
        let left = thread.stored.get().saturating_sub(thread.time.get());
        self.spend_at(thread, Cause::Lines, left, place);
    }
}

/// A full fence.
pub(crate) fn fence(place: Place) {
    with(|machine, thread| machine.fence(thread, place));
}

/// The calling thread spends so much of its time.
pub(crate) fn spend(cause: Cause, time: impl FnOnce(&Costs) -> u64) {
    with(|machine, thread| {
        machine.spend(thread, cause, time(&machine.costs));
        thread.loaded.set(null());
        machine.take_turn(thread);
    });
}

/// Time in pauses.
#[track_caller]
pub(crate) fn pause(time: impl FnOnce(&Costs) -> u64) {
    let place = Location::caller();
    with(|machine, thread| {
        let time = time(&machine.costs);
        machine.spend_at(thread, Cause::Pauses, time, place);
        thread.loaded.set(null());
        machine.take_turn(thread);
    });
}

/// All that `f` does is for this cause, in this place.
pub(crate) fn on_account_of<R>(cause: Cause, place: Place, f: impl FnOnce() -> R) -> R {
    let cause = Some((cause, place));
    let before = with(|_, thread| thread.cause.replace(thread.cause.get().or(cause)));
    let result = f();
    if let Some(before) = before {
        with(|_, thread| thread.cause.set(before));
    }
    result
}

/// The caller's time; 0 outside of a simulation.
pub(crate) fn now() -> u64 {
    with(|_, thread| thread.time.get()).unwrap_or(0)
}

/// Sleeps until that time, unless it is roused before. True if it was.
pub(crate) fn sleep(until: Option<u64>) -> bool {
    with(|machine, thread| {
        machine.take_turn(thread);
        machine.sleep(thread, until)
    })
    .unwrap_or(false)
}

/// The number of the calling thread.
pub(crate) fn current() -> Option<usize> {
    with(|machine, _| machine.current.get()).flatten()
}

/// A thread that sleeps goes on so much later than now.
pub(crate) fn rouse(index: usize, latency: impl FnOnce(&Costs) -> u64) {
    with(|machine, thread| {
        if machine.threads[index].state.get() == State::Asleep {
            machine.rouse(index, thread.time.get(), latency(&machine.costs));
        }
    });
}

/// A number that is different each time, and the same in each run.
pub(crate) fn random() -> u64 {
    with(|machine, _| {
        // SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
        let state = machine.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        machine.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
    .unwrap_or(0)
}

/// Looks at words without being noticed, and at no cost.
pub(crate) fn aside<R>(f: impl FnOnce() -> R) -> R {
    let machine = MACHINE.replace(null());
    let result = f();
    MACHINE.set(machine);
    result
}
