//! Semaphores, strong and barging.

use crate::checker::{Specification, assert_linear};
use crate::harness::Rng;
use crate::record::{Party, history, runtimes, waiting};
use std::collections::BTreeMap;
use std::sync::Arc;
use umcg::sync::{AcquireError, Semaphore, TryAcquireError};

/// The question.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Try(u32),
    /// Waits, until a deadline at most.
    Acquire(u32),
    Release(u32),
    Close,
    /// How many stand in the queue: a waiter that is seen there has come.
    Look,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Done,
    Empty,
    Late,
    Closed,
    Waiting(usize),
}

pub(crate) type Operation = (Asked, Told);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    count: u32,
    is_closed: bool,
    /// Those that wait, and for how many.
    queue: Vec<(usize, u32)>,
    answers: BTreeMap<usize, Told>,
}

pub(crate) struct Semaphores {
    pub(crate) count: u32,
    pub(crate) is_barging: bool,
}

impl Semaphores {
    fn may_take(&self, state: &State, wanted: u32) -> bool {
        !state.is_closed && (self.is_barging || state.queue.is_empty()) && state.count >= wanted
    }

    /// A strong semaphore gives its wakeups to the longest waiters.
    fn serve(&self, state: &mut State) {
        while let Some(&(number, wanted)) = state.queue.first() {
            if self.is_barging || state.count < wanted {
                break;
            }
            state.count -= wanted;
            state.queue.remove(0);
            state.answers.insert(number, Told::Done);
        }
    }

    fn begin(&self, state: &mut State, number: usize, asked: Asked) -> Told {
        match asked {
            Asked::Try(wanted) | Asked::Acquire(wanted) if self.may_take(state, wanted) => {
                state.count -= wanted
            }
            Asked::Try(_) | Asked::Acquire(_) if state.is_closed => return Told::Closed,
            Asked::Try(_) => return Told::Empty,
            Asked::Acquire(wanted) => {
                state.queue.push((number, wanted));
                return Told::Late;
            }
            Asked::Release(more) => {
                state.count += more;
                self.serve(state);
            }
            Asked::Look => return Told::Waiting(state.queue.len()),
            Asked::Close => {
                state.is_closed = true;
                let closed = std::mem::take(&mut state.queue)
                    .into_iter()
                    .map(|(number, _)| (number, Told::Closed));
                state.answers.extend(closed);
            }
        }
        Told::Done
    }
}

impl Specification for Semaphores {
    type State = State;
    type Operation = Operation;

    fn start(&self) -> State {
        State {
            count: self.count,
            ..State::default()
        }
    }

    fn steps(&self, state: &State, number: usize, (asked, told): &Operation) -> Vec<State> {
        let mut next = state.clone();
        if state.answers.contains_key(&number) {
            return Vec::new();
        }
        let Some(at) = state
            .queue
            .iter()
            .position(|(waiting, _)| *waiting == number)
        else {
            let answer = self.begin(&mut next, number, *asked);
            if next
                .queue
                .last()
                .is_none_or(|(waiting, _)| *waiting != number)
            {
                next.answers.insert(number, answer);
            }
            return vec![next];
        };
        let (_, wanted) = next.queue.remove(at);
        match told {
            Told::Late => {
                // It may have stood before one that wants less.
                self.serve(&mut next);
            }
            Told::Done if self.is_barging && state.count >= wanted => next.count -= wanted,
            _ => return Vec::new(),
        }
        next.answers.insert(number, *told);
        vec![next]
    }

    fn end(&self, state: &State, number: usize, (_, told): &Operation) -> Option<State> {
        let mut next = state.clone();
        (next.answers.remove(&number) == Some(*told)).then_some(next)
    }
}

fn ask(party: &mut Party<Operation>, semaphore: &Semaphore, asked: Asked) {
    let soon = party.soon();
    let tried = |result| match result {
        Ok(()) => Told::Done,
        Err(TryAcquireError::Empty) => Told::Empty,
        Err(TryAcquireError::Closed) => Told::Closed,
    };
    let waited = |result| match result {
        Ok(()) => Told::Done,
        Err(AcquireError::TimedOut) => Told::Late,
        Err(AcquireError::Closed) => Told::Closed,
    };
    party.record(|| {
        let told = match asked {
            Asked::Try(1) => tried(semaphore.try_acquire()),
            Asked::Try(wanted) => tried(semaphore.try_acquire_many(wanted)),
            Asked::Acquire(1) => waited(semaphore.acquire_deadline(soon)),
            Asked::Acquire(wanted) => waited(semaphore.acquire_many_deadline(wanted, soon)),
            Asked::Release(more) => {
                semaphore.release(more).unwrap();
                Told::Done
            }
            Asked::Close => {
                semaphore.close();
                Told::Done
            }
            Asked::Look => Told::Waiting(waiting(&format!("{semaphore:?}"), "waiters")),
        };
        (asked, told)
    });
}

fn body(party: &mut Party<Operation>, semaphore: &Semaphore, is_barging: bool) {
    for _ in 0..3 + party.rng.below(4) {
        let few = 1 + party.rng.below(5) as u32 / 3;
        let asked = match party.rng.below(20) {
            0..=4 => Asked::Try(few),
            5..=11 => Asked::Acquire(few),
            12..=16 => Asked::Release(few),
            // Of a barging one those have left the queue that are told to try.
            17 | 18 if !is_barging => Asked::Look,
            _ if party.rng.one_in(3) => Asked::Close,
            _ => Asked::Release(few),
        };
        ask(party, semaphore, asked);
    }
}

fn record_and_check(is_barging: bool) {
    let (runtimes, mut rng) = (runtimes(), Rng::new(u64::from(std::process::id()), 17));
    for round in 0..300 {
        let count = rng.below(3) as u32;
        let semaphore = Arc::new(if is_barging {
            Semaphore::barging(count)
        } else {
            Semaphore::new(count)
        });
        let inside = semaphore.clone();
        let mut history = history(&runtimes[round % runtimes.len()], &mut rng, move |party| {
            body(party, &inside, is_barging)
        });
        assert_linear(
            &Semaphores { count, is_barging },
            &mut history,
            "a semaphore",
        );
        assert_eq!(
            waiting(&format!("{semaphore:?}"), "waiters"),
            0,
            "{semaphore:?}"
        );
    }
}

#[test]
fn strong_semaphores() {
    record_and_check(false);
}

#[test]
fn barging_semaphores() {
    record_and_check(true);
}
