//! The peer generator: the base of `may`. It has no pool of its own; a finished generator is given
//! a new function, and that is both its recycling and its re-initialisation.

use super::body::{self, Lives, hop, rounds};
use super::{Life, STACK, SWITCH_STACK, Side};
use crate::harness::Sample;
use anyhow::Result;
use generator::{Gn, LocalGenerator};
use std::time::Duration;

pub(super) const SIDE: Side = Side {
    name: "generator",
    shallow: switches::<false>,
    deep: switches::<true>,
    ring_shallow: None,
    ring_deep: None,
    life,
};

type Context = LocalGenerator<'static, (), ()>;

/// The crate counts stacks in words.
const WORD: usize = size_of::<usize>();

fn switches<const DEEP: bool>(contexts: usize, budget: Duration) -> Result<Sample> {
    let mut others: Vec<Context> = Vec::new();
    for _ in 1..contexts {
        others.push(Gn::<()>::new_scoped_opt_local(
            SWITCH_STACK / WORD,
            |mut scope| {
                loop {
                    hop::<DEEP>(&mut || scope.yield_with(()));
                }
            },
        ));
    }
    Ok(rounds(&mut others, budget, |other| {
        other.resume();
    }))
}

struct Gener {
    /// Counts the runs, so that a body is not empty.
    runs: u64,
}

impl Gener {
    #[inline(always)]
    fn runs(&mut self) -> usize {
        &raw mut self.runs as usize
    }

    #[inline(always)]
    fn init(&mut self, mut context: Context) -> Context {
        let runs = self.runs();
        context.scoped_init(move |_| count(runs));
        context
    }
}

fn count(runs: usize) {
    // SAFETY: runs inside `create_run_delete`, while the owner is there and no other code looks at
    // it.
    unsafe { *(runs as *mut u64) += 1 };
}

impl Lives for Gener {
    type Context = Context;
    type Kept = Context;

    fn create(&mut self) -> Context {
        let runs = self.runs();
        Gn::<()>::new_scoped_opt_local(STACK / WORD, move |_| count(runs))
    }

    #[inline(always)]
    fn delete(&mut self, context: Context) -> Context {
        context
    }

    #[inline(always)]
    fn recycle(&mut self, context: Context) -> Context {
        self.init(context)
    }

    #[inline(always)]
    fn reinit(&mut self, context: Context) -> Context {
        self.init(context)
    }

    #[inline(always)]
    fn create_run_delete(&mut self, context: Context) -> Context {
        let mut context = self.init(context);
        context.resume();
        context
    }

    fn discard(&mut self, contexts: Vec<Context>) {
        drop(contexts);
    }
}

fn life(budget: Duration) -> Result<Life> {
    Ok(body::life(&mut Gener { runs: 0 }, budget))
}
