//! Fences that cost one side nothing: `light` on the path that runs a million times a second,
//! `heavy` on the one that runs now and then.
//!
//! Two threads that each store to one place and then load the other's ("Dekker") have to have a
//! full fence between store and load, or both may load the old values: the processor keeps a store
//! back in its store buffer while it goes on with the load. The fence is half the price of a short
//! operation, and one side often pays it far more often than the other.
//!
//! membarrier(2), command `PRIVATE_EXPEDITED`, lets the rare side pay for both. It returns after
//! every thread of the process has passed a full fence at some point between the call and the
//! return: a thread that runs is interrupted (the kernel executes the fence on its processor), one
//! that does not run has passed, or will pass, the fence of a kernel switch. Call that point *P* of
//! the frequent thread:
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
//! There is no third case as long as the compiler leaves store and load in this order, and that is
//! what `light` still does: a compiler fence, no instruction. What goes with `heavy` must be a
//! `light` of another thread, or another `heavy`; two `light`s order nothing between each other.
//!
//! Whether it is done so is decided by the first [`init`] or [`heavy`]. States of `MODE`:
//!
//! ```text
//! UNDECIDED ----> ASYMMETRIC    registered with the kernel
//!     |               v
//!     |            LEAVING      the kernel refuses now what it granted: each thread has to be reached by another way, once
//!     |               v
//!     `---------> FENCED        the kernel has no membarrier, or a filter refuses it, or UMCG_NO_MEMBARRIER is in the environment
//! ```
//!
//! - UNDECIDED makes `light` a real fence, and `heavy` decides first; so a `light` that has not
//!   seen the decision yet is too strong, never too weak.
//! - The registration is one of the address space. A fork copies it, so MODE and the kernel agree
//!   in the child too (there is a test); `execve` ends it, and MODE with it.
//!
//! # Leaving
//!
//! A filter of system calls may be installed later. Then `heavy` says LEAVING, has every thread
//! pass a fence by `everywhere`, which is slow, and says FENCED. Call the point where a thread
//! passes it *P*, as above. `light` reads MODE *after* the store X and before the load Y, in this
//! order as the thread executes them, so there are two cases:
//!
//! - It read ASYMMETRIC. That was before *P*, where LEAVING is visible; so X was stored before *P*,
//!   and is visible when the round is over. A thread that calls `heavy` for this round, or later,
//!   loads X.
//! - It read anything else, and has a fence of its own; `heavy` has one, too.
//!
//! A `heavy` that finds LEAVING makes a round of its own, and does not wait for the other one: that
//! may be a thread which a fork did not copy. A `light` is a point in the flow of a worker, which
//! may go from kernel thread to kernel thread between X and Y: then X is visible on the second one,
//! by what hands the worker over.
//!
//! Where the round is refused as well the process ends with a message. To go on without the fence
//! would lose wake-ups and let two into one lock, now and then; a panic would do so too, in whoever
//! lives on, or end quietly a thread that others wait for. UMCG_NO_MEMBARRIER avoids both.
//!
//! There is no way back from FENCED: a `heavy` that has just had its own fence only would meet a
//! `light` that has none.
//!
//! Not chosen: `GLOBAL` waits for a grace period, milliseconds; `GLOBAL_EXPEDITED` interrupts other
//! processes; changing a page's protection back and forth does the same only where the kernel
//! interrupts other processors for that, which newer ones of x86-64 do not need, and holds the
//! address space's lock; a signal does not reach a thread that blocks it.

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

/// Nanoseconds between two questions while the kernel is short of memory.
const MOMENT: u32 = 1_000_000;

static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The fence of the frequent side. Orders the caller's stores before it with its loads after it, as
/// seen by a thread that calls [`heavy`].
#[inline(always)]
pub fn light() {
    compiler_fence(SeqCst); // what was stored comes before the look at MODE: see Leaving
    if MODE.load(Relaxed) == ASYMMETRIC {
        compiler_fence(SeqCst);
    } else {
        // ORDERING(asymmetric.1): SeqCst, pairs with asymmetric.2: where the kernel does not help,
        // each side has a fence of its own.
        fence(SeqCst);
    }
}

/// The fence of the rare side: a full one, for the caller and for whoever calls [`light`]. A system
/// call, and an interruption of each processor that runs a thread of this process.
///
/// Where the kernel refuses what it granted before, as a filter of system calls was installed
/// since, both sides have real fences from then on. Ends the process where it refuses what that
/// takes, too.
#[inline]
pub fn heavy() {
    match MODE.load(Relaxed) {
        ASYMMETRIC => {
            if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
                heavy_again(error);
            }
        }
        // ORDERING(asymmetric.2): SeqCst, pairs with asymmetric.1; and with asymmetric.3, by the
        // look at MODE before it.
        FENCED => fence(SeqCst),
        LEAVING => leave(Errno::NOSYS),
        _ => heavy_first(),
    }
}

#[cold]
#[inline(never)]
fn heavy_first() {
    decide();
    heavy();
}

/// Whether [`light`] costs nothing; false as long as nobody has decided. It may cease to.
pub fn is_asymmetric() -> bool {
    MODE.load(Relaxed) == ASYMMETRIC
}

/// Decides, if nobody has, without a lock. Says whether [`light`] costs nothing.
#[inline]
pub fn init() -> bool {
    match MODE.load(Relaxed) {
        UNDECIDED => decide(),
        mode => mode == ASYMMETRIC,
    }
}

/// Several threads may do this at once: registering twice does no harm, and the first one's
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

/// Short of memory for a moment, perhaps.
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

/// Makes both sides have fences from here on, and has one for the caller and all others now.
/// `error` is membarrier's.
#[cold]
#[inline(never)]
fn leave(error: Errno) {
    // Who fails has found that somebody else leaves, or has left.
    let _ = MODE.compare_exchange(ASYMMETRIC, LEAVING, Relaxed, Relaxed);
    // ORDERING(asymmetric.2): as in `heavy`; and the round begins after what was stored, LEAVING
    // among it.
    fence(SeqCst);
    // ORDERING(asymmetric.4): Acquire, pairs with asymmetric.3.
    if MODE.load(Acquire) == FENCED {
        return;
    }
    if let Err(why) = everywhere::pass() {
        refused(error, why);
    }
    // ORDERING(asymmetric.3): Release, pairs with asymmetric.2 and asymmetric.4: who sees it sees
    // what all had stored before the round.
    MODE.store(FENCED, Release);
    // ORDERING(asymmetric.2): the caller's loads come after the round.
    fence(SeqCst);
}

fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOMEM | Errno::INTR)
}

/// Asks again while the kernel is short of memory, for so long at most.
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
fn refused(error: Errno, why: everywhere::Refused) -> ! {
    crate::fatal(format_args!(
        "membarrier(2), which was granted at the start, is refused now ({error}), and {why}: set \
         UMCG_NO_MEMBARRIER if system calls are filtered later"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    /// Store and load crosswise, so many times: whether never both missed the other's store. The
    /// rare side is told of each round.
    fn crosswise(rounds: u32, frequent: fn(), rare: impl Fn(u32)) -> bool {
        let (x, y, start) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let end = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut seen = Vec::new();
                for round in 1..=rounds {
                    while start.load(Acquire) != round {
                        std::hint::spin_loop();
                    }
                    x.store(round, Relaxed);
                    frequent();
                    seen.push(y.load(Relaxed) == round);
                    end.wait();
                }
                seen
            });
            let mut seen = Vec::new();
            for round in 1..=rounds {
                start.store(round, Release);
                y.store(round, Relaxed);
                rare(round);
                seen.push(x.load(Relaxed) == round);
                end.wait();
            }
            let other = other.join().unwrap();
            seen.iter()
                .zip(&other)
                .all(|(&rare, &frequent)| rare || frequent)
        })
    }

    #[test]
    fn one_of_two_sees_the_other() {
        init();
        assert!(crosswise(20_000, light, |_| heavy()));
    }

    /// The round that stands in for membarrier does what that does.
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

    /// Where a filter refuses the calls there are fences on both sides.
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

    /// Under a filter that came later both sides have fences from then on.
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

    /// Several find it out at once.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "as above")]
    fn all_that_are_refused_leave() {
        let status = in_fork(|| {
            if !init() || !filter(&[libc::SYS_membarrier]) {
                return true;
            }
            std::thread::scope(|scope| {
                [(); 4]
                    .map(|()| scope.spawn(heavy))
                    .into_iter()
                    .all(|thread| thread.join().is_ok())
            }) && !is_asymmetric()
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

    /// A thread that is to end at its next point of cancellation comes back from the fence, whose
    /// caller is in the midst of a protocol.
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
                // SAFETY: `main` takes what this passes.
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

    /// Where nothing stands in for it, it is the end.
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
