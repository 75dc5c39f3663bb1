//! A server that is told to leave to others what these may run: its part in the protocol of
//! [`inactive`](crate::rt::run::inactive).

use super::ServerState;
use crate::rt::engine::countdown::INTERVAL;
use crate::rt::task::runnable::Runnable;

impl ServerState {
    /// Whether this server leaves to others what these may run. Called by this server only, as what
    /// follows.
    pub(crate) fn is_inactive(&self) -> bool {
        self.is_inactive.get()
    }

    /// Whether this is the standby, active or not.
    pub(crate) fn is_standby(&self) -> bool {
        self.shared().active.is_standby(self.here().index())
    }

    pub(crate) fn set_inactive(&self, is_inactive: bool) {
        self.is_inactive.set(is_inactive);
        self.inactive_turns.set(0);
        self.hurry();
    }

    /// Begins a turn of an inactive server. Whether it is to check timers and files. The worker
    /// that it runs now comes back to the loop.
    pub(crate) fn begin_inactive_turn(&self) -> bool {
        self.hurry();
        let turns = self.inactive_turns.get();
        self.inactive_turns
            .set(turns.checked_sub(1).unwrap_or(INTERVAL));
        turns == 0
    }

    /// Leaves the worker that was to run next here to other servers.
    pub(crate) fn give_slot_away(&self) {
        if let Some((worker, why)) = self.take_slot() {
            self.shared().ready_outside(worker, why);
        }
    }

    /// The worker to run next on an inactive server.
    pub(crate) fn pick_bound(&self) -> Option<Runnable> {
        let shared = self.shared();
        if shared.ranked {
            self.pick_ranked()
        } else {
            shared.scheduler.next_bound(&self.here)
        }
    }
}
