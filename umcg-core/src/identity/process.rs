//! The attributes that a thread inherits from its maker: affinity, nice value, scheduling class,
//! I/O priority. The process's attributes are those of its main thread, as for `taskset`, `renice`
//! and `ionice`.
//!
//! Timer slack is left out: the kernel tells another thread's only with a privilege.

use crate::os::everywhere;
use rustix::process::{getpid, getpriority_process, setpriority_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::mem::MaybeUninit;

/// Gives the calling thread the process's attributes, as far as it may: raising a priority takes a
/// privilege.
pub(crate) fn follow() {
    let process = getpid();
    if let (Some(theirs), Ok(own)) = (everywhere::affinity(process), sched_getaffinity(None)) {
        if theirs != own {
            let _ = sched_setaffinity(None, &theirs);
        }
    }
    follow_class(process.as_raw_nonzero().get());
    if let (Ok(theirs), Ok(own)) = (
        getpriority_process(Some(process)),
        getpriority_process(None),
    ) {
        if theirs != own {
            let _ = setpriority_process(None, theirs);
        }
    }
    // If none was set, the kernel derives it from class and nice value.
    follow_io(process.as_raw_nonzero().get());
}

fn follow_io(process: i32) {
    const OF_A_THREAD: i32 = 1;
    // SAFETY: no precondition.
    let of = |thread: i32| unsafe { libc::syscall(libc::SYS_ioprio_get, OF_A_THREAD, thread) };
    let (theirs, own) = (of(process), of(0));
    if theirs >= 0 && theirs != own {
        // SAFETY: no precondition.
        unsafe { libc::syscall(libc::SYS_ioprio_set, OF_A_THREAD, 0, theirs) };
    }
}

fn follow_class(process: i32) {
    let class = |of| {
        let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
        // SAFETY: no precondition.
        let class = unsafe { libc::sched_getscheduler(of) };
        // SAFETY: writes the parameters.
        unsafe { libc::sched_getparam(of, parameters.as_mut_ptr()) };
        // SAFETY: written, or zeros, which are valid.
        (class, unsafe { parameters.assume_init() })
    };
    let ((theirs, parameters), (own, ours)) = (class(process), class(0));
    // With that flag, no thread is to inherit the class.
    let is_inherited = theirs >= 0 && theirs & libc::SCHED_RESET_ON_FORK == 0;
    if is_inherited && (theirs, parameters.sched_priority) != (own, ours.sched_priority) {
        // SAFETY: the parameters outlive the call.
        unsafe { libc::sched_setscheduler(0, theirs, &parameters) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::kernel_thread;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// While the main thread goes from processor to processor for a fence, a thread that follows
    /// the process does not get pinned to the main thread's current processor.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "ThreadSanitizer allows no threads after a fork")]
    fn a_round_of_the_main_thread_pins_no_helper() {
        let own = sched_getaffinity(None).unwrap();
        // SAFETY: the child makes threads of its own, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            everywhere::forked_in_child();
            static IS_OVER: AtomicBool = AtomicBool::new(false);
            let follower = kernel_thread::spawn("follower", move || {
                let mut is_pinned = false;
                while !IS_OVER.load(Relaxed) {
                    follow();
                    is_pinned |= sched_getaffinity(None).unwrap() != own;
                }
                is_pinned
            });
            // The child's main thread.
            (0..500).for_each(|_| everywhere::pass().unwrap());
            IS_OVER.store(true, Relaxed);
            let is_good =
                follower.is_ok_and(|follower| follower.join().is_ok_and(|pinned| !pinned));
            // SAFETY: ends the process, running nothing of the parent's.
            unsafe { libc::_exit(i32::from(!is_good)) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
