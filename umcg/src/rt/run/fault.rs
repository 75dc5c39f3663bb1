//! Page faults that keep a server.
//!
//! Its thread sleeps in the kernel, and uses no processor time: so no tick comes. If all servers
//! are busy, the watch preempts such a worker by a signal, and an adopted thread goes home and
//! faults there ([`ask_to_stay`](raw::Worker::ask_to_stay)).
//!
//! - One that has kept its server for some time. The kernel lets faults go for a signal that may
//!   take for ever (those that userfaultfd hands to another thread), and the instruction begins
//!   anew when the worker runs again. Else the thread that serves the faults would get no server.
//! - An adopted thread whose server has read from disks for such faults since the watch last saw it
//!   in one. Each of them is short, and none is let go, but together they keep the server, where a
//!   program natively has as many on their way as it has threads. The watch looks at one server at
//!   a time for that, so it costs the same with any number of them.

use super::kernel_call::{ThreadState, major_faults, of_thread};
use crate::rt::base::clock;
use crate::rt::base::rank::Ranked;
use crate::rt::engine::runtime::RuntimeState;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::raw;

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
    /// How many faults of the server had read from disks when the watch last saw it in one.
    from_disks: u64,
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
        if since == 0 || now - since < patience || !others_wait(shared) {
            return;
        }
        self.looked = now;
        if let Some(server) = in_fault(shared, index) {
            self.send_home(shared, index, server);
        }
    }

    /// One of the checks of this server, whether it has looked around or not. For adopted threads.
    pub(crate) fn sample(&mut self, shared: &RuntimeState, index: usize) {
        if shared.watch.preemption.is_none() || !others_wait(shared) {
            return;
        }
        let Some(server) = in_fault(shared, index) else {
            return;
        };
        let from_disks = major_faults(server.carried_by()).unwrap_or(0);
        if std::mem::replace(&mut self.from_disks, from_disks) < from_disks {
            self.send_home(shared, index, server);
        }
    }

    fn send_home(&mut self, shared: &RuntimeState, index: usize, server: raw::Server) {
        self.found = clock::now();
        if let Some(worker) = server.current() {
            worker.ask_to_stay();
        }
        shared.preempt(index);
    }
}

/// Whether workers wait for a server, as far as it is known: all servers are busy.
fn others_wait(shared: &RuntimeState) -> bool {
    shared.sleepers.asleep() == 0 && shared.live() > 1
}

/// This server, if its thread sleeps in a page fault.
fn in_fault(shared: &RuntimeState, index: usize) -> Option<raw::Server> {
    let server = shared.servers[index].server()?;
    match of_thread(server.carried_by()) {
        ThreadState::Blocks(call) if call.is_fault() => Some(server),
        _ => None,
    }
}
