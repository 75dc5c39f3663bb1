//! The safe types: the right to run a worker is a value, which servers and workers pass to each
//! other.
//!
//! Servers wait without a timeout, so an event without a call for a server shows as a hang. Each
//! worker's actions and the events that the servers had of it stand side by side in its ledger, and
//! have to agree.

use crate::harness::{
    Dump, Noise, PREEMPTION, Rng, SIGNALS, Signals, Watchdog, cpu_time, is_signal_blocked,
    kernel_tid, progress, rounds, spin, turn,
};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use umcg::{Event, Ready, Server, TimedOut, WaitError, Worker, WorkerId, uth};

/// Numbers of the kinds of events, as in the C interface.
const BLOCK: usize = 1;
const WAKE: usize = 2;
const WAIT: usize = 3;
const EXIT: usize = 4;
const TIMEOUT: usize = 5;
const PREEMPT: usize = 6;

thread_local! {
    static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

/// A worker's accounts.
#[derive(Default)]
struct Ledger {
    // The worker's announcement, before each action.
    waits: AtomicU64,
    deadlines: AtomicU64,
    blocks: AtomicU64,
    /// It begins, or ends, at a place where an event of the other kind must not come: registered as
    /// a thread; unregistered while it blocked.
    extra_wakes: AtomicU64,
    missing_wakes: AtomicU64,
    /// The results of its waits.
    passed: AtomicU64,
    /// Its present wait has a deadline.
    has_deadline: AtomicBool,
    /// How often each kind of event came.
    seen: [AtomicU64; 7],
    /// A token of it exists.
    held: AtomicBool,
    /// The token, while it may not be used until the deadline has passed; and whether that was told
    /// before the token was here.
    parked: Mutex<(Option<Ready>, bool)>,
}

impl Ledger {
    fn saw(&self, kind: usize) -> u64 {
        progress();
        self.seen[kind].fetch_add(1, Relaxed) + 1
    }

    fn count(&self, kind: usize) -> u64 {
        self.seen[kind].load(Relaxed)
    }

    fn expect_wakes(&self) -> u64 {
        self.blocks.load(Relaxed) + self.extra_wakes.load(Relaxed)
            - self.missing_wakes.load(Relaxed)
    }

    fn line(&self, index: usize) -> String {
        let of = |value: &AtomicU64| value.load(Relaxed);
        let seen: Vec<u64> = self.seen[1..].iter().map(of).collect();
        let parked = self.parked.try_lock().map_or_else(
            |_| "?".into(),
            |parked| format!("{}/{}", parked.0.is_some(), parked.1),
        );
        format!(
            "{index}: waits {} deadlines {} passed {} blocks {} extra wakes {}-{}; seen B W W E T \
             P {seen:?}; held {:?} parked {parked}",
            of(&self.waits),
            of(&self.deadlines),
            of(&self.passed),
            of(&self.blocks),
            of(&self.extra_wakes),
            of(&self.missing_wakes),
            self.held.load(Relaxed),
        )
    }
}

/// The shape of a round.
#[derive(Debug)]
struct Shape {
    servers: usize,
    light: usize,
    threads: usize,
    steps: u64,
    interval: Option<Duration>,
    noise: Noise,
    /// A worker with a deadline is not run before that has passed, so that the numbers agree
    /// exactly.
    patient: bool,
}

impl Shape {
    fn new(rng: &mut Rng) -> Shape {
        let workers = rng.pick(&[1, 2, 3, 10, 30, 100, 300, 1000]);
        let threads = rng.below(workers + 1).min(100);
        let interval = rng
            .pick(&[None, Some(Duration::from_millis(1))])
            .filter(|_| PREEMPTION);
        Shape {
            servers: rng.pick(&[1, 2, 4]),
            light: (workers - threads) as usize,
            threads: threads as usize,
            steps: 20 + 5_000 / workers,
            interval,
            noise: Noise {
                signals: SIGNALS && rng.one_in(2),
                ticks: interval.is_some() && rng.one_in(2),
            },
            patient: rng.one_in(2),
        }
    }
}

struct Round {
    seed: u64,
    shape: Shape,
    ledgers: Vec<Ledger>,
    /// How many ledgers are in use; workers make new workers.
    used: AtomicUsize,
    /// Workers that have not exited.
    left: AtomicUsize,
    pool: Mutex<Vec<Ready>>,
    servers: Arc<Mutex<Vec<i32>>>,
}

impl Dump for Round {
    fn dump(&self) -> String {
        let mut text = format!("{:?}, left {:?}", self.shape, self.left);
        let pool = self.pool.try_lock().map_or(usize::MAX, |pool| pool.len());
        let _ = writeln!(text, ", in the pool {pool}");
        let open = |ledger: &&Ledger| ledger.count(EXIT) == 0;
        let used = &self.ledgers[..self.used.load(Relaxed).min(self.ledgers.len())];
        for (index, ledger) in used
            .iter()
            .enumerate()
            .filter(|(_, ledger)| open(ledger))
            .take(40)
        {
            let _ = writeln!(text, "{}", ledger.line(index));
        }
        text
    }
}

impl Round {
    fn ledger(&self, id: WorkerId) -> &Ledger {
        &self.ledgers[id.index() as usize]
    }

    /// Takes a token out of the pool. A worker that holds the pool's lock must not lose the
    /// processor.
    fn take(&self, rng: &mut Rng) -> Option<Ready> {
        let ready = umcg::critical(|| {
            let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.is_empty() {
                None
            } else {
                Some(rng.below(pool.len() as u64) as usize)
            }
            .map(|at| pool.swap_remove(at))
        })?;
        assert!(
            self.ledger(ready.id()).held.swap(false, Relaxed),
            "a second token of {:?}",
            ready.id()
        );
        Some(ready)
    }

    fn put(&self, ready: Ready) {
        assert!(
            !self.ledger(ready.id()).held.swap(true, Relaxed),
            "a second token of {:?}",
            ready.id()
        );
        umcg::critical(|| {
            self.pool
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(ready)
        });
    }

    /// A ledger for one more worker, if there is any left.
    fn open(&self) -> Option<usize> {
        let index = self.used.fetch_add(1, Relaxed);
        if index >= self.ledgers.len() {
            self.used.fetch_sub(1, Relaxed);
            return None;
        }
        self.left.fetch_add(1, Relaxed);
        Some(index)
    }

    fn spawn(self: &Arc<Self>) {
        let Some(index) = self.open() else { return };
        let round = self.clone();
        let own = index % 2 == 1 && umcg_core::storage::available().is_ok();
        let body = move || {
            if own {
                assert_eq!(
                    NUMBER.replace(index),
                    usize::MAX,
                    "the storage of a worker before"
                );
            }
            body(&round, index);
            assert!(
                !own || NUMBER.get() == index,
                "the storage of another worker"
            );
        };
        let light = umcg::light(WorkerId::from_index(index as u64)).stack_size(64 << 10);
        // Every other one with storage of its own, where there is such.
        let made = match own {
            true => light.spawn_owning(body),
            // SAFETY: it has nothing of its server's across a switch; as it may be preempted, it
            // locks and allocates in critical sections only.
            false => unsafe { light.spawn(body) },
        };
        self.put(made.unwrap());
    }

    /// The events of a server.
    fn note(&self, rng: &mut Rng, event: Event, used: Option<Duration>) {
        let ledger = self.ledger(event.id());
        match event {
            Event::Block(_) => assert!(
                ledger.saw(BLOCK) <= ledger.blocks.load(Relaxed),
                "spurious BLOCK"
            ),
            Event::Wake(ready) => {
                assert!(
                    ledger.saw(WAKE) <= ledger.expect_wakes(),
                    "spurious WAKE of {:?}",
                    ready.id()
                );
                self.put(ready);
            }
            Event::Wait(ready) => {
                assert!(
                    ledger.saw(WAIT) <= ledger.waits.load(Relaxed),
                    "spurious WAIT of {:?}",
                    ready.id()
                );
                self.note_wait(rng, ledger, ready);
            }
            Event::Exit(id) => {
                assert_eq!(ledger.saw(EXIT), 1, "{id:?}");
                self.left.fetch_sub(1, Relaxed);
            }
            Event::Timeout(id) => {
                assert!(
                    ledger.saw(TIMEOUT) <= ledger.deadlines.load(Relaxed),
                    "spurious TIMEOUT of {id:?}"
                );
                let mut parked = ledger.parked.lock().unwrap();
                match parked.0.take() {
                    Some(ready) => self.put(ready),
                    None => parked.1 = true,
                }
            }
            Event::Preempt(ready) => {
                ledger.saw(PREEMPT);
                let least = self
                    .shape
                    .interval
                    .expect("PREEMPT without preemption")
                    .mul_f64(0.9);
                // A thread worker that stays on its own thread uses another clock.
                let stays = std::env::var_os("UMCG_NO_FSGSBASE").is_some();
                if let (Some(used), false) = (used, stays || self.shape.noise.ticks) {
                    assert!(used >= least, "PREEMPT of {:?} after {used:?}", ready.id());
                }
                self.put(ready);
            }
        }
    }

    fn note_wait(&self, rng: &mut Rng, ledger: &Ledger, ready: Ready) {
        if !ledger.has_deadline.load(Relaxed) || !(self.shape.patient || rng.one_in(4)) {
            return self.put(ready);
        }
        let mut parked = ledger.parked.lock().unwrap();
        if std::mem::take(&mut parked.1) {
            self.put(ready);
        } else {
            assert!(parked.0.replace(ready).is_none());
        }
    }

    fn serve(&self, stream: u64) {
        let mut rng = Rng::new(self.seed, stream);
        let mut server = Server::register().unwrap();
        self.servers.lock().unwrap().push(kernel_tid());
        while self.left.load(Relaxed) > 0 {
            if rng.one_in(100) {
                drop(server);
                server = Server::register().unwrap();
            }
            match self.take(&mut rng) {
                Some(ready) if rng.one_in(50) => {
                    self.ledger(ready.id()).extra_wakes.fetch_add(1, Relaxed);
                    drop(ready);
                }
                Some(ready) => {
                    let before = self.shape.interval.map(|_| cpu_time());
                    let event = server.switch_to(ready);
                    self.note(&mut rng, event, before.map(|before| cpu_time() - before));
                }
                None => match wait(&server, &mut rng) {
                    Ok(event) => self.note(&mut rng, event, None),
                    Err(_) => progress(),
                },
            }
            while rng.one_in(2) {
                let Some(event) = server.try_wait() else {
                    break;
                };
                self.note(&mut rng, event, None);
            }
        }
        self.servers
            .lock()
            .unwrap()
            .retain(|&tid| tid != kernel_tid());
        assert!(!is_signal_blocked(), "a signal handler was left behind");
    }

    fn check(&self) {
        assert!(self.pool.lock().unwrap().is_empty());
        for (index, ledger) in self.ledgers[..self.used.load(Relaxed)].iter().enumerate() {
            let line = ledger.line(index);
            assert_eq!(ledger.count(BLOCK), ledger.blocks.load(Relaxed), "{line}");
            assert_eq!(ledger.count(WAKE), ledger.expect_wakes(), "{line}");
            assert_eq!(ledger.count(WAIT), ledger.waits.load(Relaxed), "{line}");
            assert_eq!(ledger.count(EXIT), 1, "{line}");
            let (told, passed) = (ledger.count(TIMEOUT), ledger.passed.load(Relaxed));
            assert!(
                told <= passed && passed <= ledger.deadlines.load(Relaxed),
                "{line}"
            );
            assert!(
                !self.shape.patient || told == ledger.deadlines.load(Relaxed),
                "{line}"
            );
            assert!(
                !ledger.held.load(Relaxed) && ledger.parked.lock().unwrap().0.is_none(),
                "{line}"
            );
        }
    }
}

fn wait(server: &Server, rng: &mut Rng) -> Result<Event, WaitError> {
    match rng.below(4) {
        0 => server.wait_interruptible(),
        1 => server.wait_timeout(Duration::from_micros(rng.below(300))),
        _ => server.wait(),
    }
}

/// The body of every worker.
fn body(round: &Arc<Round>, index: usize) {
    let me = &round.ledgers[index];
    let id = WorkerId::from_index(index as u64);
    let mut rng = Rng::new(round.seed, index as u64 + 100);
    let canary = std::hint::black_box([rng.next(); 8]);
    for _ in 0..1 + rng.below(2 * round.shape.steps) {
        progress();
        step(round, me, &mut rng);
        assert_eq!(umcg::current_id(), Some(id));
        assert!(
            std::hint::black_box(&canary)
                .iter()
                .all(|word| *word == canary[0]),
            "the stack of {id:?}"
        );
    }
}

fn step(round: &Arc<Round>, me: &Ledger, rng: &mut Rng) {
    match rng.below(32) {
        0..=9 => {
            me.waits.fetch_add(1, Relaxed);
            umcg::wait().unwrap();
        }
        10..=14 => wait_until_deadline(round, me, rng),
        15..=20 => {
            let Some(next) = round.take(rng) else { return };
            me.waits.fetch_add(1, Relaxed);
            umcg::switch_to(next).unwrap();
        }
        21..=24 => {
            me.blocks.fetch_add(1, Relaxed);
            let pause = rng.below(4);
            umcg::blocking(|| match pause {
                0 => std::thread::yield_now(),
                1 => umcg::blocking(|| std::thread::sleep(Duration::from_micros(50))),
                _ => {}
            });
        }
        25 => round.spawn(),
        26 => {
            let Some(other) = round.take(rng) else { return };
            round.ledger(other.id()).extra_wakes.fetch_add(1, Relaxed);
            drop(other);
        }
        27 => umcg::critical(|| spin(rng, 5_000)),
        29 => {
            extern "C-unwind" fn nothing(_: *mut std::ffi::c_void) {}
            if let Ok(uth) = uth::create(nothing, std::ptr::null_mut()) {
                // SAFETY: it was never run, nor will be.
                unsafe { uth::delete(uth) }.unwrap();
            }
        }
        28 if round.shape.interval.is_some() && rng.one_in(20) => spin(rng, 50_000_000 / SLOWER),
        _ => spin(rng, 20_000),
    }
}

/// How much longer code takes without optimisation.
const SLOWER: u64 = if cfg!(debug_assertions) { 10 } else { 1 };

fn wait_until_deadline(round: &Round, me: &Ledger, rng: &mut Rng) {
    me.waits.fetch_add(1, Relaxed);
    me.deadlines.fetch_add(1, Relaxed);
    me.has_deadline.store(true, Relaxed);
    let deadline = match rng.below(4) {
        0 => Instant::now(),
        _ => Instant::now() + Duration::from_micros(rng.below(200)),
    };
    let next = if rng.one_in(2) { round.take(rng) } else { None };
    let waited = match next {
        Some(next) => umcg::switch_to_deadline(next, deadline),
        None => umcg::wait_deadline(deadline),
    };
    me.has_deadline.store(false, Relaxed);
    match waited {
        Ok(()) => {}
        Err(TimedOut::Passed) => drop(me.passed.fetch_add(1, Relaxed)),
        Err(TimedOut::NotAWorker) => panic!("not a worker"),
    }
}

/// A thread's lives as a worker.
fn thread(round: &Arc<Round>, index: usize) {
    if let Some(index) = (index % 4 == 0).then(|| round.open()).flatten() {
        life(round, index, 3 * index); // the end that leaves the thread as it was
    }
    life(round, index, index);
}

/// One of them, with one of several ends.
fn life(round: &Arc<Round>, index: usize, end: usize) {
    let ledger = &round.ledgers[index];
    ledger.extra_wakes.fetch_add(1, Relaxed);
    let worker = Worker::register(WorkerId::from_index(index as u64)).unwrap();
    body(round, index);
    match end % 3 {
        0 => drop(worker),
        1 => std::mem::forget(worker), // it ends with its thread
        _ => {
            ledger.blocks.fetch_add(1, Relaxed);
            ledger.missing_wakes.fetch_add(1, Relaxed);
            umcg::blocking(|| drop(worker));
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let shape = Shape::new(&mut rng);
    let (first, workers) = (shape.threads, shape.threads + shape.light);
    let round = Arc::new(Round {
        seed,
        ledgers: (0..workers + workers / 4 + 8)
            .map(|_| Ledger::default())
            .collect(),
        used: AtomicUsize::new(first),
        left: AtomicUsize::new(first),
        pool: Mutex::new(Vec::new()),
        servers: Arc::new(Mutex::new(Vec::new())),
        shape,
    });
    let _watchdog = Watchdog::start("tokens", seed, round.clone());
    umcg::set_preemption(round.shape.interval).unwrap();
    (0..round.shape.light).for_each(|_| round.spawn());
    let signals = Signals::start(seed, round.shape.noise, round.servers.clone());
    let builder = || std::thread::Builder::new().stack_size(256 << 10);
    let threads: Vec<_> = (0..first)
        .map(|index| (index, round.clone()))
        .map(|(index, round)| builder().spawn(move || thread(&round, index)).unwrap())
        .collect();
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..round.shape.servers as u64)
            .map(|stream| {
                scope.spawn({
                    let round = &round;
                    move || round.serve(stream + 1)
                })
            })
            .collect();
        while !servers.iter().all(|server| server.is_finished()) {
            std::thread::sleep(Duration::from_micros(200));
            if round.left.load(Relaxed) == 0 {
                umcg::wake();
            }
        }
    });
    drop(signals);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    round.check();
    let server = Server::register().unwrap();
    assert!(server.try_wait().is_none(), "an event is left over");
}

#[test]
fn every_event_of_tokens_is_accounted_for() {
    let _turn = turn();
    rounds("tokens", run);
    umcg::set_preemption(None).unwrap();
}
