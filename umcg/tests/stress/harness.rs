//! The base of both stress tests: seeds, the watchdog, and a thread that sends signals.

use rustix::process::Signal;
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The idle lists belong to the process, so the tests take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        Rng(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Tells the watchdog that something happened.
pub(crate) fn progress() {
    PROGRESS.fetch_add(1, Relaxed);
}

/// A round's report of itself when it hangs or fails. Takes no lock that it would have to wait for.
pub(crate) trait Dump: Send + Sync {
    fn dump(&self) -> String;
}

/// ThreadSanitizer holds a signal back until the flow that it came to makes a system call, which
/// may be on another kernel thread by then: so its job goes without signals.
pub(crate) const SIGNALS: bool = !cfg!(umcg_tsan);

/// A worker that is preempted within an allocation keeps the allocator's lock from the others of
/// its server. The C library's allocator is known to the library; AddressSanitizer's is a part of
/// the program.
pub(crate) const PREEMPTION: bool = SIGNALS && !cfg!(umcg_asan);

/// How a round is disturbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// Harmless signals, to servers and to the process.
    pub(crate) signals: bool,
    /// Preemption ticks at any moment, instead of after the interval only.
    pub(crate) ticks: bool,
}

/// Runs rounds, each with a seed of its own, until the time is over.
pub(crate) fn rounds(name: &str, mut round: impl FnMut(u64)) {
    let length = Duration::from_secs(setting("UMCG_STRESS_SECONDS", 2));
    let mut seed = setting("UMCG_STRESS_SEED", u64::from(std::process::id()) << 16);
    let start = Instant::now();
    let mut count = 0;
    while count == 0 || start.elapsed() < length {
        round(seed);
        seed += 1;
        count += 1;
    }
    println!("{name}: {count} rounds up to seed {seed}");
}

/// Prints the seed and the round if the test panics in any thread, or makes no progress.
pub(crate) struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    pub(crate) fn start(name: &'static str, seed: u64, round: Arc<dyn Dump>) -> Watchdog {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let patience = Duration::from_secs(setting("UMCG_STRESS_PATIENCE", 120));
        let hook_round = Arc::downgrade(&round);
        std::panic::set_hook(Box::new(move |panic| {
            let known = hook_round
                .upgrade()
                .map_or_else(String::new, |round| round.dump());
            die(&format!(
                "{panic}\n{name}: UMCG_STRESS_SEED={seed}\n{known}"
            ));
        }));
        let watch = move || {
            let (mut seen, mut since) = (PROGRESS.load(Relaxed), Instant::now());
            while !stopped.load(Relaxed) {
                std::thread::park_timeout(Duration::from_millis(200));
                let now = PROGRESS.load(Relaxed);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                } else if since.elapsed() > patience {
                    die(&format!(
                        "{name}: no progress for {patience:?}; UMCG_STRESS_SEED={seed}\n{}",
                        round.dump()
                    ));
                }
            }
        };
        Watchdog {
            stop,
            thread: Some(std::thread::spawn(watch)),
        }
    }
}

/// Past the test runner, which would keep the words to itself.
fn die(words: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{words}");
    std::process::abort()
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
        drop(std::panic::take_hook());
    }
}

/// Whether the calling kernel thread blocks the harmless signal: no preempted handler may leave it
/// so.
pub(crate) fn is_signal_blocked() -> bool {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: it only asks; there is room for the answer.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
    assert_eq!(failed, 0);
    // SAFETY: the answer is there.
    unsafe { libc::sigismember(mask.as_ptr(), libc::SIGUSR1) != 0 }
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_signal: libc::c_int) {
    for _ in 0..1000 {
        HANDLED.fetch_add(1, Relaxed);
    }
}

/// A thread that sends signals to the servers and to the process.
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Signals {
    pub(crate) fn start(seed: u64, noise: Noise, servers: Arc<Mutex<Vec<i32>>>) -> Signals {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let handler: extern "C" fn(libc::c_int) = count_signal;
        // SAFETY: the handler counts, which it may do anywhere.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
        let send = move || {
            let mut rng = Rng::new(seed, u64::MAX);
            while !stopped.load(Relaxed) && (noise.signals || noise.ticks) {
                std::thread::sleep(Duration::from_micros(rng.below(100)));
                let servers = servers.lock().unwrap().clone();
                let Some(&server) = servers.get(rng.below(servers.len().max(1) as u64) as usize)
                else {
                    continue;
                };
                send_one(&mut rng, noise, server);
            }
        };
        Signals {
            stop,
            thread: Some(std::thread::spawn(send)),
        }
    }
}

fn send_one(rng: &mut Rng, noise: Noise, server: i32) {
    let process = rustix::process::getpid();
    if noise.signals && rng.one_in(4) {
        // SAFETY: numbers only; the signal is handled, and the process is gone if the call fails.
        unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                process.as_raw_pid(),
                server,
                libc::SIGUSR1,
            )
        };
    }
    if noise.signals && rng.one_in(8) {
        rustix::process::kill_process(process, Signal::USR1).unwrap();
    }
    if noise.ticks {
        // Three in a row, with a little in between: then the turn is due whatever its length.
        for _ in 0..3 {
            // As a timer's: `si_signo` and `si_code`.
            let mut information = [0i32; 32];
            information[0] = libc::SIGURG;
            information[2] = libc::SI_TIMER;
            // SAFETY: the kernel reads a `siginfo_t`, which has this size; the library handles the
            // signal from any sender.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    process.as_raw_pid(),
                    server,
                    libc::SIGURG,
                    information.as_ptr(),
                )
            };
            (0..rng.below(2000)).for_each(|_| std::hint::spin_loop());
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The processor time of the calling kernel thread: the clock of the preemption tick.
pub(crate) fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The kernel's answer: which kernel thread runs this.
pub(crate) fn kernel_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Burns processor time without a system call.
pub(crate) fn spin(rng: &mut Rng, most: u64) {
    for n in 0..rng.below(most) {
        std::hint::black_box(n);
    }
}
