//! What a thread inherits from its maker, as the process has it: affinity, nice value, scheduling
//! class. The process's are those of its main thread, as for `taskset` and `renice`.

use rustix::process::{getpid, getpriority_process, setpriority_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::mem::MaybeUninit;

/// Makes the calling thread as the process is, as far as it may: going up takes a privilege.
pub(crate) fn follow() {
    let process = getpid();
    if let (Ok(theirs), Ok(own)) = (sched_getaffinity(Some(process)), sched_getaffinity(None)) {
        if theirs != own {
            let _ = sched_setaffinity(None, &theirs);
        }
    }
    follow_class(process.as_raw_nonzero().get());
    if let (Ok(theirs), Ok(own)) = (getpriority_process(Some(process)), getpriority_process(None)) {
        if theirs != own {
            let _ = setpriority_process(None, theirs);
        }
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
    // With that flag it wants no thread to inherit its class.
    let is_inherited = theirs >= 0 && theirs & libc::SCHED_RESET_ON_FORK == 0;
    if is_inherited && (theirs, parameters.sched_priority) != (own, ours.sched_priority) {
        // SAFETY: the parameters outlive the call.
        unsafe { libc::sched_setscheduler(0, theirs, &parameters) };
    }
}
