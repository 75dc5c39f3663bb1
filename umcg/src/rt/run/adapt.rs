//! How many processors the process may use: the watch asks about once a second while servers are
//! awake, and the number of active servers follows ([`inactive`]).
//!
//! The processors are those of the watch's own thread, which `taskset -a` and a cpuset change as
//! those of all threads, and which the program does not know. The limits of cgroups are in files,
//! which std reads anew each time: some tens of microseconds. It takes a file that cannot be opened
//! for no limit. So where one cannot be opened, for want of descriptors or by a policy, the number
//! grows no further; where there are no such files there were none at the start.
//!
//! A process that shuts itself in by a filter of system calls, after the start, may be ended for
//! one that the filter does not list. So the watch asks no more then.

use super::{inactive, kernel_call};
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs::File;
use std::io::ErrorKind;
use std::thread;

/// Time between two questions, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// A watch's part in it.
pub(super) struct Adapter {
    /// When to ask again.
    at: u64,
    /// The process had no filter at the start.
    was_open: bool,
}

impl Adapter {
    pub(super) fn new(shared: &RuntimeState) -> Adapter {
        let adapts = shared.active.adapts();
        Adapter {
            at: if adapts {
                clock::now() + INTERVAL
            } else {
                u64::MAX
            },
            was_open: adapts && !is_filtered(),
        }
    }

    /// Asks, if it is time.
    pub(super) fn look(&mut self, shared: &RuntimeState) {
        let now = clock::now();
        if now < self.at || shared.active.has_standby() {
            return;
        }
        self.at = now + INTERVAL;
        if self.was_open && is_filtered() {
            self.at = u64::MAX;
            return;
        }
        let asked = kernel_call::reading(|| processors(shared.active.count()));
        if let Some(count) = asked.flatten() {
            inactive::set_active(shared, count.min(shared.active.most()));
        }
    }
}

/// Whether the calling thread's system calls go through a filter.
fn is_filtered() -> bool {
    // SAFETY: it asks for a number.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}

/// How many processors the process may use, as far as that is known; none if it is not. It was
/// `before`.
fn processors(before: usize) -> Option<usize> {
    let allowed: CpuSet = sched_getaffinity(None).ok()?;
    match File::open("/proc/self/cgroup") {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Some(before.min(allowed.count() as usize))
        }
        _ => Some(thread::available_parallelism().ok()?.get()),
    }
}
