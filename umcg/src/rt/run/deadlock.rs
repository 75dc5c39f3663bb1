//! Deadlocks: all workers of a runtime wait, and nothing can come.

use super::dump;
use crate::rt::base::last;
use crate::rt::engine::runtime::{RuntimeState, Seat};
use crate::rt::engine::server::ServerState;
use std::sync::atomic::{Ordering::*, fence};
use umcg_core::raw;

/// A server is about to sleep: perhaps the last one, for ever. True when it cannot be said
/// whether that is so, and is to be asked again soon.
pub(super) fn look(shared: &RuntimeState, local: &ServerState) -> bool {
    let Some(report) = &shared.on_deadlock else {
        return false;
    };
    let turns = || -> u64 {
        shared
            .seats
            .iter()
            .filter_map(Seat::server)
            .map(raw::Server::turns)
            .sum()
    };
    let all_asleep = || shared.sleepers.asleep() == shared.seats.len();
    // All that is seen below was so at once if all servers sleep before and after, and no
    // worker has begun to run between. A worker that is made from outside is seen first: when
    // nobody visits any more, somebody has been woken for it.
    let (before, live) = (turns(), shared.live());
    let slept = all_asleep();
    // ORDERING(all-asleep.1): SeqCst, pairs with outside-wake.2 and `heavy`, which come after
    // the count: who is counted asleep has told of what blocks before. So that is looked at
    // last.
    fence(SeqCst);
    let is_visited = shared.group.is_visited();
    let may_come = is_visited
        || shared.driver.has_sources()
        || shared.blocked.load(Relaxed) > 0
        || shared.group.has_events();
    let deadlines = shared
        .seats
        .iter()
        .any(|seat| seat.timers.next() != u64::MAX);
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
