//! Page faults that keep a server.
//!
//! Its thread sleeps in the kernel, and uses no processor time: so no tick comes. If all servers
//! are busy, the watch preempts such a worker by a signal. The kernel lets faults go for one that
//! may take for ever (those that userfaultfd hands to another thread), and the instruction begins
//! anew when the worker runs again. Else the thread that serves the faults would get no server.

use super::kernel_call::{ThreadState, of_thread};
use crate::rt::base::clock;
use crate::rt::base::rank::Ranked;
use crate::rt::engine::runtime::RuntimeState;
use std::sync::atomic::Ordering::Relaxed;

/// How many intervals of preemption a worker keeps its server before the watch looks why. Each look
/// takes some 10 us.
const INTERVALS: u64 = 2;
/// In nanoseconds: how long a server is watched closely once a fault has kept it, and how soon the
/// watch looks then. Faults of this kind come in numbers.
const RECENT: u64 = 100_000_000;
const SOON: u64 = 1_000_000;

/// What the watch does about one server's faults.
#[derive(Default)]
pub(crate) struct PageFault {
    /// When the watch has looked last, and found one last.
    looked: u64,
    found: u64,
}

impl PageFault {
    /// Whether the server is watched closely.
    pub(crate) fn is_recent(&self) -> bool {
        self.found != 0 && clock::now() - self.found < RECENT
    }

    /// The server has not looked around since the watch last checked.
    pub(crate) fn look(&mut self, shared: &RuntimeState, index: usize) {
        let Some(interval) = shared.watch.preemption else {
            return;
        };
        let patience = if self.is_recent() {
            SOON
        } else {
            INTERVALS.saturating_mul(interval)
        };
        let now = clock::now();
        let since = shared.servers[index]
            .kept_since
            .load(Relaxed)
            .max(self.looked);
        let others_wait = shared.sleepers.asleep() == 0 && shared.live() > 1;
        if since == 0 || now - since < patience || !others_wait {
            return;
        }
        self.looked = now;
        let Some(server) = shared.servers[index].server() else {
            return;
        };
        match of_thread(server.carried_by()) {
            ThreadState::Blocks(call) if call.is_fault() => {
                self.found = now;
                shared.preempt(index);
            }
            _ => {}
        }
    }
}
