//! Threads that were there before calls were intercepted.
//!
//! One of them may sleep in the kernel for a private word, uncounted (`outsider`, O3). A thread of
//! its own looks for them, until none is left:
//!
//! - a thread that sleeps elsewhere, or in the code of the engine or the library, is done: its next
//!   wait is counted;
//! - a thread that sleeps for a private word, or runs, is looked at again, at growing intervals;
//! - so is one whose wait the kernel has restarted by a call of its own (`restart_syscall`, after a
//!   stop for example): that does not name the word, and the wait may be one for a word. It sleeps
//!   at its site, or in the engine's handler of traps if the site was replaced meanwhile.
//!
//! Rejected: to interrupt a thread that sleeps, so that the kernel restarts its call at the site.
//! Meanwhile it may have gone on to another call, which ends with EINTR then, and no program
//! expects that.

use super::super::outsider;
use super::is_own_code;
use crate::rt::run::kernel_call::{SystemCall, ThreadState, of_thread};
use std::time::{Duration, Instant};
use umcg_intercept::{is_inside, restarts};

/// The longest time between two looks.
const LONG: Duration = Duration::from_secs(1);

/// The threads that may sleep uncounted.
pub(super) struct Uncounted {
    threads: Vec<i32>,
    pause: Duration,
    next: Instant,
}

/// The threads of the process, but the caller.
fn others() -> Option<Vec<i32>> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    Some(tids.filter(|tid| *tid != own).collect())
}

impl Uncounted {
    /// All threads of the process. The caller has set `outsider::set_uncounted`, and calls are
    /// intercepted. None if they cannot be listed: then each wake looks in the kernel, for good.
    pub(super) fn all() -> Option<Uncounted> {
        Some(Uncounted {
            threads: others()?,
            pause: Duration::from_millis(1),
            next: Instant::now(),
        })
    }

    /// Looks at them, if it is time. True if there is none any more.
    pub(super) fn look(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.threads.retain(|tid| may_be_uncounted(*tid));
        self.pause = LONG.min(self.pause * 2);
        self.next = now + self.pause;
        let is_done = self.threads.is_empty();
        if is_done {
            outsider::set_uncounted(false);
        }
        is_done
    }
}

/// Whether the thread may sleep uncounted from now on, or does.
fn may_be_uncounted(tid: i32) -> bool {
    match of_thread(tid) {
        // Without a list, as after a change of the root, it may well be there.
        ThreadState::Gone => others().is_none_or(|threads| threads.contains(&tid)),
        ThreadState::Runs => true,
        ThreadState::Blocks(call) => sleeps_uncounted(&call) != Some(false),
    }
}

/// Whether the call is a wait for private words from outside of the library's code. None if the
/// kernel does not say.
fn sleeps_uncounted(call: &SystemCall) -> Option<bool> {
    const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;
    let at = call.program_counter()?;
    let is_ours = is_inside(at) || is_own_code(at);
    Some(match call.number()? {
        libc::SYS_futex => call.argument(1)? & PRIVATE != 0 && !is_ours,
        libc::SYS_futex_waitv => !is_ours,
        libc::SYS_restart_syscall => !is_ours || restarts(at),
        _ => false,
    })
}
