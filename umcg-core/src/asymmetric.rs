//! Fences that cost one side nothing: `light` on the path that runs a million times a second, `heavy` on the one that runs now and then.
//!
//! Two threads that each store to one place and then load the other's ("Dekker") have to have a full fence between store and load, or both may
//! load the old values: the processor keeps a store back in its store buffer while it goes on with the load. The fence is half the price of a
//! short operation, and one side often pays it far more often than the other.
//!
//! membarrier(2), command `PRIVATE_EXPEDITED`, lets the rare side pay for both. It returns after every thread of the process has passed a full
//! fence at some point between the call and the return: a thread that runs is interrupted (the kernel executes the fence on its processor), one that
//! does not run has passed, or will pass, the fence of a kernel switch. Call that point *P* of the frequent thread:
//!
//! ```text
//! frequent:  store X;  light();  load Y              rare:  store Y;  heavy();  load X
//! ```
//!
//! - *P* lies after the frequent thread's store in its program: then the store is visible before `heavy` returns, and the rare thread loads it.
//! - *P* lies before the store, so before the load as well: the rare thread's store was visible before *P* (the call begins with a fence), and the load sees it.
//!
//! There is no third case as long as the compiler leaves store and load in this order, and that is what `light` still does: a compiler fence, no
//! instruction. What goes with `heavy` must be a `light` of another thread, or another `heavy`; two `light`s order nothing between each other.
//!
//! Whether it is done so is decided once a process, by the first [`init`] or [`heavy`]. States of `MODE`:
//!
//! ```text
//! UNDECIDED ----> ASYMMETRIC    registered with the kernel
//!     `---------> FENCED        the kernel has no membarrier, or a filter refuses it, or UMCG_NO_MEMBARRIER is in the environment
//! ```
//!
//! - UNDECIDED makes `light` a real fence, and `heavy` decides first; so a `light` that has not seen the decision yet is too strong, never too weak.
//! - The registration is one of the address space. A fork copies it, so MODE and the kernel agree in the child too (there is a test); `execve` ends
//!   it, and MODE with it.
//! - A filter that is installed later, and refuses what was granted, leaves `heavy` with no means: it ends the process with a message. To go on without the
//!   fence would lose wake-ups and let two into one lock, now and then; a panic would do so too, in whoever lives on, or end quietly a thread that others wait for.
//!   A program that filters its calls later, and membarrier with them, says so by UMCG_NO_MEMBARRIER, or before the first use.
//!
//! Not chosen: `GLOBAL` waits for a grace period, milliseconds; `GLOBAL_EXPEDITED` interrupts other processes; changing a page's protection back and forth
//! does the same on x86-64 only, and holds the address space's lock.

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicU8, Ordering::*, compiler_fence, fence};
use std::time::{Duration, Instant};

const UNDECIDED: u8 = 0;
const FENCED: u8 = 1;
const ASYMMETRIC: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The fence of the frequent side. Orders the caller's stores before it with its loads after it, as seen by a thread that calls [`heavy`].
#[inline(always)]
pub fn light() {
    if MODE.load(Relaxed) == ASYMMETRIC {
        compiler_fence(SeqCst);
    } else {
        // ORDERING(asymmetric.1): SeqCst, pairs with asymmetric.2: where the kernel does not help, each side has a fence of its own.
        fence(SeqCst);
    }
}

/// The fence of the rare side: a full one, for the caller and for whoever calls [`light`]. A system call, and an interruption of each processor
/// that runs a thread of this process.
///
/// Ends the process when the kernel refuses what it granted before: a filter of system calls was installed since.
#[inline]
pub fn heavy() {
    if !init() {
        // ORDERING(asymmetric.2): SeqCst, pairs with asymmetric.1.
        fence(SeqCst);
    } else if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
        heavy_again(error);
    }
}

/// Whether [`light`] costs nothing; false as long as nobody has decided.
pub fn is_asymmetric() -> bool {
    MODE.load(Relaxed) == ASYMMETRIC
}

/// Decides, once a process, without a lock. Says whether [`light`] costs nothing.
#[inline]
pub fn init() -> bool {
    match MODE.load(Relaxed) {
        UNDECIDED => decide(),
        mode => mode == ASYMMETRIC,
    }
}

/// Several threads may do this at once: registering twice does no harm, and the first one's decision counts.
#[cold]
fn decide() -> bool {
    // SAFETY: getenv reads the environment, with a string that ends.
    let forbidden = unsafe { !libc::getenv(c"UMCG_NO_MEMBARRIER".as_ptr()).is_null() };
    let granted = !forbidden
        && patiently(MembarrierCommand::RegisterPrivateExpedited, Duration::from_millis(100)).is_ok()
        && patiently(MembarrierCommand::PrivateExpedited, Duration::from_millis(100)).is_ok();
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
    let result =
        if is_passing(error) { patiently(MembarrierCommand::PrivateExpedited, Duration::from_secs(2)) } else { Err(error) };
    result.unwrap_or_else(|error| refused(error));
}

fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOMEM | Errno::INTR)
}

/// Asks again while the kernel is short of memory, for so long at most.
fn patiently(command: MembarrierCommand, limit: Duration) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match membarrier(command) {
            Err(error) if is_passing(error) && began.elapsed() < limit => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
}

#[cold]
#[inline(never)]
fn refused(error: Errno) -> ! {
    crate::fatal(format_args!(
        "membarrier(2), which was granted at the start, is refused now ({error}): set UMCG_NO_MEMBARRIER if system calls are filtered later"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    /// Store and load crosswise: never both miss the other's store.
    #[test]
    fn one_of_two_sees_the_other() {
        const ROUNDS: u32 = 20_000;
        init();
        let (x, y, start) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let end = Barrier::new(2);
        std::thread::scope(|scope| {
            let frequent = scope.spawn(|| {
                let mut seen = Vec::new();
                for round in 1..=ROUNDS {
                    while start.load(Acquire) != round {
                        std::hint::spin_loop();
                    }
                    x.store(round, Relaxed);
                    light();
                    seen.push(y.load(Relaxed) == round);
                    end.wait();
                }
                seen
            });
            let mut seen = Vec::new();
            for round in 1..=ROUNDS {
                start.store(round, Release);
                y.store(round, Relaxed);
                heavy();
                seen.push(x.load(Relaxed) == round);
                end.wait();
            }
            let other = frequent.join().unwrap();
            assert!(seen.iter().zip(&other).all(|(&rare, &frequent)| rare || frequent));
        });
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
        assert!(!init() || in_fork(|| membarrier(MembarrierCommand::PrivateExpedited).is_ok()) == GOOD);
    }

    /// From now on membarrier fails with EPERM in this process.
    fn filter() -> bool {
        const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS, of the first word of seccomp_data
        const JUMP_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let code = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut program = [
            code(LOAD_NUMBER, 0, 0),
            code(JUMP_EQUAL, 1, libc::SYS_membarrier as u32),
            code(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            code(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: takes plain numbers.
        let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the program lives until the kernel has copied it.
        let second = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        first == 0 && second == 0
    }

    /// Where a filter refuses the calls there are fences on both sides.
    #[test]
    fn decides_for_fences_under_a_filter() {
        let status = in_fork(|| {
            MODE.store(UNDECIDED, Relaxed);
            let filtered = filter();
            heavy();
            light();
            !filtered || (!init() && !is_asymmetric())
        });
        assert_eq!(status, GOOD);
    }

    /// Under a filter that came later it is the end.
    #[test]
    fn a_filter_that_comes_later_ends_the_process() {
        let status = in_fork(|| {
            if !init() || !filter() {
                return true;
            }
            heavy();
            false
        });
        assert!(status == GOOD || (libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT), "{status:#x}");
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
