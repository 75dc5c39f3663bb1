//! Letting another kernel thread run that may want this processor.

use rustix::thread::{Timespec, nanosleep};

/// Nanoseconds that a real-time thread sleeps: the kernel lets those of lower priority run
/// meanwhile.
const PAUSE: u32 = 50_000;

/// One turn of a wait for what another kernel thread is about to do, and may have lost its
/// processor over: the holder of a lock that is spun for.
///
/// A real-time thread sleeps for a moment. If it yielded only, it would run on before all of lower
/// priority, and where the other one is such on the same processor wait for ever. To know that it
/// is one costs a system call; so this is for the slow end of a wait, and one that ends by itself
/// after some turns can do with `sched_yield`. Does not switch.
#[cold]
pub fn give_way() {
    /// Set in a policy where children do not inherit it.
    const RESET_ON_FORK: libc::c_long = 0x4000_0000;
    const DEADLINE: libc::c_int = 6;
    // The C library musl does not ask the kernel.
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

/// Has the calling kernel thread sleep for so many nanoseconds, less than a second, or until a
/// signal comes.
///
/// The C library's sleep is a point at which a thread that was cancelled unwinds, and the caller
/// may be in the midst of a protocol. This is none. Does not switch.
pub fn nap(nanoseconds: u32) {
    let _ = nanosleep(&Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds.into(),
    });
}
