//! Stalls: a worker keeps its server for long while no other server is free, or workers wait for a
//! helper thread to block on.
//!
//! The commonest cause is a call that blocks the kernel thread where one that parks the worker was
//! meant: a lock of the standard library held across a wait, `std::net` in place of `umcg::net`, a
//! sleep. The watch sees such a server. It reports which worker it is, for how long, and in which
//! system call. Many workers have a reason to compute for long. So a worker that computes is
//! reported only where the program asks for that.
//!
//! By default there is a line on standard error after a second: once for each pair of a worker's
//! name and a call, and at most ten for all of a runtime's servers. `UMCG_STALLS` in the
//! environment, or the builder, may set something else.
//!
//! Helper threads belong to the process. There is a shortage where there are as many as there may
//! be, all of them block, and one more has to be made. The thread that makes it hurries the watches
//! of all runtimes. Each reports the shortage in the same way, once; on standard error it is
//! reported once in the process. Where the system gives no thread for a helper, a worker blocks its
//! server instead. Then no watch is hurried: the watch of a runtime that runs a worker is awake,
//! and sees it.

use super::kernel_call::{SystemCall, ThreadState, of_thread};
use super::registry;
use crate::rt::base::clock;
use crate::rt::engine::lack;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::stalls::{Stall, StallCause};
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use umcg_core::raw;

/// The watches are to report a lack of helpers. Called by the thread that makes a helper beyond the
/// bound. Also called, with no waiting workers, where no helper can be made: by a worker that goes
/// on without one. So this must not switch, and must be short.
pub(crate) fn helpers_block(helpers: usize, workers: usize) {
    lack::note(helpers, workers);
    if workers > 0 {
        registry::each_runtime(|shared| shared.watch.look_now(&*shared.driver));
    }
}

/// One server's stay with one worker, as one watch has seen it up to now.
#[derive(Default)]
pub(crate) struct Stay {
    /// How many workers had begun to run there.
    turns: u64,
    since: u64,
    /// The last sample.
    sample: Option<Sample>,
    told: bool,
}

/// The state of a server's thread at a time. There are two in the time until a stay is reported:
/// where both show the same system call, the worker blocks in it.
struct Sample {
    at: u64,
    state: ThreadState,
}

impl Stay {
    /// The server has looked around, so no worker keeps it.
    pub(crate) fn ended(&mut self, shared: &RuntimeState, index: usize) {
        if self.since != 0 {
            *self = Stay::default();
            shared.servers[index].kept_since.store(0, Relaxed);
        }
    }

    /// The server has not looked around since the watch last checked.
    pub(crate) fn goes_on(&mut self, shared: &RuntimeState, index: usize) {
        let shared_server = &shared.servers[index];
        let Some(server) = shared_server.server() else {
            return;
        };
        let now = clock::now();
        let turns = server.turns();
        if self.since == 0 || turns != self.turns {
            *self = Stay {
                turns,
                since: now,
                sample: None,
                told: false,
            };
            shared_server.kept_since.store(now, Relaxed);
            return;
        }
        let Some(after) = shared.stalls.after.filter(|_| !self.told) else {
            return;
        };
        let last = self.sample.as_ref().map_or(self.since, |sample| sample.at);
        if now - last < after.div_ceil(2) {
            return;
        }
        let state = of_thread(server.carried_by());
        let before = self.sample.replace(Sample { at: now, state });
        // While a server is idle, no worker that may run anywhere waits for this one. Workers bound
        // to this server do, but they are not known here.
        let others_wait = shared.sleepers.asleep() == 0 && shared.live() > 1;
        if let Some(before) = before.filter(|_| others_wait) {
            self.told = self.report(shared, index, server, &before);
        }
    }

    /// Reports the stay, if these two samples are of one that is to be reported. Otherwise the next
    /// sample may be: a thread that blocks may have run at the first one.
    fn report(
        &self,
        shared: &RuntimeState,
        index: usize,
        server: raw::Server,
        before: &Sample,
    ) -> bool {
        let Some(last) = &self.sample else {
            return false;
        };
        let worker = server.current();
        let (cause, site) = match &last.state {
            ThreadState::Gone => return false,
            ThreadState::Blocks(call) if before.state == last.state => {
                (StallCause::Blocks(call.to_string()), call.name())
            }
            _ if !shared.stalls.computing => return false,
            _ => (StallCause::Computes, String::new()),
        };
        let stall = Stall {
            runtime: shared.name.clone(),
            server: Some(index),
            worker: worker.map(raw::Worker::id),
            name: worker.map_or(String::new(), raw::Worker::name),
            lasted: Duration::from_nanos(last.at - self.since),
            cause,
        };
        let is_still_so = server.turns() == self.turns;
        if is_still_so {
            shared.stalls.tell(&stall, &site);
        }
        is_still_so
    }
}

/// For a dump: how long this server's worker has kept it, and its call of the kernel if it blocks.
pub(crate) fn describe(shared: &RuntimeState, index: usize) -> String {
    let shared_server = &shared.servers[index];
    let Some(server) = shared_server.server() else {
        return String::new();
    };
    let kept_since = shared_server.kept_since.load(Relaxed);
    let lasted = match kept_since {
        0 => String::new(),
        since => format!(
            " for {:.1} s",
            Duration::from_nanos(clock::now().saturating_sub(since)).as_secs_f64()
        ),
    };
    let doing: Option<SystemCall> = match of_thread(server.carried_by()) {
        ThreadState::Blocks(call) => Some(call),
        ThreadState::Runs | ThreadState::Gone => None,
    };
    doing.map_or(lasted.clone(), |call| format!("{lasted}, in {call}"))
}
