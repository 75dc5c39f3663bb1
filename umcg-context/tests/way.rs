//! Waits for other threads: of real-time threads, and under filters of system calls.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::time::Duration;
use umcg_context::way::{beware_of_filters, give_way};

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

/// Makes the kernel answer all but futex(2) that `give_way` may call by SIGSYS, which the calling
/// process blocks.
fn trap_calls() -> bool {
    let step = |code: u32, forward: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: forward,
        jf: 0,
        k: value,
    };
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(is, 4, libc::SYS_sched_yield as u32),
        step(is, 3, libc::SYS_sched_getscheduler as u32),
        step(is, 2, libc::SYS_nanosleep as u32),
        step(is, 1, libc::SYS_clock_nanosleep as u32),
        step(answer, 0, libc::SECCOMP_RET_ALLOW),
        step(answer, 0, libc::SECCOMP_RET_TRAP),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: zero is a set.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of this frame's.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: as above.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut()) };
    // SAFETY: no addresses.
    let has_no_rights = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    let (option, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: a program of this frame's.
    has_no_rights && unsafe { libc::prctl(option, mode, &raw const program) } == 0
}

/// The status of a child that traps these calls and then gives way.
fn status_of_child(beware: bool) -> i32 {
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        if !trap_calls() {
            // SAFETY: ends the child.
            unsafe { libc::_exit(2) };
        }
        if beware {
            beware_of_filters();
        }
        give_way();
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the status is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// With a filter that answers by SIGSYS, and that blocked, giving way does not end the process.
#[test]
fn giving_way_under_a_filter() {
    let plain = status_of_child(false);
    if libc::WIFEXITED(plain) && libc::WEXITSTATUS(plain) == 2 {
        return eprintln!("SKIPPED: no filter can be installed");
    }
    // By SIGSYS; Valgrind ends with a status of its own.
    assert_ne!(plain, 0, "the filter is not in place");
    let aware = status_of_child(true);
    assert!(
        libc::WIFEXITED(aware) && libc::WEXITSTATUS(aware) == 0,
        "{aware:#x}"
    );
}
