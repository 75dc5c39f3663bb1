//! tokio's semaphore, which is fair.

use super::super::contest::Contest;
use super::super::request::{Answer, Request};
use super::{enter, measure, runtime};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(in super::super) fn sem(request: &Request) -> Result<Answer> {
    match &*request.work {
        "uncontended" => uncontended(request),
        "contended" => contended(request),
        "hand_over" => hand_over(request),
        _ => request.refuse(),
    }
}

async fn take(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    semaphore.acquire().await.expect("it is never closed")
}

fn uncontended(request: &Request) -> Result<Answer> {
    let budget = request.budget();
    let body = async move {
        let semaphore = Semaphore::new(1);
        measure!(budget, n => for _ in 0..n {
            drop(take(&semaphore).await);
        })
    };
    Answer::of(enter(&runtime(1)?, body)?.nanos())
}

fn contended(request: &Request) -> Result<Answer> {
    let count = request.number("workers")?;
    let runtime = runtime(request.cpus()?)?;
    let shared = Arc::new((Semaphore::new(0), Contest::new(request.budget())));
    let start = || {
        let shared = Arc::clone(&shared);
        runtime.spawn(async move {
            let (semaphore, contest) = &*shared;
            contest.arrive();
            let mut turns = 1;
            loop {
                let _permit = take(semaphore).await;
                if !contest.turn() {
                    return turns;
                }
                turns += 1;
            }
        })
    };
    let joins: Vec<_> = (0..count).map(|_| start()).collect();
    shared.1.begin(count);
    shared.0.add_permits(1);
    let each: Result<Vec<u64>, _> = joins
        .into_iter()
        .map(|join| runtime.block_on(join))
        .collect();
    shared.1.answer(&each?)
}

fn hand_over(request: &Request) -> Result<Answer> {
    let (runtime, budget) = (runtime(request.cpus()?)?, request.budget());
    let two = Arc::new((Semaphore::new(0), Semaphore::new(0), AtomicBool::new(false)));
    let other = Arc::clone(&two);
    let answering = runtime.spawn(async move {
        let (here, there, stop) = &*other;
        loop {
            take(there).await.forget();
            // The data that came with the permit are seen.
            if stop.load(Relaxed) {
                return;
            }
            here.add_permits(1);
        }
    });
    let asking = async move {
        let (here, there, stop) = &*two;
        let sample = measure!(budget, n => for _ in 0..n {
            there.add_permits(1);
            take(here).await.forget();
        });
        stop.store(true, Relaxed);
        there.add_permits(1);
        sample
    };
    let sample = enter(&runtime, asking)?;
    runtime.block_on(answering)?;
    Answer::of(sample.nanos())
}
