//! The semaphore paper's Experiment 1: critical sections of some size, and work of some size
//! outside.

use super::flow::{Flow, together};
use super::locks::{Counter, Lock};
use super::request::{Answer, Clock, Request};
use crate::harness::ticks;
use anyhow::{Result, ensure};
use std::arch::asm;
use std::iter::repeat_with;
use std::sync::Arc;

/// The lengths of critical sections in the graphs of ratios.
const BETA_SECTION: u64 = 1000;

/// Work of this many steps, of which one takes a cycle: it begins when the one before has ended.
#[inline(never)]
pub(super) fn waste(steps: u64) {
    let mut left = steps;
    while left > 0 {
        // SAFETY: a comment only, but the compiler takes it for work on the number.
        unsafe { asm!("/* {0} */", inout(reg) left, options(nomem, nostack, preserves_flags)) };
        left -= 1;
    }
}

/// Steps within critical sections, and outside.
pub(super) fn steps(request: &Request) -> Result<(u64, u64)> {
    let ratio = request
        .params
        .get("ratio")
        .and_then(serde_json::Value::as_f64);
    Ok(match ratio {
        Some(ratio) => (BETA_SECTION, (BETA_SECTION as f64 / ratio) as u64),
        None => (request.number("css")? as u64, request.number("nss")? as u64),
    })
}

/// A down that does not wait and gets nothing is measured by itself.
pub(super) fn critical_sections<F: Flow, L: Lock>(
    request: &Request,
    blocks: bool,
) -> Result<Answer> {
    let ((css, nss), times) = (steps(request)?, request.times);
    let shared = Arc::new((L::new()?, Counter::default()));
    let inside = Arc::clone(&shared);
    let clock = Clock::start();
    let body = move |_| {
        let (lock, counter) = &*inside;
        let add = || {
            let value = counter.get();
            waste(css);
            counter.set(value + 1);
        };
        let mut entered = 0;
        let round = || {
            let start = ticks();
            if blocks {
                lock.with(add);
            }
            entered += u64::from(blocks || lock.try_with(add).is_some());
            let took = ticks().wrapping_sub(start);
            waste(nss);
            took
        };
        let took: Vec<u64> = repeat_with(round).take(times as usize).collect();
        (took, entered)
    };
    let all = together::<F, _>(request, request.number("processes")?, body)?;
    let entered: u64 = all.iter().map(|(_, entered)| entered).sum();
    ensure!(
        shared.1.get() == entered,
        "{} increments of {entered}: two were in at once",
        shared.1.get()
    );
    Answer::measured(clock.nanos(all.into_iter().flat_map(|(took, _)| took)))
}

#[cfg(test)]
mod tests {
    use super::super::experiment::params;
    use super::*;

    #[test]
    fn a_ratio_says_how_long_the_rest_is() {
        let request =
            |ratio: f64| Request::new("sem", "beta", "umcg", params([("ratio", ratio.into())]));
        assert_eq!(steps(&request(0.1)).unwrap(), (1000, 10000));
        assert_eq!(steps(&request(10.0)).unwrap(), (1000, 100));
    }
}
