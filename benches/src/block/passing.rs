//! The price of noticing for programs that never block: of a call that is looked at and passes, and
//! of none at all.

use super::flows::Flows;
use super::request::{Figures, Request};
use super::window::{self, cpu_time};
use crate::harness;
use crate::rt::compute;
use anyhow::{Result, bail};
use std::hint::black_box;
use std::time::Duration;

/// Steps of computation between two turns.
const STEPS: u64 = 2000;
/// Turns of a worker between two looks at the tally.
const TURNS: u64 = 64;

/// One flow makes a short call of the C library, again and again: getppid by `syscall`, whose site
/// may make any call, or the close of no descriptor. Neither blocks, and both are looked at.
pub(super) fn call(
    flows: &Flows,
    request: &Request,
    on_worker: bool,
    closes: bool,
) -> Result<Figures> {
    let Flows::Workers(runtime) = flows else {
        bail!("only workers of ours are noticed")
    };
    let budget = request.budget();
    let calls = move || {
        if closes {
            // SAFETY: there is no such descriptor.
            timed(budget, || unsafe { libc::close(-1) })
        } else {
            // SAFETY: the call has no arguments.
            timed(budget, || unsafe {
                libc::syscall(libc::SYS_getppid) as i32
            })
        }
    };
    if on_worker {
        runtime
            .spawn(calls)
            .join()
            .map_err(|error| anyhow::anyhow!("{error}"))?
    } else {
        calls()
    }
}

#[inline(always)]
fn timed(budget: Duration, call: impl Fn() -> i32) -> Result<Figures> {
    // So that the counted part is all that is timed.
    let size = harness::measure(budget / 8, |n| {
        (0..n).for_each(|_| {
            black_box(call());
        })
    });
    let before = cpu_time()?;
    let operations = (size.rate() * budget.as_secs_f64()).max(1.0) as u64;
    let sample = harness::time(operations, || {
        (0..operations).for_each(|_| {
            black_box(call());
        });
    });
    Ok(Figures {
        operations,
        nanos: sample.elapsed.as_nanos().try_into()?,
        cpu: (cpu_time()? - before).as_nanos().try_into()?,
        kernel_threads: 0,
        flows: 1,
    })
}

/// All give way again and again, and compute in between or do not.
pub(super) fn busy(flows: &Flows, request: &Request, computes: bool) -> Result<Figures> {
    let steps = if computes { STEPS } else { 0 };
    window::measure(request, |_, tally| {
        flows.spawn(move || {
            tally.await_begin();
            loop {
                for _ in 0..TURNS {
                    if steps > 0 {
                        compute(steps);
                    }
                    umcg::yield_now();
                }
                if !tally.note(TURNS) {
                    break;
                }
            }
        })
    })
}
