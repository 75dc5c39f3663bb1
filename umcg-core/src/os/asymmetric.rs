//! Fences that cost one side nothing: `light` on the path that runs a million times a second,
//! `heavy` on the one that runs now and then.
//!
//! Two threads that each store to one place and then load the other's ("Dekker") need a full fence
//! between store and load, or both may load the old values: the processor keeps a store back in its
//! store buffer while it continues with the load. The fence is half the price of a short operation,
//! and one side often pays it far more often than the other.
//!
//! membarrier(2), command `PRIVATE_EXPEDITED`, lets the rare side pay for both. It returns after
//! every thread of the process has passed a full fence at some point between the call and the
//! return. A running thread is interrupted (the kernel executes the fence on its processor). A
//! thread that does not run has passed, or will pass, the fence of a kernel switch. Call that point
//! *P* of the frequent thread:
//!
//! ```text
//! frequent:  store X;  light();  load Y              rare:  store Y;  heavy();  load X
//! ```
//!
//! - *P* lies after the frequent thread's store in its program: then the store is visible before
//!   `heavy` returns, and the rare thread loads it.
//! - *P* lies before the store, so before the load as well: the rare thread's store was visible
//!   before *P* (the call begins with a fence), and the load sees it.
//!
//! There is no third case as long as the compiler leaves store and load in this order. That remains
//! the job of `light`: a compiler fence, no instruction. The partner of a `heavy` must be a `light`
//! of another thread, or another `heavy`; two `light`s order nothing between each other.
//!
//! The first [`init`] or [`heavy`] decides whether this method is used. States of `MODE`:
//!
//! ```text
//! UNDECIDED ----> ASYMMETRIC    registered with the kernel
//!     |               v
//!     |            LEAVING      the kernel refuses now what it granted: each thread has to be reached by another way, once
//!     |               v
//!     `---------> FENCED        the kernel has no membarrier, or a filter refuses it, or UMCG_NO_MEMBARRIER is in the environment
//! ```
//!
//! - UNDECIDED makes `light` a real fence, and `heavy` decides first. So a `light` that has not
//!   seen the decision yet is too strong, never too weak.
//! - The registration is one of the address space. A fork copies it, so MODE and the kernel agree
//!   in the child too (there is a test); `execve` ends it, and MODE with it.
//!
//! # Leaving
//!
//! A filter of system calls may be installed later. Then `heavy` sets LEAVING, makes every thread
//! pass a fence by `everywhere`, which is slow, and sets FENCED. Call the point where a thread
//! passes that fence *P*, as above. `light` reads MODE *after* the store X and before the load Y,
//! in this order as the thread executes them, so there are two cases:
//!
//! - It read ASYMMETRIC. That was before *P*, because LEAVING is visible there. So X was stored
//!   before *P*, and is visible when the round is over. A thread that calls `heavy` for this round,
//!   or later, loads X.
//! - It read anything else, and has a fence of its own; `heavy` has one, too.
//!
//! A `heavy` that finds LEAVING makes a round of its own, and does not wait for the other one: a
//! fork may not have copied that thread. A `light` is a point in the flow of a worker, which may go
//! from kernel thread to kernel thread between X and Y. Then the hand-over of the worker makes X
//! visible on the second one.
//!
//! A program with many processors leaves by itself ([`give_up`]), and makes the round by a last
//! membarrier, which has the same effect.
//!
//! If the round is refused as well, the process ends with a message. Without the fence, wake-ups
//! would be lost and two threads would get one lock, now and then. A panic would cause the same in
//! the surviving threads, or quietly end a thread that others wait for. UMCG_NO_MEMBARRIER avoids
//! both.
//!
//! There is no way back from FENCED: otherwise a `heavy` that has just passed only its own fence
//! would meet a `light` that has none.
//!
//! Not chosen: `GLOBAL` waits for a grace period, milliseconds. `GLOBAL_EXPEDITED` interrupts other
//! processes. Changing a page's protection back and forth works only where the kernel interrupts
//! other processors for that, which newer x86-64 processors do not need, and it holds the address
//! space's lock. A signal does not reach a thread that blocks it.

use crate::os::everywhere;
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicU8, Ordering::*, compiler_fence, fence};
use std::time::{Duration, Instant};
use umcg_context::way::nap;

const UNDECIDED: u8 = 0;
const FENCED: u8 = 1;
const ASYMMETRIC: u8 = 2;
const LEAVING: u8 = 3;

/// Nanoseconds between two attempts while the kernel is short of memory.
const MOMENT: u32 = 1_000_000;

static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The fence of the frequent side. Orders the caller's stores before it with its loads after it, as
/// seen by a thread that calls [`heavy`].
#[inline(always)]
pub fn light() {
    compiler_fence(SeqCst); // the store comes before the load of MODE: see Leaving
    if MODE.load(Relaxed) == ASYMMETRIC {
        compiler_fence(SeqCst);
    } else {
        // ORDERING(asymmetric.1): SeqCst, pairs with asymmetric.2. Where the kernel does not help,
        // each side has a fence of its own.
        full_fence();
    }
}

/// A sequentially consistent fence. The compiler has an instruction for it that takes 18 ns on some
/// processors (Zen 5), where a locked operation takes 5.
#[inline(always)]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: changes nothing. To the compiler it may look at all of memory, and change it.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0")
    };
    // ORDERING(full-fence): SeqCst, pairs with itself: callers say which of them are a pair.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    fence(SeqCst);
}

/// The fence of the rare side: a full one, for the caller and for every thread that calls
/// [`light`]. It costs a system call, and an interruption of each processor that runs a thread of
/// this process.
///
/// If the kernel now refuses what it granted before, because a filter of system calls was installed
/// since, both sides have real fences from then on. Ends the process if the kernel refuses the
/// calls for that, too.
#[inline]
pub fn heavy() {
    match MODE.load(Relaxed) {
        ASYMMETRIC => {
            if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
                heavy_again(error);
            }
        }
        // ORDERING(asymmetric.2): SeqCst, pairs with asymmetric.1; and with asymmetric.3, by the
        // load of MODE before it.
        FENCED => fence(SeqCst),
        LEAVING => leave_too(),
        _ => heavy_first(),
    }
}

#[cold]
#[inline(never)]
fn heavy_first() {
    decide();
    heavy();
}

/// Whether [`light`] costs nothing; false before the first decision. It may become false later.
pub fn is_asymmetric() -> bool {
    MODE.load(Relaxed) == ASYMMETRIC
}

/// Decides, if no thread has decided yet, without a lock. Returns whether [`light`] costs nothing.
#[inline]
pub fn init() -> bool {
    match MODE.load(Relaxed) {
        UNDECIDED => decide(),
        mode => mode == ASYMMETRIC,
    }
}

/// Several threads may do this at once. Registering twice does no harm, and the first thread's
/// decision counts.
#[cold]
fn decide() -> bool {
    // SAFETY: getenv reads the environment, with a string that ends.
    let forbidden = unsafe { !libc::getenv(c"UMCG_NO_MEMBARRIER".as_ptr()).is_null() };
    let granted = !forbidden
        && patiently(
            MembarrierCommand::RegisterPrivateExpedited,
            Duration::from_millis(100),
        )
        .is_ok()
        && patiently(
            MembarrierCommand::PrivateExpedited,
            Duration::from_millis(100),
        )
        .is_ok();
    let decision = if granted { ASYMMETRIC } else { FENCED };
    match MODE.compare_exchange(UNDECIDED, decision, Relaxed, Relaxed) {
        Ok(_) => granted,
        Err(first) => first == ASYMMETRIC,
    }
}

/// Makes both sides have full fences from here on, for programs whose threads run on so many
/// processors that interrupting all of them costs more. The kernel makes one membarrier at a time,
/// for all processes, and each takes longer the more processors it interrupts.
#[cold]
pub fn give_up() {
    let from = MODE.compare_exchange(UNDECIDED, FENCED, Relaxed, Relaxed);
    if from == Err(ASYMMETRIC) {
        leave_too();
    }
}

/// Leaves, or helps a thread that does. Membarrier may still work, as after [`give_up`].
#[cold]
#[inline(never)]
fn leave_too() {
    let round = || patiently(MembarrierCommand::PrivateExpedited, Duration::from_secs(2));
    leave_by(|| round().unwrap_or_else(pass_everywhere));
}

/// The kernel refused, perhaps because it is short of memory for a moment.
#[cold]
#[inline(never)]
fn heavy_again(error: Errno) {
    let result = if is_passing(error) {
        patiently(MembarrierCommand::PrivateExpedited, Duration::from_secs(2))
    } else {
        Err(error)
    };
    result.unwrap_or_else(leave);
}

/// Makes both sides have fences from here on, and executes one now for the caller and all other
/// threads. `error` is membarrier's.
#[cold]
#[inline(never)]
fn leave(error: Errno) {
    leave_by(|| pass_everywhere(error));
}

/// The round where `error` is membarrier's answer.
fn pass_everywhere(error: Errno) {
    if let Err(why) = everywhere::pass() {
        refused(error, why);
    }
}

/// The same as [`leave`], by a round that makes all threads pass a fence.
fn leave_by(round: impl FnOnce()) {
    // On failure another thread is leaving, or has left.
    let _ = MODE.compare_exchange(ASYMMETRIC, LEAVING, Relaxed, Relaxed);
    // ORDERING(asymmetric.2): as in `heavy`. The round begins after the stores, that of LEAVING
    // among them.
    fence(SeqCst);
    // ORDERING(asymmetric.4): Acquire, pairs with asymmetric.3.
    if MODE.load(Acquire) == FENCED {
        return;
    }
    round();
    // ORDERING(asymmetric.3): Release, pairs with asymmetric.2 and asymmetric.4. A thread that sees
    // it sees all threads' stores before the round.
    MODE.store(FENCED, Release);
    // ORDERING(asymmetric.2): the caller's loads come after the round.
    fence(SeqCst);
}

fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOMEM | Errno::INTR)
}

/// Asks again while the kernel is short of memory, for at most `limit`.
fn patiently(command: MembarrierCommand, limit: Duration) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match membarrier(command) {
            Err(error) if is_passing(error) && began.elapsed() < limit => nap(MOMENT),
            result => return result,
        }
    }
}

#[cold]
#[inline(never)]
fn refused(error: Errno, why: everywhere::FenceError) -> ! {
    crate::fatal(format_args!(
        "membarrier(2), which was granted at the start, is refused now ({error}), and {why}: set \
         UMCG_NO_MEMBARRIER if system calls are filtered later"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::kernel_thread;
    use std::sync::atomic::AtomicU32;
    use std::sync::{Arc, Barrier};

    /// Stores and loads crosswise, `rounds` times. True if never both sides missed the other's
    /// store. The rare side is told of each round.
    fn crosswise(rounds: u32, frequent: fn(), rare: impl Fn(u32)) -> bool {
        #[derive(Default)]
        struct Words {
            x: AtomicU32,
            y: AtomicU32,
            start: AtomicU32,
        }
        let (words, end) = (Arc::new(Words::default()), Arc::new(Barrier::new(2)));
        let (theirs, their_end) = (Arc::clone(&words), Arc::clone(&end));
        let other = kernel_thread::spawn("frequent", move || {
            let mut seen = Vec::new();
            for round in 1..=rounds {
                while theirs.start.load(Acquire) != round {
                    std::hint::spin_loop();
                }
                theirs.x.store(round, Relaxed);
                frequent();
                seen.push(theirs.y.load(Relaxed) == round);
                their_end.wait();
            }
            seen
        });
        let mut seen = Vec::new();
        for round in 1..=rounds {
            words.start.store(round, Release);
            words.y.store(round, Relaxed);
            rare(round);
            seen.push(words.x.load(Relaxed) == round);
            end.wait();
        }
        let other = other.unwrap().join().unwrap();
        seen.iter()
            .zip(&other)
            .all(|(&rare, &frequent)| rare || frequent)
    }

    #[test]
    fn one_of_two_sees_the_other() {
        init();
        assert!(crosswise(20_000, light, |_| heavy()));
    }

    /// The round that replaces membarrier has the same effect.
    #[test]
    fn one_of_two_sees_the_other_by_a_round_of_all_processors() {
        let round = |_| {
            fence(SeqCst);
            everywhere::pass().unwrap();
        };
        assert!(crosswise(300, || compiler_fence(SeqCst), round));
    }

    /// Runs `child` in a fork; the status of its end, which is 7 << 8 if it returned true.
    fn in_fork(child: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child makes a few system calls and exits.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let good = child();
            // SAFETY: ends the process, running nothing of this one's.
            unsafe { libc::_exit(if good { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    }

    const GOOD: i32 = 7 << 8;

    /// A child of a fork has the registration too, or `heavy` would end it.
    #[test]
    fn a_fork_keeps_the_registration() {
        assert!(
            !init() || in_fork(|| membarrier(MembarrierCommand::PrivateExpedited).is_ok()) == GOOD
        );
    }

    /// From now on these calls fail with EPERM in the calling thread, and in those that it makes.
    fn filter(calls: &[i64]) -> bool {
        filter_with(calls, libc::EPERM)
    }

    /// The same with another error.
    fn filter_with(calls: &[i64], error: i32) -> bool {
        // BPF_LD | BPF_W | BPF_ABS, of the first word of seccomp_data
        const LOAD_NUMBER: u16 = 0x20;
        const JUMP_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let code = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut program = vec![code(LOAD_NUMBER, 0, 0)];
        for call in calls {
            program.push(code(JUMP_EQUAL, 1, *call as u32));
            program.push(code(RETURN, 0, libc::SECCOMP_RET_ERRNO | error as u32));
        }
        program.push(code(RETURN, 0, libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: takes plain numbers.
        let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the program lives until the kernel has copied it.
        let second = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        first == 0 && second == 0
    }

    /// If a filter refuses the calls, there are fences on both sides.
    #[test]
    fn decides_for_fences_under_a_filter() {
        let status = in_fork(|| {
            MODE.store(UNDECIDED, Relaxed);
            let filtered = filter(&[libc::SYS_membarrier]);
            heavy();
            light();
            !filtered || (!init() && !is_asymmetric())
        });
        assert_eq!(status, GOOD);
    }

    /// If a filter is installed later, both sides have fences from then on.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "ThreadSanitizer allows no threads after a fork")]
    fn a_filter_that_comes_later_is_met_by_fences() {
        const ROUNDS: u32 = 2_000;
        let status = in_fork(|| {
            if !init() {
                return true;
            }
            let filtered = AtomicU32::new(0);
            let seen = crosswise(ROUNDS, light, |round| {
                if round == ROUNDS / 2 {
                    filtered.store(filter(&[libc::SYS_membarrier]).into(), Relaxed);
                }
                heavy();
            });
            seen && (filtered.into_inner() == 0 || !is_asymmetric() && !init())
        });
        assert_eq!(status, GOOD);
    }

    /// A program that leaves by itself loses nothing meanwhile.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "as above")]
    fn one_of_two_sees_the_other_while_it_is_given_up() {
        const ROUNDS: u32 = 2_000;
        let status = in_fork(|| {
            init();
            let seen = crosswise(ROUNDS, light, |round| {
                if round == ROUNDS / 2 {
                    give_up();
                }
                heavy();
            });
            give_up();
            seen && !is_asymmetric() && !init()
        });
        assert_eq!(status, GOOD);
    }

    /// A fence that comes between needs no round of all processors, which a sandbox may refuse.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "as above")]
    fn a_fence_beside_one_that_gives_up_is_a_membarrier() {
        let status = in_fork(|| {
            let filtered = init() && filter(&[libc::SYS_sched_setaffinity]);
            MODE.store(LEAVING, Relaxed);
            heavy();
            !filtered || !is_asymmetric()
        });
        assert_eq!(status, GOOD);
    }

    #[test]
    fn what_was_not_decided_is_given_up_too() {
        let status = in_fork(|| {
            MODE.store(UNDECIDED, Relaxed);
            give_up();
            heavy();
            light();
            !init() && !is_asymmetric()
        });
        assert_eq!(status, GOOD);
    }

    /// Several threads notice it at once.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "as above")]
    fn all_that_are_refused_leave() {
        let status = in_fork(|| {
            if !init() || !filter(&[libc::SYS_membarrier]) {
                return true;
            }
            [(); 4]
                .map(|()| kernel_thread::spawn("heavy", heavy))
                .into_iter()
                .all(|thread| thread.is_ok_and(|thread| thread.join().is_ok()))
                && !is_asymmetric()
        });
        assert_eq!(status, GOOD);
    }

    /// A sandbox has shut out `/proc` as well.
    #[test]
    fn all_threads_pass_a_fence_where_there_is_no_list_of_them() {
        let status = in_fork(|| {
            if !init() || !filter_with(&[libc::SYS_membarrier, libc::SYS_openat], libc::ENOENT) {
                return true;
            }
            heavy();
            !is_asymmetric()
        });
        assert_eq!(status, GOOD);
    }

    /// The program uses all descriptors that it may have.
    #[test]
    fn all_threads_pass_a_fence_where_there_is_no_descriptor() {
        let status = in_fork(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: reads the limits.
            let is_set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) } == 0;
            if !is_set || !init() || !filter(&[libc::SYS_membarrier]) {
                return is_set;
            }
            heavy();
            !is_asymmetric()
        });
        assert_eq!(status, GOOD);
    }

    /// A thread that is to end at its next cancellation point returns from the fence: the fence's
    /// caller is in the middle of a protocol.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "as above")]
    fn the_fence_is_no_point_of_cancellation() {
        unsafe extern "C" {
            fn pthread_cancel(thread: libc::pthread_t) -> i32;
            fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
        }
        const DISABLE: i32 = 1;
        /// The error, and whether there is a list of threads. Afterwards BACK.
        struct Case(i32, AtomicU32);
        const BACK: u32 = 7;
        extern "C" fn main(case: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: passed below.
            let Case(error, state) = unsafe { &*case.cast::<Case>() };
            let also = [libc::SYS_membarrier, libc::SYS_openat];
            let calls = if state.load(Relaxed) == 0 {
                &also[..]
            } else {
                &also[..1]
            };
            init();
            // SAFETY: no preconditions.
            let me = unsafe { libc::pthread_self() };
            // SAFETY: the calling thread.
            unsafe { pthread_cancel(me) };
            if filter_with(calls, *error) {
                heavy();
            }
            // SAFETY: for the rest of this thread's life.
            unsafe { pthread_setcancelstate(DISABLE, std::ptr::null_mut()) };
            state.store(BACK, Relaxed);
            std::ptr::null_mut()
        }
        for (error, has_list) in [(libc::EPERM, 1), (libc::EPERM, 0), (libc::EAGAIN, 1)] {
            let status = in_fork(|| {
                let mut case = Case(error, AtomicU32::new(has_list));
                let mut thread = 0;
                let argument = (&raw mut case).cast();
                // SAFETY: `main` takes this argument.
                let made = unsafe {
                    libc::pthread_create(&raw mut thread, std::ptr::null(), main, argument)
                };
                // SAFETY: made just now, and joined once.
                made == 0
                    && unsafe { libc::pthread_join(thread, std::ptr::null_mut()) } == 0
                    && *case.1.get_mut() == BACK
            });
            assert_eq!(status, GOOD, "error {error}, a list: {has_list}");
        }
    }

    /// If nothing can replace membarrier, the process ends.
    #[test]
    fn a_filter_that_leaves_nothing_ends_the_process() {
        let status = in_fork(|| {
            if !init() || !filter(&[libc::SYS_membarrier, libc::SYS_sched_setaffinity]) {
                return true;
            }
            heavy();
            false
        });
        assert!(
            status == GOOD
                || (libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT),
            "{status:#x}"
        );
    }

    /// The decision stands.
    #[test]
    fn decided_once() {
        let first = init();
        assert_eq!(init(), first);
        assert_eq!(is_asymmetric(), first);
        heavy();
        light();
    }
}
