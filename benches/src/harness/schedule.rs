//! Shares out the time of a bench.
//!
//! Without an end every turn is as long as the plan says. With one, each group of cases gets the
//! part of the time left that its weight is of the weights left, so time that one group does not
//! need, or takes beyond its part, is spread over the others. A case weighs as much as its turns
//! are long.
//!
//! ```text
//! a group:   warm-up round  ->  how long a round takes beside what the turns were told
//!            a round        ->  shorter or longer turns, so that the rounds left fit in
//!            ...            ->  until the last, or until the group's time is over
//! ```
//!
//! So there are as many rounds as can be, of shorter turns. Turns are made shorter in proportion:
//! that settles at the right length, whether starting a process makes a round too long, or a
//! machine in use that needs more time than it was told. Where turns cannot be shorter there are
//! fewer rounds, at least one. A group for which no time is left has none. Cases whose work is
//! fixed come last: nobody knows beforehand how long they take.
//!
//! Rejected: fewer rounds of longer turns. A verdict needs rounds, and a turn of some milliseconds
//! has thousands of operations.

use super::{Case, Plan};
use anyhow::{Result, anyhow, ensure};
use std::time::{Duration, Instant};

/// A turn is told no less.
const SHORTEST: Duration = Duration::from_millis(3);

/// Rounds are to take this much of a group's part: some take longer than those before.
const AIM: f64 = 0.9;

/// A group may take this many times its part, so that its last rounds are not lost.
const LENIENCE: f64 = 1.3;

/// The time of a bench.
pub(super) struct Schedule {
    rounds: usize,
    /// The longest turn.
    turn: Duration,
    end: Option<Instant>,
    weight_left: u32,
}

/// The time of a group.
pub(super) struct Share {
    rounds: usize,
    /// The longest turn.
    longest: Duration,
    /// The turn of the next round.
    turn: Duration,
    start: Instant,
    /// Its part, if there is a limit.
    part: Option<Duration>,
}

impl Schedule {
    /// For groups of this weight altogether.
    pub(super) fn new(plan: &Plan, weight: u32) -> Result<Self> {
        ensure!(plan.rounds > 0, "a bench needs at least one round");
        let seconds = plan.seconds / (plan.rounds + 1) as f64;
        let turn = Duration::try_from_secs_f64(seconds)
            .map_err(|_| anyhow!("{} seconds is no duration", plan.seconds))?;
        Ok(Self {
            rounds: plan.rounds,
            turn,
            end: plan.end,
            weight_left: weight,
        })
    }

    /// For the next group. `None` if there is no time left.
    pub(super) fn share(&mut self, group: &[Case]) -> Option<Share> {
        let now = Instant::now();
        let left = self.end.map(|end| end.saturating_duration_since(now));
        let weight = weight(group);
        let part = left.map(|left| left * weight / self.weight_left.max(weight).max(1));
        self.weight_left = self.weight_left.saturating_sub(weight);
        (left != Some(Duration::ZERO)).then(|| Share {
            rounds: self.rounds,
            longest: self.turn,
            turn: part.map_or(self.turn, |part| {
                // Nothing is known yet, so it is half of the time there is, at most.
                let turns = 2 * weight * (self.rounds + 1) as u32;
                self.within(part / turns.max(1))
            }),
            start: now,
            part,
        })
    }

    fn within(&self, turn: Duration) -> Duration {
        turn.clamp(SHORTEST, self.turn.max(SHORTEST))
    }
}

/// Of cases: how long they take beside others.
pub(super) fn weight(group: &[Case]) -> u32 {
    /// Of a case with a fixed amount of work.
    const FIXED: u32 = 8;
    let of = |case: &Case| if case.length == 0 { FIXED } else { case.length };
    group.iter().map(of).sum()
}

impl Share {
    /// The length of a turn of the next round.
    pub(super) fn turn(&self) -> Duration {
        self.turn
    }

    /// A round took so long, and so many have been, the one that warms up included.
    pub(super) fn note(&mut self, took: Duration, rounds: usize) {
        let Some(part) = self.part else { return };
        let left = part.mul_f64(AIM).saturating_sub(self.start.elapsed());
        let rounds_left = (self.rounds + 1).saturating_sub(rounds).max(1);
        let each = left.as_secs_f64() / rounds_left as f64;
        // One round may have been disturbed.
        let factor = (each / took.as_secs_f64().max(1e-6)).clamp(1.0 / 3.0, 2.0);
        let turn = self.turn.mul_f64(factor);
        self.turn = turn.clamp(SHORTEST, self.longest.max(SHORTEST));
    }

    /// Whether there is time for a round, beside those that were.
    pub(super) fn has_time(&self, rounds: usize) -> bool {
        let is_over = |part: Duration| self.start.elapsed() > part.mul_f64(LENIENCE);
        rounds == 0 || !self.part.is_some_and(is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Params, lower};

    const SECOND: Duration = Duration::from_secs(1);

    fn plan(time: Option<Duration>) -> Plan {
        Plan {
            seconds: 1.6,
            rounds: 15,
            end: time.map(|time| Instant::now() + time),
        }
    }

    fn group(lengths: &[u32]) -> Vec<Case> {
        let case = |&length: &u32| Case {
            name: "x",
            params: Params::new(),
            metrics: const { &[lower("m", "ns")] },
            cpu: 0,
            length,
            turn: Box::new(|_| Ok(vec![1.0])),
        };
        lengths.iter().map(case).collect()
    }

    #[test]
    fn without_an_end_turns_are_as_the_plan_has_it() {
        let mut schedule = Schedule::new(&plan(None), 10).unwrap();
        let mut share = schedule.share(&group(&[1; 4])).unwrap();
        let turn = Duration::from_millis(100);
        assert_eq!(share.turn(), turn);
        share.note(100 * SECOND, 1);
        assert_eq!(share.turn(), turn);
        assert!(share.has_time(1000));
    }

    #[test]
    fn a_group_gets_its_part_by_weight() {
        assert_eq!(weight(&group(&[1, 2, 0])), 11);
        let mut schedule = Schedule::new(&plan(Some(100 * SECOND)), 100).unwrap();
        let part = schedule.share(&group(&[4; 10])).unwrap().part.unwrap();
        assert!(part > 39 * SECOND && part <= 40 * SECOND, "{part:?}");
        let part = schedule.share(&group(&[1; 30])).unwrap().part.unwrap();
        assert!(part > 49 * SECOND && part <= 50 * SECOND, "{part:?}");
    }

    /// Rounds of ten turns that take `beside`, and `times` what they are told; there are 10 s. The
    /// seconds that all of them take, and the last turn in milliseconds.
    fn simulated(beside: Duration, times: f64) -> (f64, f64) {
        let mut schedule = Schedule::new(&plan(Some(100 * SECOND)), 100).unwrap();
        let mut share = schedule.share(&group(&[1; 10])).unwrap();
        let mut elapsed = Duration::ZERO;
        for round in 0..=15 {
            let took = beside + (10 * share.turn()).mul_f64(times);
            elapsed += took;
            share.start = Instant::now().checked_sub(elapsed).unwrap();
            share.note(took, round + 1);
        }
        (elapsed.as_secs_f64(), share.turn().as_secs_f64() * 1e3)
    }

    #[test]
    fn turns_get_shorter_until_all_rounds_fit() {
        for (beside, times) in [(0, 1.0), (300, 1.0), (500, 1.0), (0, 3.0), (100, 5.0)] {
            let (all, turn) = simulated(Duration::from_millis(beside), times);
            assert!((7.5..=9.5).contains(&all), "{beside}, {times}: {all} s");
            assert!(turn < 100.0, "{turn}");
        }
        assert_eq!(simulated(SECOND, 1.0).1, 3.0, "no shorter");
        assert_eq!(
            simulated(Duration::ZERO, 0.1).1,
            100.0,
            "no longer than planned"
        );
    }

    #[test]
    fn time_that_is_over_leaves_one_round_or_none() {
        let mut schedule = Schedule::new(&plan(Some(Duration::from_millis(1))), 2).unwrap();
        let share = schedule.share(&group(&[1])).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert!(share.has_time(0) && !share.has_time(1));
        assert!(schedule.share(&group(&[1])).is_none());
    }
}
