//! Deadlocks: all workers of a runtime wait, and no event can come.

use super::dump;
use crate::rt::base::last;
use crate::rt::engine::runtime::{RuntimeState, SharedServer};
use crate::rt::engine::server::ServerState;
use std::sync::atomic::{Ordering::*, fence};
use umcg_core::raw;

/// Called by a server that is about to sleep: it may be the last one, and sleep for ever. True if
/// that cannot be decided now: call again soon.
pub(super) fn look(shared: &RuntimeState, local: &ServerState) -> bool {
    let Some(report) = &shared.on_deadlock else {
        return false;
    };
    let turns = || -> u64 {
        shared
            .servers
            .iter()
            .filter_map(SharedServer::server)
            .map(raw::Server::turns)
            .sum()
    };
    let all_asleep = || shared.sleepers.are_all_asleep();
    // If all servers sleep before and after, and no worker has begun to run between, then
    // everything read below held at one moment. A worker that is made from outside is noticed
    // first: when no thread visits the group any more, a server has been woken for that worker.
    let (before, live) = (turns(), shared.live());
    let slept = all_asleep();
    // ORDERING(all-asleep.1): SeqCst, pairs with outside-wake.2 and `heavy`, which come after the
    // word: a server that is seen asleep has published what blocks before. So blocked workers
    // are read last.
    fence(SeqCst);
    let is_visited = shared.group.is_visited();
    let may_come = is_visited
        || shared.driver.has_sources()
        || shared.blocked.load(Relaxed) > 0
        || shared.group.has_events();
    let deadlines = shared
        .servers
        .iter()
        .any(|server| server.timers.next() != u64::MAX);
    // ORDERING(all-asleep.1): SeqCst, as above.
    fence(SeqCst);
    let sleep_on = slept && all_asleep() && turns() == before;
    if sleep_on
        && !may_come
        && !deadlines
        && live > 0
        && shared.reported.swap(before, Relaxed) != before
    {
        let text = dump::dump_by_server(shared, local);
        let text = format!(
            "deadlock: all {live} workers of runtime `{}` wait, and nothing can come\n{text}",
            shared.name
        );
        // A panic in it would end the server.
        last::contained(|| report(&text));
    }
    is_visited
}
