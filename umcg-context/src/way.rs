//! Yields to another kernel thread that may want this processor.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use rustix::thread::{Timespec, futex, nanosleep};

/// How many nanoseconds a real-time thread sleeps. Meanwhile the kernel lets threads of lower
/// priority run.
const PAUSE: u32 = 50_000;

/// Whether a filter of system calls may answer some by SIGSYS.
static MAY_TRAP: AtomicBool = AtomicBool::new(false);

/// The program installs a filter of system calls. If it answers a call by SIGSYS, and the caller
/// blocks that, the kernel ends the process. From now on [`give_way`] makes no call but futex(2),
/// without which there are no threads.
pub fn beware_of_filters() {
    MAY_TRAP.store(true, Relaxed);
}

/// One turn of a wait for another kernel thread that is about to act, and that may have lost its
/// processor. An example is the holder of a lock that the caller spins for.
///
/// A real-time thread sleeps for a moment. If it only yielded, it would keep running before all
/// threads of lower priority. It would then wait for ever for such a thread on the same processor.
/// Learning the policy costs a system call, so call this at the slow end of a wait. A wait that
/// ends by itself after some turns can use `sched_yield`. Does not switch.
#[cold]
pub fn give_way() {
    /// A bit of the policy: children do not inherit it.
    const RESET_ON_FORK: libc::c_long = 0x4000_0000;
    const DEADLINE: libc::c_int = 6;
    if MAY_TRAP.load(Relaxed) {
        let word = AtomicU32::new(0);
        let _ = futex::wait(&word, futex::Flags::PRIVATE, 0, Some(&time(PAUSE)));
        return;
    }
    // The C library musl does not ask the kernel, so this does.
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    match (policy & !RESET_ON_FORK) as libc::c_int {
        libc::SCHED_FIFO | libc::SCHED_RR | DEADLINE => {
            nap(PAUSE);
        }
        _ => {
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        }
    }
}

/// Makes the calling kernel thread sleep for that many nanoseconds, less than a second, or until a
/// signal comes.
///
/// The C library's sleep is a cancellation point: a cancelled thread unwinds there, and the caller
/// may be in the middle of a protocol. This function is no cancellation point. Does not switch.
pub fn nap(nanoseconds: u32) {
    let _ = nanosleep(&time(nanoseconds));
}

fn time(nanoseconds: u32) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds.into(),
    }
}
