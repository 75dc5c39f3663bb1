//! Two real-time threads on one processor: one does something instruction by instruction, by the
//! trap flag, and before many of the instructions the more urgent one does something else, unless
//! it is still at it.
//!
//! Not before each instruction: a thread that changes a word between all looks and all
//! compare-and-swaps of another keeps that one from ever getting on.

use crate::support::{child_succeeds, is_child, say};
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::mpsc;
use std::time::Duration;

const FLAG: i64 = 0x100;
const LOW: c_int = 1;
const HIGH: c_int = 2;
/// Processor time of one step of the urgent thread. A thread that sleeps while it waits needs
/// little; one that does not sleep keeps the other one off the processor for good.
const ENOUGH: Duration = Duration::from_millis(500);
/// For all of a test: then the process is killed.
const SECONDS: u32 = 100;

/// Whether instructions are stepped.
static ON: AtomicBool = AtomicBool::new(false);
static STEPS: AtomicU32 = AtomicU32::new(0);
/// Instructions before which the urgent one was still at it, as it waited for the other one.
static WAITS: AtomicU32 = AtomicU32::new(0);
/// Instructions from one before which the urgent one is asked to the next are fewer than this.
const GAP: u32 = 512;
/// How many there are left, and the number by which that is chosen.
static LEFT: AtomicU32 = AtomicU32::new(0);
static SEED: AtomicU32 = AtomicU32::new(1);
/// The work of the urgent thread: one of the functions below.
static WORD: AtomicU32 = AtomicU32::new(IDLE);
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const OVER: u32 = 2;

/// Calls `low`, and `high` before many instructions of `low` [`stepped`]. In a process of its own.
#[track_caller]
pub(crate) fn contend(test: &str, high: impl Fn() + Sync, low: impl FnOnce()) {
    if !std::thread::spawn(|| become_real_time(LOW)).join().unwrap() {
        return say(&format!(
            "SKIPPED: {test}: no right to be a real-time thread"
        ));
    }
    if !is_child(test) {
        return child_succeeds(test);
    }
    // SAFETY: no precondition; ends the process.
    unsafe { libc::alarm(SECONDS) };
    if !prepare() {
        return say(&format!(
            "SKIPPED: {test}: nothing traps behind an instruction here"
        ));
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        end();
        usual(panic);
        std::process::abort(); // the others would wait
    }));
    let (ready, is_ready) = mpsc::channel();
    let high = &high;
    let most = std::thread::scope(|scope| {
        let urgent = scope.spawn(move || serve(high, &ready));
        is_ready.recv().unwrap();
        low();
        WORD.store(OVER, Release);
        wake();
        let _ = std::panic::take_hook();
        urgent.join().unwrap()
    });
    let (steps, waits) = (STEPS.load(Relaxed), WAITS.load(Relaxed));
    say(&format!(
        "{test}: {steps} instructions, the urgent one waited before {waits}, and took {most:?} at \
         most"
    ));
    assert!(
        most < ENOUGH,
        "the urgent one computes while it waits: {most:?}"
    );
    assert!(waits > 0, "the urgent one never had to wait");
}

/// Does it instruction by instruction.
pub(crate) fn stepped(sequence: impl FnOnce()) {
    assert!(become_real_time(LOW));
    begin();
    sequence();
    end();
}

/// As [`stepped`], again and again until that were enough instructions.
pub(crate) fn stepped_often(sequence: impl Fn()) {
    const ENOUGH: u32 = 20_000;
    stepped(|| {
        while STEPS.load(Relaxed) < ENOUGH {
            sequence();
        }
    });
}

/// The body of the urgent thread. Returns the longest processor time that one call took.
fn serve(high: impl Fn(), ready: &mpsc::Sender<()>) -> Duration {
    assert!(become_real_time(HIGH));
    ready.send(()).unwrap();
    let mut most = Duration::ZERO;
    loop {
        match WORD.load(Acquire) {
            OVER => return most,
            ASKED => {
                let before = cpu();
                high();
                most = most.max(cpu() - before);
                let _ = WORD.compare_exchange(ASKED, IDLE, AcqRel, Relaxed);
            }
            _ => {
                // SAFETY: the word lives for ever.
                _ = unsafe {
                    libc::syscall(libc::SYS_futex, &raw const WORD, libc::FUTEX_WAIT, IDLE, 0)
                }
            }
        }
    }
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// With the process's first processor for its only one. False without the right to it.
fn become_real_time(priority: c_int) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let may = sched_getaffinity(Some(rustix::process::getpid())).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| may.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameters outlive the call.
    sched_setaffinity(None, &one).is_ok()
        && unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } == 0
}

/// Installs the handler. False where nothing traps behind an instruction.
fn prepare() -> bool {
    // SAFETY: zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction =
        on_trap as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    assert_eq!(
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::sigaction(libc::SIGTRAP, &action, null_mut()) },
        0
    );
    WORD.store(OVER, Relaxed); // no other thread is asked
    begin();
    end();
    WORD.store(IDLE, Relaxed);
    WAITS.store(0, Relaxed);
    STEPS.swap(0, Relaxed) > 0
}

#[inline(never)]
fn begin() {
    ON.store(true, Relaxed);
    // SAFETY: SIGTRAP has a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

/// A flow that has the flag loses it at its next instruction.
#[inline(never)]
fn end() {
    ON.store(false, Relaxed);
    // SAFETY: clears a flag that no code relies on.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

extern "C" fn on_trap(_signal: c_int, _information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext_t, and this is one.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !ON.load(Relaxed) {
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !FLAG;
        return;
    }
    STEPS.fetch_add(1, Relaxed);
    let left = LEFT.load(Relaxed);
    if left > 0 {
        LEFT.store(left - 1, Relaxed);
    } else if WORD.compare_exchange(IDLE, ASKED, AcqRel, Relaxed).is_ok() {
        wake(); // and it runs, at once
        let seed = SEED
            .load(Relaxed)
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        SEED.store(seed, Relaxed);
        LEFT.store((seed >> 16) % GAP, Relaxed);
    }
    if WORD.load(Acquire) == ASKED {
        WAITS.fetch_add(1, Relaxed);
    }
}

/// Wakes the urgent one. Touches no thread-local storage, as it may be called in the midst of a
/// switch.
fn wake() {
    // SAFETY: the word lives for ever.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_futex => _,
            in("rdi") &raw const WORD,
            in("rsi") libc::FUTEX_WAKE,
             in("rdx") 1, lateout("rcx") _, lateout("r11") _, options(nostack))
    };
}
