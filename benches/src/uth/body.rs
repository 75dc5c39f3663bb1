//! The code that every side runs: the same functions around a different switch, so that only the
//! switch differs.

use super::{HUNDRED, Life};
use crate::harness::{Sample, measure, time};
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};
use std::time::{Duration, Instant};

/// Calls `switch`, at the bottom of four calls if `DEEP`.
///
/// The closures passed in hold their values, not references to them. Each further load stands
/// between the switch and the address that the first return behind it goes to, and would be
/// measured with it.
#[inline(always)]
pub(super) fn hop<const DEEP: bool>(switch: &mut impl FnMut()) {
    if DEEP { frame1(switch) } else { switch() }
}

/// A caller that has something to do after the call: otherwise the call would be a jump, without a
/// frame to return through.
macro_rules! frame {
    ($name:ident, $next:expr) => {
        #[inline(never)]
        fn $name<F: FnMut()>(switch: &mut F) {
            $next(switch);
            compiler_fence(SeqCst);
        }
    };
}
frame!(frame1, frame2);
frame!(frame2, frame3);
frame!(frame3, frame4);
frame!(frame4, |switch: &mut F| switch());

/// The main thread of the pattern that every side can do: `switch` goes to one of `others`, which
/// comes straight back.
#[inline(always)]
pub(super) fn rounds<T>(
    others: &mut [T],
    budget: Duration,
    mut switch: impl FnMut(&mut T),
) -> Sample {
    let mut sample = measure(budget, |rounds| {
        for _ in 0..rounds {
            others.iter_mut().for_each(&mut switch);
        }
    });
    sample.operations *= 2 * others.len() as u64;
    sample
}

/// How a side does the operations of Tables 3 to 5.
pub(super) trait Lives {
    /// A context that can be switched to.
    type Context;
    /// The remains of a deleted one.
    type Kept;
    /// Makes a context with a stack that was never used.
    fn create(&mut self) -> Self::Context;
    /// Deletes a context that never ran.
    fn delete(&mut self, context: Self::Context) -> Self::Kept;
    /// Makes a context of a deleted one.
    fn recycle(&mut self, kept: Self::Kept) -> Self::Context;
    /// Gives a context that never ran another function and argument.
    fn reinit(&mut self, context: Self::Context) -> Self::Context;
    /// Makes a context of a deleted one, runs it to its end, and deletes it.
    fn create_run_delete(&mut self, kept: Self::Kept) -> Self::Kept;
    /// Does away with contexts in such a way that `create` will not find their stacks.
    fn discard(&mut self, contexts: Vec<Self::Context>);
}

/// Going through creation so often in a turn gives a steady figure; more would only use up memory.
const PASSES: usize = 4;

/// Creates a hundred contexts, deletes them, creates a hundred again and re-initialises them; then
/// makes and ends one after another.
pub(super) fn life<L: Lives>(lives: &mut L, budget: Duration) -> Life {
    let mut life = Life::default();
    let end = Instant::now() + budget / 2;
    for pass in 0..PASSES {
        if pass > 0 && Instant::now() >= end {
            break;
        }
        one_pass(lives, &mut life);
    }
    let first = lives.create();
    let mut kept = Some(lives.delete(first));
    life.create_run_delete = measure(budget / 2, |n| {
        for _ in 0..n {
            kept = kept.take().map(|kept| lives.create_run_delete(kept));
        }
    });
    let last = kept.map(|kept| lives.recycle(kept));
    lives.discard(last.into_iter().collect());
    life
}

fn one_pass<L: Lives>(lives: &mut L, life: &mut Life) {
    let count = HUNDRED as u64;
    let mut contexts = Vec::with_capacity(HUNDRED);
    let mut again = Vec::with_capacity(HUNDRED);
    let mut kept = Vec::with_capacity(HUNDRED);
    life.create.add(time(count, || {
        contexts.extend((0..HUNDRED).map(|_| lives.create()))
    }));
    kept.extend(contexts.drain(..).map(|context| lives.delete(context)));
    life.recycle.add(time(count, || {
        contexts.extend(kept.drain(..).map(|kept| lives.recycle(kept)))
    }));
    life.reinit.add(time(count, || {
        again.extend(contexts.drain(..).map(|context| lives.reinit(context)))
    }));
    lives.discard(again);
}
