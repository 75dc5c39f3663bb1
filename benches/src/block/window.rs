//! Counts what many flows do in a given time.
//!
//! The flows begin when all are there, and work until they are told to end. The time begins when
//! all of them have been at it once on the average, so that starting them does not count. The
//! calling thread sleeps meanwhile, and runs before all others when it wakes (SCHED_FIFO, where it
//! is allowed to): among thousands of threads its turn would come late.

use super::flows::Join;
use super::request::{Figures, Request};
use crate::rt::go_first;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// When nothing at all is done for this long, it never will be.
const DEAD: Duration = Duration::from_secs(60);
/// How often the kernel's threads are counted in the time.
const LOOKS: u32 = 8;

/// Shared by all flows. The orderings are relaxed: joining the flows orders everything.
#[derive(Default)]
pub(super) struct Tally {
    done: AtomicU64,
    is_over: AtomicBool,
    has_begun: Mutex<bool>,
    begins: Condvar,
    failure: Mutex<Option<String>>,
}

impl Tally {
    /// Waits, as a thread does, until all flows are there.
    pub(super) fn await_begin(&self) {
        let begun = self
            .has_begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        drop(self.begins.wait_while(begun, |begun| !*begun));
    }

    fn begin(&self) {
        *self
            .has_begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.begins.notify_all();
    }

    /// Notes these operations. False if the flow is to end.
    pub(super) fn note(&self, operations: u64) -> bool {
        self.done.fetch_add(operations, Relaxed);
        !self.is_over.load(Relaxed)
    }

    /// Notes how a flow has ended.
    pub(super) fn end(&self, ended: Result<()>) {
        if let Err(error) = ended {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(format!("{error:#}"));
        }
    }

    fn check(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some(error) => bail!("a flow: {error}"),
            None => Ok(()),
        }
    }
}

/// Makes as many flows as the request says, or as can be, and measures. At least one must be made.
pub(super) fn measure(
    request: &Request,
    mut spawn: impl FnMut(usize, Arc<Tally>) -> Result<Join>,
) -> Result<Figures> {
    let tally = Arc::new(Tally::default());
    let mut joins = Vec::new();
    for index in 0..request.flows {
        match spawn(index, Arc::clone(&tally)) {
            Ok(join) => joins.push(join),
            Err(error) if joins.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    go_first();
    tally.begin();
    let figures = watch(&tally, joins.len(), request.budget());
    tally.is_over.store(true, Relaxed);
    joins.into_iter().for_each(|join| join());
    tally.check()?;
    figures
}

fn watch(tally: &Tally, flows: usize, budget: Duration) -> Result<Figures> {
    let wait_for = |least: u64| {
        let deadline = Instant::now() + DEAD;
        while tally.done.load(Relaxed) < least {
            tally.check()?;
            ensure!(Instant::now() < deadline, "the flows do nothing");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    wait_for(flows as u64)?;
    let (start, cpu, before) = (Instant::now(), cpu_time()?, tally.done.load(Relaxed));
    let mut most = kernel_threads()?;
    while start.elapsed() < budget {
        thread::sleep(budget / LOOKS);
        most = most.max(kernel_threads()?);
    }
    wait_for(before + 1)?;
    let operations = tally.done.load(Relaxed) - before;
    Ok(Figures {
        operations,
        nanos: start.elapsed().as_nanos().try_into()?,
        cpu: (cpu_time()? - cpu).as_nanos().try_into()?,
        kernel_threads: most,
        flows,
    })
}

/// CPU time of this process, of all its threads.
pub(super) fn cpu_time() -> Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is writable.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } != 0 {
        return Err(io::Error::last_os_error()).context("the clock of this process");
    }
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

fn kernel_threads() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Threads:"));
    let line = line.context("no number of threads in /proc/self/status")?;
    Ok(line.trim().parse()?)
}
