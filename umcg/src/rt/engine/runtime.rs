//! A runtime: the state that its servers, its workers and its owner share.

use super::active::{Active, FEW};
use super::poller::Poller;
use super::server::{self, Running, ServerState};
use super::sleepers::Sleepers;
use super::stalls::StallPolicy;
use super::threads::Threads;
use super::timers::Timers;
use super::watch::Watch;
use crate::rt::base::here::Here;
use crate::rt::base::rank::{self, Post, Ranked};
use crate::rt::scheduler::{Chosen, RuntimeNamed, Wake, Why};
use crate::rt::task::runnable::{self, Runnable};
use crate::rt::task::{RuntimeOf, Task};
use std::num::NonZero;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg_core::asymmetric::{self, full_fence};
use umcg_core::context::lock::HoldLock;
use umcg_core::context::way::nap;
use umcg_core::raw::{self, Group, SizeClass};

/// A server, as other threads see it.
#[repr(align(128))]
pub(crate) struct SharedServer {
    pub(crate) timers: Timers,
    /// Since when one worker has kept the server, as the watch sees it; 0 if none keeps it.
    pub(crate) kept_since: AtomicU64,
    /// The server's own part, in a box. Null before the server has begun. It stays when the server
    /// has ended, as other threads may be reading it.
    local: AtomicPtr<ServerState>,
    server: AtomicPtr<()>,
}

impl Drop for SharedServer {
    fn drop(&mut self) {
        let local = *self.local.get_mut();
        if !local.is_null() {
            // SAFETY: `enter` took it out of a box. Every thread that could read it has gone with
            // the runtime.
            drop(unsafe { Box::from_raw(local) });
        }
    }
}

impl SharedServer {
    fn new() -> SharedServer {
        SharedServer {
            timers: Timers::new(),
            kept_since: AtomicU64::new(0),
            local: AtomicPtr::new(null_mut()),
            server: AtomicPtr::new(null_mut()),
        }
    }

    /// Called once, when the server begins.
    pub(crate) fn enter(&self, local: Box<ServerState>, server: raw::Server) -> &ServerState {
        self.server.store(server.into_ptr(), Relaxed);
        let local = Box::into_raw(local);
        // ORDERING(shared-server.1): Release, pairs with shared-server.2: a thread that finds the
        // pointer sees the whole server.
        self.local.store(local, Release);
        // SAFETY: it lives as long as this.
        unsafe { &*local }
    }

    /// The server's own part, once it has begun.
    pub(crate) fn local(&self) -> Option<&ServerState> {
        // ORDERING(shared-server.2): Acquire, pairs with shared-server.1.
        // SAFETY: null, or the server's, which lives as long as this.
        unsafe { self.local.load(Acquire).as_ref() }
    }

    /// The server itself, once it has begun.
    pub(crate) fn server(&self) -> Option<raw::Server> {
        self.local()?;
        // SAFETY: `enter` stored a server's before its local.
        Some(unsafe { raw::Server::from_ptr(self.server.load(Relaxed)) })
    }

    fn ended(&self) -> u64 {
        // ORDERING(ended.2): Acquire, pairs with ended.1.
        self.local().map_or(0, |local| local.ended.load(Acquire))
    }

    fn spawned(&self) -> u64 {
        self.local().map_or(0, |local| local.spawned.load(Relaxed))
    }
}

/// How long a thread waits for servers to hand over their spares. Servers that are busy hand them
/// over later.
const GATHERING: Duration = Duration::from_millis(20);

/// Bit of `attention`.
const OVER: u32 = 1;
const STOPPING: u32 = 2;

/// The whole state of a runtime.
pub(crate) struct RuntimeState {
    pub(crate) scheduler: Chosen,
    /// The scheduler ranks workers, and urgent workers preempt others.
    pub(crate) ranked: bool,
    /// Some worker stays on a kernel thread of its own. Then no worker switches to another
    /// directly: the server runs between.
    pub(crate) has_staying: AtomicBool,
    /// The scheduler leaves the last worker made ready to its server's slot, and has no ranks.
    pub(crate) has_slots: bool,
    pub(crate) group: Group,
    pub(crate) servers: Box<[SharedServer]>,
    pub(crate) active: Active,
    pub(crate) sleepers: Sleepers,
    pub(crate) driver: Box<dyn Poller>,
    pub(crate) watch: Watch,
    pub(crate) stalls: StallPolicy,
    /// The class of a worker that names no other.
    pub(crate) class: SizeClass,
    pub(crate) name: String,
    /// The runtime's number. Unique in the process as long as there are fewer than 2^32.
    pub(crate) number: u32,
    /// Workers that were made elsewhere than on the runtime's servers.
    pub(crate) spawned_outside: AtomicU64,
    /// Workers that ended as threads.
    ended_outside: AtomicU64,
    /// Workers now in a blocking scope: the scopes begun less those that came back.
    pub(crate) blocked: AtomicUsize,
    /// The owner waits for the runtime's end.
    pub(crate) closing: AtomicBool,
    pub(crate) threads: Threads,
    /// Held while dumping. The holder is not preempted, or other workers on its server would wait
    /// for the lock in vain.
    pub(crate) dumping: HoldLock<()>,
    /// The tasks of servers besides running workers: [`OVER`], and [`STOPPING`] once for each
    /// request.
    attention: AtomicU32,
    /// How many threads want the stacks and blocks that servers keep.
    spares_wanted: AtomicU32,
    pub(crate) on_deadlock: Option<OnDeadlock>,
    /// The number of turns at the last report.
    pub(crate) reported: AtomicU64,
}

/// Called with a text when all workers wait for each other.
pub(crate) type OnDeadlock = Box<dyn Fn(&str) + Send + Sync>;

/// The parts that the builder makes a runtime of.
pub(crate) struct RuntimeConfig {
    pub(crate) scheduler: Chosen,
    pub(crate) servers: usize,
    /// How many of them are active at first.
    pub(crate) active: usize,
    /// Whether the number of active servers follows that of the processors.
    pub(crate) adapts: bool,
    /// The last server is a standby.
    pub(crate) has_standby: bool,
    pub(crate) driver: Box<dyn Poller>,
    pub(crate) class: SizeClass,
    pub(crate) name: String,
    pub(crate) preemption: Option<std::time::Duration>,
    pub(crate) stalls: StallPolicy,
    pub(crate) on_deadlock: Option<OnDeadlock>,
}

impl RuntimeState {
    pub(crate) fn new(config: RuntimeConfig) -> RuntimeState {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let RuntimeConfig {
            mut scheduler,
            servers,
            active,
            adapts,
            has_standby,
            driver,
            class,
            name,
            preemption,
            stalls,
            on_deadlock,
        } = config;
        decide_fences(servers);
        runnable::when_dropped(|worker| ready(worker, Why::Woken));
        let number = NUMBER.fetch_add(1, Relaxed);
        scheduler.start(RuntimeNamed {
            name: name.clone(),
            number,
            servers,
        });
        let ranked = scheduler.is_ranked();
        RuntimeState {
            ranked: ranked && preemption.is_some(),
            has_slots: scheduler.has_slots() && !ranked,
            has_staying: AtomicBool::new(false),
            scheduler,
            group: Group::make(),
            servers: (0..servers).map(|_| SharedServer::new()).collect(),
            active: Active::new(active, servers - usize::from(has_standby), adapts),
            sleepers: Sleepers::new(servers),
            driver,
            watch: Watch::new(preemption),
            stalls,
            class,
            name,
            number,
            spawned_outside: AtomicU64::new(0),
            ended_outside: AtomicU64::new(0),
            blocked: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            threads: Threads::new(),
            dumping: HoldLock::new(()),
            attention: AtomicU32::new(0),
            spares_wanted: AtomicU32::new(0),
            on_deadlock,
            reported: AtomicU64::new(u64::MAX),
        }
    }

    /// The runtime of a live worker.
    #[inline(always)]
    pub(crate) fn of(task: &Task) -> &'static RuntimeState {
        // SAFETY: set when the worker was made. A runtime lives as long as it has workers, and this
        // is called for those only.
        unsafe { &*task.shared.load(Relaxed).cast::<RuntimeState>() }
    }

    /// The runtime, as the descriptors of its workers store it.
    #[inline(always)]
    pub(crate) fn as_of(&self) -> RuntimeOf {
        RuntimeOf {
            state: std::ptr::from_ref(self).cast_mut().cast(),
            number: self.number,
        }
    }

    /// How many workers there are. Exact while no thread is making one.
    pub(crate) fn live(&self) -> u64 {
        // Ended workers are counted first. So neither a worker that is made meanwhile nor its maker
        // is missed.
        // ORDERING(closing.2): SeqCst, pairs with closing.1: a thread that closed the runtime
        // before this counts all workers that ended outside and did not see it close.
        let ended: u64 = self.servers.iter().map(SharedServer::ended).sum::<u64>()
            + self.ended_outside.load(SeqCst);
        let spawned: u64 = self.servers.iter().map(SharedServer::spawned).sum();
        // ORDERING(closing.2): SeqCst, pairs with closing.1: a thread that closed the runtime
        // before this counts all workers that will be made from outside.
        (spawned + self.spawned_outside.load(SeqCst)).saturating_sub(ended)
    }

    /// The runtime has no more workers, or gives them up.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.attention.load(Relaxed) & OVER != 0
    }

    /// Whether a thread has asked all servers to stand still.
    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING(stopping.1): Acquire, pairs with stopping.2: the thread that stopped the servers
        // reads their state no more.
        self.attention.load(Acquire) >= STOPPING
    }

    /// Whether the runtime is over, or servers are asked to stand still.
    #[inline(always)]
    pub(crate) fn attention(&self) -> bool {
        self.attention.load(Relaxed) != 0
    }

    /// Asks all servers to share the stacks and blocks that they keep for themselves. Waits for the
    /// servers that do so soon.
    #[cold]
    pub(crate) fn gather_spares(&self) {
        let running = server::running();
        let own = running
            .as_ref()
            .map(Running::local)
            .filter(|own| std::ptr::eq(own.shared(), self));
        if let Some(own) = own {
            own.share_spares();
        }
        self.spares_wanted.fetch_add(1, Relaxed);
        self.stand_still();
        let deadline = Instant::now() + GATHERING;
        let is_own = |local: &ServerState| own.is_some_and(|own| std::ptr::eq(own, local));
        let is_here = |server: &SharedServer| {
            server
                .local()
                .is_none_or(|local| local.is_stopped() || is_own(local))
        };
        while !self.servers.iter().all(is_here) && Instant::now() < deadline && !self.is_over() {
            nap(50_000);
        }
        self.go_on();
        self.spares_wanted.fetch_sub(1, Relaxed);
    }

    /// This server is to look whether it is active. A worker that computes is taken off it, if that
    /// can be done.
    pub(crate) fn tell(&self, server: usize) {
        if let Some(local) = self.servers[server].local() {
            local.countdown.end_from_outside();
        }
        if self.watch.preemption.is_some() && !self.active.has(server) {
            self.preempt(server);
        }
    }

    pub(crate) fn wants_spares(&self) -> bool {
        self.spares_wanted.load(Relaxed) > 0
    }

    /// Asks all servers to stand still, until `go_on`.
    pub(crate) fn stand_still(&self) {
        self.attention.fetch_add(STOPPING, Relaxed);
        asymmetric::heavy();
        self.sleepers.wake_all(&*self.driver);
    }

    pub(crate) fn go_on(&self) {
        // ORDERING(stopping.2): Release, pairs with stopping.1.
        self.attention.fetch_sub(STOPPING, Release);
    }

    /// Counts the end of a worker that ends as a thread. The caller visits the group.
    pub(crate) fn count_end_outside(&self) {
        // ORDERING(closing.1): SeqCst, pairs with closing.2: either the closing thread counts this
        // end, or this thread sees it close.
        self.ended_outside.fetch_add(1, SeqCst);
        // ORDERING(closing.1): SeqCst, as above.
        if self.closing.load(SeqCst) {
            self.sleepers.wake_all(&*self.driver);
        }
    }

    /// Ends the servers: there are no workers any more, or the remaining ones are given up.
    pub(crate) fn end(&self) {
        self.attention.fetch_or(OVER, Relaxed);
        asymmetric::heavy();
        self.sleepers.wake_all(&*self.driver);
        self.watch.end();
    }

    /// Called by a handler of forks in the child of a fork. The child has none of the runtime's
    /// threads: it makes no more workers.
    pub(crate) fn leave_behind(&self) {
        self.closing.store(true, Relaxed);
        self.attention.fetch_or(OVER, Relaxed);
    }

    /// Whether the runtime was made before a fork whose child this process is.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.driver.is_left_behind()
    }

    /// Installs the hook by which workers that come back from blocking wake a server.
    pub(crate) fn hook(self: &Arc<Self>) {
        fn wake(shared: usize) {
            // SAFETY: `hook` passed a runtime, which outlives its workers.
            let shared = unsafe { &*(shared as *const RuntimeState) };
            shared.wake_from_outside(Wake::One);
        }
        // SAFETY: waking touches atomics and makes a system call; there are no workers yet.
        unsafe { self.group.set_hook(wake, Arc::as_ptr(self).addr()) };
    }

    /// Called once the runtime has no servers and no workers any more.
    pub(crate) fn give_group_back(&self) {
        // SAFETY: by the caller's promise, and once for each runtime.
        unsafe { self.group.unmake() };
    }

    /// Gives a worker to the scheduler. Called on the kernel thread of a server.
    #[inline(always)]
    pub(crate) fn ready_at(&self, worker: Runnable, why: Why, here: &Here) {
        if self.ranked {
            return self.ready_ranked(worker, why, Some(here));
        }
        match self.scheduler.ready(worker, why, Some(here)) {
            Wake::Nobody => {}
            wake => self.wake(wake),
        }
    }

    /// Gives a worker to the scheduler that yields, also to workers that were preempted. Called on
    /// the kernel thread of a server.
    pub(crate) fn ready_last_at(&self, worker: Runnable, here: &Here) {
        match self.scheduler.put_last(worker, here) {
            None => self.wake(Wake::One),
            Some(worker) => self.ready_at(worker, Why::Yielded, here),
        }
    }

    /// Gives a worker to the scheduler. Called on any other thread.
    #[cold]
    pub(super) fn ready_outside(&self, worker: Runnable, why: Why) {
        // Once the scheduler has the worker, the worker may run and end, and the runtime with it.
        let _visit = self.group.visit();
        if self.ranked {
            return self.ready_ranked(worker, why, None);
        }
        let wake = self.scheduler.ready(worker, why, None);
        self.wake_from_outside(wake);
    }

    /// Either of the two, where urgent workers preempt less urgent ones.
    #[cold]
    #[inline(never)]
    fn ready_ranked(&self, worker: Runnable, why: Why, here: Option<&Here>) {
        let rank = self.scheduler.rank(&worker);
        let only = match self.scheduler.ready(worker, why, here) {
            Wake::Nobody => return,
            wake => {
                self.wake_from_outside(wake);
                if let Wake::Server(index) = wake {
                    Some(index)
                } else {
                    None
                }
            }
        };
        rank::call(self, only, rank, |server| match here {
            // The worker to preempt is the caller itself, which is inside the library. So the watch
            // preempts it later.
            Some(here) if here.index() == server => self.watch.look_now(&*self.driver),
            _ => self.preempt(server),
        });
    }

    /// Like `wake`, called on a thread that is no server. It has a fence of its own, so the only
    /// server of a runtime needs no stronger fence when it goes to sleep.
    pub(crate) fn wake_from_outside(&self, wake: Wake) {
        // ORDERING(outside-wake.1): SeqCst, pairs with outside-wake.2: either the sleeper finds the
        // worker, or this thread finds the sleeper.
        full_fence();
        self.wake(wake);
    }

    /// Wakes a server that should look for the worker that is ready now.
    #[inline(always)]
    fn wake(&self, wake: Wake) {
        asymmetric::light();
        // A worker that is bound to a server is run there, also if the server is inactive.
        if self.sleepers.asleep() > 0 || matches!(wake, Wake::Server(_)) {
            self.wake_sleeper(wake);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self, wake: Wake) {
        match wake {
            // A worker that is bound to a server is of no use to a server that searches elsewhere.
            Wake::Server(index) => self.sleepers.wake(&*self.driver, index),
            Wake::UnlessNapping if self.scheduler.will_look() => {}
            Wake::One | Wake::UnlessNapping if self.sleepers.is_one_needed() => {
                self.sleepers.wake_one(&*self.driver)
            }
            Wake::One | Wake::UnlessNapping | Wake::Nobody => {}
        }
    }

    /// The calling server has become inactive: where urgent workers preempt others, it may have
    /// been called for one that any server may run.
    pub(crate) fn call_again(&self) {
        if self.ranked {
            rank::call_again(self);
        }
    }

    /// Preempts again each worker that was to be preempted and was not: its server may not have
    /// been preemptible just then. True if there is such a worker.
    pub(crate) fn preempt_again(&self) -> bool {
        let overdue = |server: &usize| self.post(*server).is_some_and(Post::is_overdue);
        (0..self.servers.len())
            .filter(overdue)
            .map(|server| self.preempt(server))
            .count()
            > 0
    }
}

/// Membarriers are dear where they interrupt many processors.
fn decide_fences(servers: usize) {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    if servers.min(processors) > FEW {
        asymmetric::give_up();
    } else {
        asymmetric::init();
    }
}

impl Ranked for RuntimeState {
    type Runnable = Runnable;

    fn servers(&self) -> usize {
        self.active.count()
    }

    fn post(&self, server: usize) -> Option<&Post> {
        Some(&self.servers[server].local()?.post)
    }

    fn rank(&self, worker: &Runnable) -> u64 {
        self.scheduler.rank(worker)
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        match self.servers[here.index()].local() {
            Some(local) if local.is_inactive() => self.scheduler.next_bound(here),
            _ => self.scheduler.next(here),
        }
    }

    fn most_urgent(&self, only: Option<usize>) -> u64 {
        self.scheduler.most_urgent(only)
    }

    fn put_back(&self, worker: Runnable, here: &Here) {
        self.ready_ranked(worker, Why::Preempted, Some(here));
    }

    fn preempt(&self, server: usize) {
        if let Some(server) = self.servers[server].server() {
            server.preempt();
        }
    }
}

/// Gives a worker to its runtime's scheduler.
#[inline]
pub(crate) fn ready(worker: Runnable, why: Why) {
    let shared = RuntimeState::of(worker.task());
    match server::running() {
        Some(running) if std::ptr::eq(running.local().shared(), shared) => {
            running.local().make_ready(worker, why)
        }
        _ => ready_elsewhere(worker, why),
    }
}

/// The same in a step: does not ask for the caller's role.
pub(crate) fn ready_in_step(local: &ServerState, worker: Runnable, why: Why) {
    let shared = RuntimeState::of(worker.task());
    if std::ptr::eq(local.shared(), shared) {
        local.make_ready(worker, why);
    } else {
        shared.ready_outside(worker, why);
    }
}

/// The caller is no worker of that runtime. It may be the runtime's server, which wakes workers
/// from its loop.
#[cold]
fn ready_elsewhere(worker: Runnable, why: Why) {
    let shared = RuntimeState::of(worker.task());
    match server::in_loop() {
        Some(local) if std::ptr::eq(local.shared(), shared) => local.make_ready(worker, why),
        _ => shared.ready_outside(worker, why),
    }
}
