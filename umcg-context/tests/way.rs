//! Waits of real-time threads for other threads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::time::Duration;
use umcg_context::way::give_way;

/// Pins the process to the first processor that it may use.
fn pin() -> bool {
    // SAFETY: zero is a valid set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: valid for the call.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return false;
    }
    // SAFETY: within the set.
    let Some(first) =
        (0..libc::CPU_SETSIZE as usize).find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
    else {
        return false;
    };
    // SAFETY: as above.
    unsafe { libc::CPU_ZERO(&mut set) };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(first, &mut set) };
    // SAFETY: valid for the call.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) == 0 }
}

fn become_real_time() -> bool {
    // SAFETY: zero is a valid parameter.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = 1;
    // SAFETY: valid for the call.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &parameter,
        ) == 0
    }
}

/// How long the calling thread has used the processor.
fn used() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    assert_eq!(
        // SAFETY: the time is writable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) },
        0
    );
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A real-time thread that waits for a normal thread on the same processor lets that thread run.
#[test]
fn a_real_time_thread_lets_others_run() {
    const ROUNDS: u32 = 30;
    let (asked, done, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(pin());
            while !over.load(Relaxed) {
                done.store(asked.load(Acquire), Release);
                std::thread::yield_now();
            }
        });
        let real_time = scope.spawn(|| {
            // Pin first: then the other thread is pinned, too, when it answers.
            if !pin() || !become_real_time() {
                return None;
            }
            let start = used();
            for round in 1..=ROUNDS {
                asked.store(round, Release);
                while done.load(Acquire) != round {
                    give_way();
                }
            }
            Some(used() - start)
        });
        let took = real_time.join().unwrap();
        over.store(true, Relaxed);
        match took {
            None => eprintln!("SKIPPED: no right to be a real-time thread"),
            // The kernel would let the other thread run only after 0.95 s of this each time, if at
            // all.
            Some(took) => assert!(took < Duration::from_secs(10), "{took:?}"),
        }
    });
}
