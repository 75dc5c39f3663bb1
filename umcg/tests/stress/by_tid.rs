//! The one call of the kernel interface: workers are named by tids, events come in arrays, and
//! servers race for workers.
//!
//! Servers run a worker that a queue or chance names, so that many switches are refused, and of
//! those that name a runnable worker one succeeds.

use crate::harness::{
    Dump, Noise, PREEMPTION, Rng, SIGNALS, Signals, Watchdog, is_signal_blocked, kernel_tid,
    progress, rounds, spin, turn,
};
use rustix::io::Errno;
use std::ffi::c_void;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use umcg::ctl::{self, EVENT_MASK, WAIT_FLAG_INTERRUPTED, command, umcg_ctl};

const BLOCK: usize = 1;
const WAKE: usize = 2;
const WAIT: usize = 3;
const EXIT: usize = 4;
const TIMEOUT: usize = 5;
const PREEMPT: usize = 6;

/// Nanoseconds of CLOCK_REALTIME, so far from now.
fn deadline_in(timeout: Duration) -> u64 {
    (SystemTime::now() + timeout)
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

/// The call where no events are stored.
fn call(command: u32, tid: i32, timeout: u64) -> Result<(), Errno> {
    // SAFETY: it writes nothing; the caller has no reference into thread-local storage.
    unsafe { umcg_ctl(0, command, tid, timeout, std::ptr::null_mut(), 0) }
}

/// The call where they are, by a server.
fn call_for(
    events: &mut [u64],
    flags: u32,
    command: u32,
    tid: i32,
    timeout: u64,
) -> Result<(), Errno> {
    // SAFETY: this many words are the caller's to write.
    unsafe {
        umcg_ctl(
            flags,
            command,
            tid,
            timeout,
            events.as_mut_ptr(),
            events.len() as i32,
        )
    }
}

/// A worker's accounts.
#[derive(Default)]
struct Account {
    tid: AtomicI32,
    waits: AtomicU64,
    blocks: AtomicU64,
    /// It unregistered while it blocked.
    missing_wakes: AtomicU64,
    timed_out: AtomicU64,
    seen: [AtomicU64; 7],
    running: AtomicBool,
}

impl Account {
    fn count(&self, kind: usize) -> u64 {
        self.seen[kind].load(Relaxed)
    }

    fn expect_wakes(&self) -> u64 {
        1 + self.blocks.load(Relaxed) - self.missing_wakes.load(Relaxed)
    }

    fn tid(&self) -> i32 {
        loop {
            // Its maker has not said yet.
            match self.tid.load(Relaxed) {
                0 => std::thread::yield_now(),
                tid => return tid,
            }
        }
    }

    fn begins(&self) {
        assert!(
            !self.running.swap(true, Relaxed),
            "two run tid {}",
            self.tid.load(Relaxed)
        );
    }

    fn ends(&self) {
        assert!(self.running.swap(false, Relaxed));
    }

    fn line(&self, index: usize) -> String {
        let of = |value: &AtomicU64| value.load(Relaxed);
        let seen: Vec<u64> = self.seen[1..].iter().map(of).collect();
        format!(
            "{index}: tid {:?} waits {} blocks {} missing wakes {} timed out {}; seen B W W E T P \
             {seen:?}; running {:?}",
            self.tid,
            of(&self.waits),
            of(&self.blocks),
            of(&self.missing_wakes),
            of(&self.timed_out),
            self.running,
        )
    }
}

#[derive(Debug)]
struct Shape {
    servers: usize,
    light: usize,
    threads: usize,
    steps: u64,
    preempted: bool,
    noise: Noise,
}

impl Shape {
    fn new(rng: &mut Rng) -> Shape {
        let workers = rng.pick(&[1, 2, 3, 10, 30, 100, 300, 1000]);
        let threads = rng.below(workers + 1).min(100);
        let preempted = PREEMPTION && rng.one_in(2);
        Shape {
            servers: rng.pick(&[1, 2, 4]),
            light: (workers - threads) as usize,
            threads: threads as usize,
            steps: 20 + 5_000 / workers,
            preempted,
            noise: Noise {
                signals: SIGNALS && rng.one_in(2),
                ticks: preempted && rng.one_in(2),
            },
        }
    }
}

struct Round {
    seed: u64,
    shape: Shape,
    accounts: Vec<Account>,
    left: AtomicUsize,
    /// Tids of workers that had an event.
    queue: Mutex<Vec<i32>>,
    servers: Arc<Mutex<Vec<i32>>>,
}

impl Dump for Round {
    fn dump(&self) -> String {
        let mut text = format!("{:?}, left {:?}", self.shape, self.left);
        let _ = writeln!(
            text,
            ", queue {:?}",
            self.queue.try_lock().map(|queue| queue.len())
        );
        let open = |account: &&Account| account.count(EXIT) == 0;
        for (index, account) in self
            .accounts
            .iter()
            .enumerate()
            .filter(|(_, account)| open(account))
            .take(40)
        {
            let _ = writeln!(text, "{}", account.line(index));
        }
        text
    }
}

impl Round {
    /// Some worker's tid, or 0.
    fn any_tid(&self, rng: &mut Rng) -> i32 {
        self.accounts[rng.below(self.accounts.len() as u64) as usize]
            .tid
            .load(Relaxed)
    }

    fn next(&self, rng: &mut Rng) -> Option<i32> {
        if rng.one_in(8) {
            return Some(self.any_tid(rng)).filter(|&tid| tid != 0);
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let len = queue.len() as u64;
        (len > 0).then(|| queue.swap_remove(rng.below(len) as usize))
    }

    /// The events of a server: up to the first zero.
    fn note(&self, events: &[u64]) {
        for event in events.iter().take_while(|event| **event != 0) {
            let account = &self.accounts[(event >> 5) as usize];
            let kind = (event & EVENT_MASK) as usize;
            progress();
            let seen = account.seen[kind].fetch_add(1, Relaxed) + 1;
            let at_most = match kind {
                BLOCK => account.blocks.load(Relaxed),
                WAKE => account.expect_wakes(),
                WAIT | TIMEOUT => account.waits.load(Relaxed),
                EXIT => 1,
                PREEMPT if self.shape.preempted => u64::MAX,
                _ => 0,
            };
            assert!(seen <= at_most, "spurious event {kind} of {event:#x}");
            match kind {
                BLOCK => {}
                EXIT => drop(self.left.fetch_sub(1, Relaxed)),
                _ => self
                    .queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(account.tid()),
            }
        }
    }

    fn serve(&self, stream: u64) {
        let mut rng = Rng::new(self.seed, stream);
        call(command::REGISTER_SERVER, 0, 0).unwrap();
        self.servers.lock().unwrap().push(kernel_tid());
        while self.left.load(Relaxed) > 0 {
            match self.next(&mut rng) {
                Some(tid) if rng.one_in(20) => self.wait_for(tid),
                Some(tid) => self.switch_to(&mut rng, tid),
                None => self.wait(&mut rng),
            }
        }
        self.servers
            .lock()
            .unwrap()
            .retain(|&tid| tid != kernel_tid());
        assert!(!is_signal_blocked(), "a signal handler was left behind");
        call(command::UNREGISTER, 0, 0).unwrap();
    }

    fn switch_to(&self, rng: &mut Rng, tid: i32) {
        let mut events = [0; 8];
        let events = &mut events[..1 + rng.below(8) as usize];
        match call_for(events, 0, command::CTX_SWITCH, tid, 0) {
            Ok(()) => self.note(events),
            Err(error) => assert!(matches!(error, Errno::INVAL | Errno::SRCH), "{error:?}"),
        }
    }

    /// Waits for a worker that may be blocked. Its tid goes back where it came from.
    fn wait_for(&self, tid: i32) {
        match call(command::WAIT, tid, 0) {
            Ok(()) | Err(Errno::INTR | Errno::SRCH | Errno::INVAL) => progress(),
            Err(error) => panic!("{error:?}"),
        }
        self.queue.lock().unwrap().push(tid);
    }

    fn wait(&self, rng: &mut Rng) {
        let mut events = [0; 8];
        let events = &mut events[..2 + rng.below(7) as usize];
        let timeout = match rng.below(4) {
            0 => 1,
            1 => deadline_in(Duration::from_micros(rng.below(300))),
            _ => 0,
        };
        let mut flags = 0;
        loop {
            match call_for(events, flags, command::WAIT, 0, timeout) {
                Ok(()) => return self.note(events),
                Err(Errno::INTR) => flags = WAIT_FLAG_INTERRUPTED,
                Err(Errno::TIMEDOUT) if timeout != 0 => return progress(),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn check(&self) {
        for (index, account) in self.accounts.iter().enumerate() {
            let line = account.line(index);
            assert_eq!(account.count(BLOCK), account.blocks.load(Relaxed), "{line}");
            assert_eq!(account.count(WAKE), account.expect_wakes(), "{line}");
            assert_eq!(account.count(WAIT), account.waits.load(Relaxed), "{line}");
            assert_eq!(
                account.count(TIMEOUT),
                account.timed_out.load(Relaxed),
                "{line}"
            );
            assert_eq!(account.count(EXIT), 1, "{line}");
            assert!(!account.running.load(Relaxed), "{line}");
        }
    }
}

/// The body of every worker.
fn body(round: &Round, index: usize) {
    let me = &round.accounts[index];
    let tid = ctl::gettid();
    let mut rng = Rng::new(round.seed, index as u64 + 100);
    me.begins();
    for _ in 0..1 + rng.below(2 * round.shape.steps) {
        progress();
        step(round, me, &mut rng);
        assert_eq!(ctl::gettid(), tid);
    }
}

fn step(round: &Round, me: &Account, rng: &mut Rng) {
    match rng.below(16) {
        0..=4 => give_way(me, command::WAIT, 0, 0),
        5..=6 => give_way(me, command::WAIT, 0, some_deadline(rng)),
        7..=8 => give_way(me, command::CTX_SWITCH, round.any_tid(rng), 0),
        9 => give_way(
            me,
            command::CTX_SWITCH,
            round.any_tid(rng),
            some_deadline(rng),
        ),
        10..=11 => {
            me.blocks.fetch_add(1, Relaxed);
            me.ends();
            assert!(ctl::blocking_begin(), "no thread for a helper");
            if rng.one_in(2) {
                std::thread::sleep(Duration::from_micros(rng.below(100)));
            }
            ctl::blocking_end().unwrap();
            me.begins();
        }
        12 => {
            ctl::critical_begin();
            spin(rng, 5_000);
            ctl::critical_end().unwrap();
        }
        _ => spin(rng, 20_000),
    }
}

fn some_deadline(rng: &mut Rng) -> u64 {
    if rng.one_in(4) {
        1 + rng.below(1000)
    } else {
        deadline_in(Duration::from_micros(rng.below(200)))
    }
}

/// A worker's WAIT, or a switch to another that may be refused.
fn give_way(me: &Account, command: u32, tid: i32, timeout: u64) {
    me.waits.fetch_add(1, Relaxed);
    me.ends();
    let result = call(command, tid, timeout);
    me.begins();
    match result {
        Ok(()) => {}
        Err(Errno::TIMEDOUT) => {
            assert_ne!(timeout, 0);
            me.timed_out.fetch_add(1, Relaxed);
        }
        Err(Errno::INVAL | Errno::SRCH) if command == command::CTX_SWITCH => {
            me.waits.fetch_sub(1, Relaxed);
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// A thread's life as a worker, with one of several ends.
fn thread(round: &Round, index: usize) {
    let me = &round.accounts[index];
    me.tid.store(kernel_tid(), Relaxed);
    call(command::REGISTER_WORKER, 0, (index as u64) << 5).unwrap();
    body(round, index);
    if index % 3 == 0 {
        me.blocks.fetch_add(1, Relaxed);
        me.missing_wakes.fetch_add(1, Relaxed);
        assert!(ctl::blocking_begin(), "no thread for a helper");
    }
    me.ends();
    if index % 3 < 2 {
        call(command::UNREGISTER, 0, 0).unwrap(); // else it ends with its thread
    }
}

/// A light worker to be.
struct Light {
    round: Arc<Round>,
    index: usize,
}

extern "C-unwind" fn light(light: *mut c_void) {
    // The allocator's thread-local storage is that of the server.
    ctl::critical_begin();
    // SAFETY: `make_light` has leaked it, for this call alone.
    let light = *unsafe { Box::from_raw(light.cast::<Light>()) };
    ctl::critical_end().unwrap();
    body(&light.round, light.index);
    light.round.accounts[light.index].ends();
}

fn make_light(round: &Arc<Round>, index: usize) {
    let argument = Box::into_raw(Box::new(Light {
        round: round.clone(),
        index,
    }))
    .cast();
    // SAFETY: it keeps nothing of a server's across a switch, and is not preempted where it frees;
    // else it allocates nothing.
    let tid = unsafe { ctl::light_create((index as u64) << 5, light, argument, 0, "") }.unwrap();
    round.accounts[index].tid.store(tid, Relaxed);
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let shape = Shape::new(&mut rng);
    let (threads, workers) = (shape.threads, shape.threads + shape.light);
    let round = Arc::new(Round {
        seed,
        accounts: (0..workers).map(|_| Account::default()).collect(),
        left: AtomicUsize::new(workers),
        queue: Mutex::new(Vec::new()),
        servers: Arc::new(Mutex::new(Vec::new())),
        shape,
    });
    let _watchdog = Watchdog::start("by_tid", seed, round.clone());
    ctl::set_preemption(if round.shape.preempted { 1_000_000 } else { 0 }).unwrap();
    let signals = Signals::start(seed, round.shape.noise, round.servers.clone());
    let builder = || std::thread::Builder::new().stack_size(256 << 10);
    let threads: Vec<_> = (0..threads)
        .map(|index| (index, round.clone()))
        .map(|(index, round)| builder().spawn(move || thread(&round, index)).unwrap())
        .collect();
    std::thread::scope(|scope| {
        let round = &round;
        let servers: Vec<_> = (1..=round.shape.servers as u64)
            .map(|stream| scope.spawn(move || round.serve(stream)))
            .collect();
        (threads.len()..workers).for_each(|index| make_light(round, index));
        while !servers.iter().all(|server| server.is_finished()) {
            std::thread::sleep(Duration::from_micros(200));
            if round.left.load(Relaxed) == 0 {
                let _ = call(command::WAKE, 0, 0);
            }
        }
    });
    drop(signals);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    round.check();
}

#[test]
fn every_event_by_tid_is_accounted_for() {
    let _turn = turn();
    rounds("by_tid", run);
    ctl::set_preemption(0).unwrap();
}
