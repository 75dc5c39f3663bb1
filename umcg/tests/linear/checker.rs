//! The search for an order.
//!
//! The moments of a history, calls and returns, are gone through one after the other (J. Wing and
//! C. Gong, "Testing and Verifying Concurrent Objects", 1993; G. Lowe, "Testing for
//! Linearizability", 2017: "just in time"). The checker keeps the set of all possible states:
//! states of the object, with the answers of the operations that have not returned. At a return it
//! tries everything that the called operations may do, in any order, and then drops the states that
//! disagree with the one that returns. When no state is left, there is no order. States seen before
//! are not tried again.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// The effect of an operation on an object, one step at a time.
pub(crate) trait Specification {
    /// With the known facts about operations that have been called, by their number.
    type State: Clone + Eq + Hash;
    /// The question and the answer.
    type Operation: Debug;

    fn start(&self) -> Self::State;

    /// All possible results of one step of this operation.
    fn steps(
        &self,
        state: &Self::State,
        number: usize,
        operation: &Self::Operation,
    ) -> Vec<Self::State>;

    /// The state without the operation, which returns; none if it cannot return with this answer.
    fn end(
        &self,
        state: &Self::State,
        number: usize,
        operation: &Self::Operation,
    ) -> Option<Self::State>;
}

/// An operation, from one moment to another.
#[derive(Clone, Debug)]
pub(crate) struct Recorded<O> {
    pub(crate) party: usize,
    pub(crate) operation: O,
    pub(crate) called: u64,
    pub(crate) returned: u64,
}

/// Where there is no order: the number of the first whose return cannot be explained.
pub(crate) fn check<S: Specification>(
    specification: &S,
    history: &[Recorded<S::Operation>],
) -> Result<(), usize> {
    let mut moments: Vec<_> = (0..history.len())
        .flat_map(|number| {
            [
                (history[number].called, number, true),
                (history[number].returned, number, false),
            ]
        })
        .collect();
    moments.sort_unstable();
    let mut states = HashSet::from([specification.start()]);
    let mut pending: Vec<usize> = Vec::new();
    for (_, number, is_call) in moments {
        if is_call {
            pending.push(number);
            continue;
        }
        states = reachable(specification, states, &pending, history);
        let operation = &history[number].operation;
        states = states
            .iter()
            .filter_map(|state| specification.end(state, number, operation))
            .collect();
        if states.is_empty() {
            return Err(number);
        }
        pending.retain(|other| *other != number);
    }
    Ok(())
}

/// These states and all that follow from them by steps of those that have been called.
fn reachable<S: Specification>(
    specification: &S,
    states: HashSet<S::State>,
    pending: &[usize],
    history: &[Recorded<S::Operation>],
) -> HashSet<S::State> {
    let mut new: Vec<_> = states.iter().cloned().collect();
    let mut seen = states;
    while let Some(state) = new.pop() {
        for number in pending {
            for next in specification.steps(&state, *number, &history[*number].operation) {
                if seen.insert(next.clone()) {
                    new.push(next);
                }
            }
        }
    }
    seen
}

/// It has an order. Otherwise prints it.
#[track_caller]
pub(crate) fn assert_linear<S: Specification>(
    specification: &S,
    history: &mut [Recorded<S::Operation>],
    about: &str,
) {
    history.sort_unstable_by_key(|recorded| recorded.called);
    if let Err(number) = check(specification, history) {
        let lines: Vec<_> = history
            .iter()
            .enumerate()
            .map(|(at, recorded)| {
                let mark = if at == number {
                    "  <- no order from here"
                } else {
                    ""
                };
                let Recorded {
                    party,
                    operation,
                    called,
                    returned,
                } = recorded;
                format!("party {party}, {called:>3} to {returned:>3}: {operation:?}{mark}")
            })
            .collect();
        panic!("{about}: there is no order of\n{}", lines.join("\n"));
    }
}
