//! Whether workers that run for a moment each are spread over more servers: the watch tries it.
//!
//! Idle servers leave a queue alone that drains fast (`scheduler/patrol`, P1). That is right for
//! workers that wake each other in turn: a barrier of 64 threads takes 5.5 us on one server, and
//! 7 us on two. It is wrong for workers that have little to do with each other: sixteen threads
//! that give way while they hold one of four locks make twice as many turns on two servers. No look
//! at a worker tells which it is. The number of turns that all servers make in a time does:
//!
//! ```text
//!                a backlog lasts                more turns
//!    GATHERED --------------------> SPREADS, ---------------> SPREAD
//!       ^  ^                         TRIES                    |    ^
//!       |  |   fewer, or not enough    |      it is time to   |    |
//!       |  '------------ GATHERS <-----'      check           v    | more turns before
//!       |                                              GATHERS,    |
//!       '--------------------------------------------- COMPARES ---'
//!                             not enough
//! ```
//!
//! - *Enough* is half of the turns that the added servers could make at best, and not above their
//!   best: workers that meet at a lock make more turns, and get less done. Such turns are shorter.
//! - A failed trial costs some two milliseconds of bad service, and a check some eight with too few
//!   servers. Each time that nothing changes the next one comes twice as late.
//! - To gather, the servers that are to have no worker become inactive for a moment
//!   ([`inactive`](super::inactive)).
//!
//! Rejected: to judge by the times that workers wait in queues, or by how often they are stolen
//! back. A barrier and sixteen threads with four locks look the same.

use super::inactive;
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::scheduler::{Patrol, PatrolLooks};

const MILLISECOND: u64 = 1_000_000;
/// How long a backlog is watched at a time, and for how many of these times it lasts before a
/// trial.
const LOOK: u64 = 10 * MILLISECOND;
const LOOKS: u32 = 3;
/// Servers on patrol look so often at least in such a time.
const FEWEST: u64 = 16;
/// How long workers move before turns are counted, and how long these are counted.
const MOVE: u64 = 2 * MILLISECOND;
const COUNT: u64 = 5 * MILLISECOND;
/// The shortest and the longest time until the next trial or check.
const SOON: u64 = 500 * MILLISECOND;
const LATE: u64 = 8_000 * MILLISECOND;

/// Rates are turns in a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// For so many looks a backlog has lasted.
    Gathered { looks: u32 },
    /// Workers move to more servers.
    Spreads { low: f64 },
    /// These make their turns.
    Tries { low: f64 },
    /// It is better so.
    Spread,
    /// Workers move to fewer servers: for a check, if the rate before is known. So many servers
    /// were active.
    Gathers { high: Option<f64>, active: usize },
    /// These make their turns.
    Compares { high: f64 },
}

/// A phase that is over, as the watch sees it.
#[derive(Clone, Copy, Debug)]
struct PhaseEnd {
    now: u64,
    /// None if the watch came late, or slept: nothing can be told of that time.
    rate: Option<f64>,
    /// Idle servers have found workers nearly all the time, and left them.
    has_backlog: bool,
    /// How many servers are active, and how many of these are on patrol.
    active: usize,
    on_patrol: usize,
}

/// The next phase.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NextPhase {
    next: Phase,
    /// How long that takes.
    time: u64,
    order: Option<Order>,
}

/// A change of the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// So many of the first ones steal what they find.
    Spread(usize),
    /// None does, and only so many are active.
    Gather(usize),
    /// So many are active again.
    Activate(usize),
}

/// The decisions.
struct Plan {
    phase: Phase,
    /// How many servers have work while workers are gathered.
    busy: usize,
    /// When the next trial may begin, and how long the time before it, or before a check, is.
    rests_until: u64,
    rest: u64,
}

impl Plan {
    fn new() -> Plan {
        Plan {
            phase: Phase::Gathered { looks: 0 },
            busy: 1,
            rests_until: 0,
            rest: SOON,
        }
    }

    /// The phase is over.
    fn step(&mut self, seen: &PhaseEnd) -> NextPhase {
        let step = self.decide(seen);
        self.phase = step.next;
        step
    }

    fn decide(&mut self, seen: &PhaseEnd) -> NextPhase {
        let PhaseEnd { now, active, .. } = *seen;
        match (self.phase, seen.rate) {
            (Phase::Gathered { looks }, Some(low)) if seen.has_backlog => {
                self.busy = active.saturating_sub(seen.on_patrol).max(1);
                if looks + 1 < LOOKS || now < self.rests_until || self.busy >= active {
                    return gathered((looks + 1).min(LOOKS));
                }
                self.spread(low, active)
            }
            (Phase::Gathered { .. }, _) => gathered(0),
            (Phase::Spreads { low }, Some(high)) if high > low => {
                after(COUNT, Phase::Tries { low })
            }
            (Phase::Tries { low }, Some(high)) if self.is_enough(low, high, active) => {
                self.rest = SOON;
                after(self.rest, Phase::Spread)
            }
            (Phase::Spreads { .. } | Phase::Tries { .. }, _) => self.gather(None, active),
            // There is room for more.
            (Phase::Spread, Some(low))
                if seen.has_backlog && seen.on_patrol > 0 && self.most(active) < active =>
            {
                self.busy = self.most(active);
                self.spread(low, active)
            }
            (Phase::Spread, high) => self.gather(high, active),
            (Phase::Gathers { high, active }, _) => match high {
                Some(high) => after(COUNT, Phase::Compares { high }),
                None => self.wait(now),
            }
            .with(Order::Activate(active)),
            (Phase::Compares { high }, Some(low)) if self.is_enough(low, high, active) => {
                self.rest = (2 * self.rest).min(LATE);
                let step = after(self.rest, Phase::Spread);
                step.with(Order::Spread(self.most(active)))
            }
            (Phase::Compares { .. }, _) => {
                self.rest = SOON;
                self.wait(now)
            }
        }
    }

    /// Over how many servers workers are spread.
    fn most(&self, active: usize) -> usize {
        (2 * self.busy).min(active)
    }

    /// Whether the rate `high`, of more servers, is worth it.
    fn is_enough(&self, low: f64, high: f64, active: usize) -> bool {
        let best = self.most(active) as f64 / self.busy as f64;
        let gain = high / low;
        gain > 1.0 + (best - 1.0) / 2.0 && gain < best * 1.2
    }

    fn spread(&self, low: f64, active: usize) -> NextPhase {
        after(MOVE, Phase::Spreads { low }).with(Order::Spread(self.most(active)))
    }

    fn gather(&self, high: Option<f64>, active: usize) -> NextPhase {
        after(MOVE, Phase::Gathers { high, active }).with(Order::Gather(self.busy))
    }

    /// The next trial comes later.
    fn wait(&mut self, now: u64) -> NextPhase {
        self.rests_until = now + self.rest;
        self.rest = (2 * self.rest).min(LATE);
        gathered(0)
    }
}

impl NextPhase {
    fn with(self, order: Order) -> NextPhase {
        let order = Some(order);
        NextPhase { order, ..self }
    }
}

fn after(time: u64, next: Phase) -> NextPhase {
    let order = None;
    NextPhase { next, time, order }
}

fn gathered(looks: u32) -> NextPhase {
    after(LOOK, Phase::Gathered { looks })
}

/// A watch's part in it.
pub(super) struct Spreader {
    plan: Plan,
    /// When the phase began, and when it is over.
    began: u64,
    ends: u64,
    /// The turns of all servers, and the looks of those on patrol, when it began.
    turns: u64,
    looks: PatrolLooks,
}

impl Spreader {
    pub(super) fn new() -> Spreader {
        Spreader {
            plan: Plan::new(),
            began: 0,
            ends: 0,
            turns: 0,
            looks: PatrolLooks::default(),
        }
    }

    /// Goes on, if it is time. Returns how long the watch may sleep until it looks again, in
    /// nanoseconds.
    pub(super) fn look(&mut self, shared: &RuntimeState) -> u64 {
        let Some(patrol) = shared
            .scheduler
            .patrol()
            .filter(|_| shared.active.most() > 1)
        else {
            return u64::MAX;
        };
        let now = clock::now();
        if now < self.ends {
            return self.ends - now;
        }
        let seen = self.see(shared, patrol, now);
        let step = self.plan.step(&seen);
        match step.order {
            Some(Order::Spread(servers)) => patrol.spread(servers),
            Some(Order::Gather(servers)) => {
                patrol.spread(0);
                inactive::set_active(shared, servers);
            }
            Some(Order::Activate(servers)) => inactive::set_active(shared, servers),
            None => {}
        }
        self.ends = now + step.time;
        step.time
    }

    /// The phase that is over; the next one begins.
    fn see(&mut self, shared: &RuntimeState, patrol: &Patrol, now: u64) -> PhaseEnd {
        let elapsed = now - self.began;
        let is_in_time = elapsed < 2 * (self.ends - self.began) + MILLISECOND;
        let before = std::mem::replace(&mut self.turns, turns(shared));
        let made = self.turns.saturating_sub(before);
        let looks = std::mem::replace(&mut self.looks, patrol.looks());
        let (all, left) = (self.looks.all - looks.all, self.looks.left - looks.left);
        self.began = now;
        PhaseEnd {
            now,
            rate: is_in_time.then_some(made as f64 / elapsed as f64),
            has_backlog: all >= FEWEST && left * 4 >= all * 3,
            active: shared.active.count(),
            on_patrol: patrol.count(),
        }
    }
}

/// The turns that all servers have made.
fn turns(shared: &RuntimeState) -> u64 {
    let servers = shared.servers.iter();
    servers
        .filter_map(|server| server.local())
        .map(|local| local.countdown.turns())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two servers one is idle, and finds workers all the time.
    fn seen(now: u64, rate: f64) -> PhaseEnd {
        PhaseEnd {
            now,
            rate: Some(rate),
            has_backlog: true,
            active: 2,
            on_patrol: 1,
        }
    }

    /// A plan that has begun a trial at a rate of 1.
    fn trial(now: u64) -> Plan {
        let mut plan = Plan::new();
        for _ in 1..LOOKS {
            assert_eq!(plan.step(&seen(now, 1.0)).order, None);
        }
        let step = plan.step(&seen(now, 1.0));
        assert_eq!(step.order, Some(Order::Spread(2)));
        plan
    }

    #[test]
    fn workers_are_spread_if_that_makes_more_turns() {
        let mut plan = trial(0);
        assert_eq!(plan.step(&seen(0, 1.2)).next, Phase::Tries { low: 1.0 });
        assert_eq!(plan.step(&seen(0, 1.7)).next, Phase::Spread);
        // A check: they are gathered, and that is as much worse as it was.
        let check = plan.step(&seen(0, 1.8));
        assert_eq!(check.order, Some(Order::Gather(1)));
        let gathered = PhaseEnd {
            active: 1,
            ..seen(0, 1.0)
        };
        let compares = plan.step(&gathered);
        assert_eq!(compares.order, Some(Order::Activate(2)));
        let after = plan.step(&seen(0, 1.0));
        assert_eq!(
            (after.next, after.order),
            (Phase::Spread, Some(Order::Spread(2)))
        );
        // The next check comes later.
        assert_eq!(after.time, 2 * SOON);
        // By then they wake each other in turn.
        plan.step(&seen(0, 1.4));
        plan.step(&gathered);
        assert_eq!(plan.step(&seen(0, 1.0)).next, Phase::Gathered { looks: 0 });
    }

    #[test]
    fn workers_are_gathered_again_if_they_make_fewer_turns_or_shorter_ones() {
        for (moves, made) in [(0.3, None), (1.1, Some(1.4)), (2.0, Some(2.6))] {
            let mut plan = trial(0);
            let mut step = plan.step(&seen(0, moves));
            if let Some(made) = made {
                assert_eq!(step.next, Phase::Tries { low: 1.0 });
                step = plan.step(&seen(0, made));
            }
            assert_eq!(step.order, Some(Order::Gather(1)), "{moves} {made:?}");
            assert_eq!(plan.step(&seen(0, 1.0)).order, Some(Order::Activate(2)));
            // They stay so for a while, and for longer after the next trial.
            for _ in 0..2 * LOOKS {
                assert_eq!(plan.step(&seen(SOON - 1, 1.0)).order, None);
            }
            assert_eq!(plan.step(&seen(SOON, 1.0)).order, Some(Order::Spread(2)));
            plan.step(&seen(SOON, 0.5));
            plan.step(&seen(SOON, 1.0));
            for now in [SOON, 2 * SOON, 3 * SOON - 1] {
                assert_eq!(plan.step(&seen(now, 1.0)).order, None);
            }
            assert_eq!(
                plan.step(&seen(3 * SOON, 1.0)).order,
                Some(Order::Spread(2))
            );
        }
    }

    #[test]
    fn nothing_is_tried_without_a_backlog_or_an_idle_server() {
        let mut plan = Plan::new();
        let without = PhaseEnd {
            has_backlog: false,
            ..seen(0, 1.0)
        };
        let full = PhaseEnd {
            on_patrol: 0,
            ..seen(0, 1.0)
        };
        for _ in 0..LOOKS {
            // It has to last.
            plan.step(&seen(0, 1.0));
            plan.step(&seen(0, 1.0));
            assert_eq!(plan.step(&without).order, None);
        }
        for _ in 0..2 * LOOKS {
            assert_eq!(plan.step(&full).order, None);
        }
    }

    #[test]
    fn a_trial_that_the_watch_could_not_follow_is_given_up() {
        let mut plan = trial(0);
        let late = PhaseEnd {
            rate: None,
            ..seen(0, 0.0)
        };
        assert_eq!(plan.step(&late).order, Some(Order::Gather(1)));
        assert_eq!(plan.step(&late).order, Some(Order::Activate(2)));
    }

    #[test]
    fn of_many_servers_twice_as_many_are_tried_at_a_time() {
        let of_eight = |rate, on_patrol| PhaseEnd {
            active: 8,
            on_patrol,
            ..seen(0, rate)
        };
        let mut plan = Plan::new();
        let order = (0..LOOKS).find_map(|_| plan.step(&of_eight(1.0, 5)).order);
        assert_eq!(order, Some(Order::Spread(6)));
        plan.step(&of_eight(1.5, 2));
        assert_eq!(plan.step(&of_eight(1.6, 2)).next, Phase::Spread);
        assert_eq!(plan.step(&of_eight(1.6, 2)).order, Some(Order::Spread(8)));
        plan.step(&of_eight(1.7, 0));
        // Eight are hardly better than six.
        assert_eq!(plan.step(&of_eight(1.7, 0)).order, Some(Order::Gather(6)));
    }
}
