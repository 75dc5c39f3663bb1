//! The peer corosensei: asymmetric coroutines in Rust, with inline assembly.

use super::body::{self, Lives, hop, rounds};
use super::{Life, STACK, SWITCH_STACK, Side};
use crate::harness::Sample;
use anyhow::Result;
use corosensei::Coroutine;
use corosensei::stack::DefaultStack;
use std::time::Duration;

pub(super) const SIDE: Side = Side {
    name: "corosensei",
    shallow: switches::<false>,
    deep: switches::<true>,
    ring_shallow: None,
    ring_deep: None,
    life,
};

type Context = Coroutine<(), (), ()>;

fn switches<const DEEP: bool>(contexts: usize, budget: Duration) -> Result<Sample> {
    let mut others = Vec::new();
    for _ in 1..contexts {
        let stack = DefaultStack::new(SWITCH_STACK)?;
        others.push(Context::with_stack(stack, |yielder, ()| {
            loop {
                hop::<DEEP>(&mut || yielder.suspend(()));
            }
        }));
    }
    let sample = rounds(&mut others, budget, |other| {
        other.resume(());
    });
    for other in &mut others {
        // SAFETY: nothing on its stack needs to be dropped.
        unsafe { other.force_reset() };
    }
    Ok(sample)
}

struct Coro {
    /// Counts the runs, so that a body is not empty.
    runs: u64,
}

impl Coro {
    fn new_stack() -> DefaultStack {
        DefaultStack::new(STACK).expect("memory for a stack")
    }

    #[inline(always)]
    fn make(&mut self, stack: DefaultStack) -> Context {
        let runs = &raw mut self.runs as usize;
        Context::with_stack(stack, move |_, ()| {
            // SAFETY: runs inside `create_run_delete`, while `self` is there and no other code
            // looks at it.
            unsafe { *(runs as *mut u64) += 1 };
        })
    }
}

impl Lives for Coro {
    type Context = Context;
    type Kept = DefaultStack;

    fn create(&mut self) -> Context {
        self.make(Self::new_stack())
    }

    #[inline(always)]
    fn delete(&mut self, mut context: Context) -> DefaultStack {
        // SAFETY: it never ran, and its function owns nothing.
        unsafe { context.force_reset() };
        context.into_stack()
    }

    #[inline(always)]
    fn recycle(&mut self, stack: DefaultStack) -> Context {
        self.make(stack)
    }

    #[inline(always)]
    fn reinit(&mut self, context: Context) -> Context {
        let stack = self.delete(context);
        self.make(stack)
    }

    #[inline(always)]
    fn create_run_delete(&mut self, stack: DefaultStack) -> DefaultStack {
        let mut context = self.make(stack);
        context.resume(());
        context.into_stack()
    }

    fn discard(&mut self, contexts: Vec<Context>) {
        drop(contexts);
    }
}

fn life(budget: Duration) -> Result<Life> {
    Ok(body::life(&mut Coro { runs: 0 }, budget))
}
