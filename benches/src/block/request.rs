//! The request to a child process, and its answer.

use super::flows::Flows;
use super::{UMCG, UMCG_OFF, blocking, passing};
use crate::harness::answer;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// All sleep, again and again.
    Sleep,
    /// One holds a mutex, and lets others run meanwhile.
    MutexYield,
    /// One holds a mutex, and sleeps.
    MutexSleep,
    /// All ask a database at this port.
    Ask { port: u16 },
    /// One makes a call that passes.
    Call { on_worker: bool, closes: bool },
    /// All compute, and give way.
    Compute,
    /// All give way.
    Switch,
}

impl Work {
    /// Whether the number of kernel threads says something.
    pub(super) fn has_flows(self) -> bool {
        !matches!(self, Self::Call { .. } | Self::Compute | Self::Switch)
    }
}

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) case: String,
    pub(super) work: Work,
    /// Workers, threads or tasks.
    pub(super) flows: usize,
    /// The time that counts.
    pub(super) nanos: u64,
}

impl Request {
    pub(super) fn budget(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

/// The findings of a child.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) operations: u64,
    pub(super) nanos: u64,
    /// CPU time of the process meanwhile, in nanoseconds.
    pub(super) cpu: u64,
    /// At the most.
    pub(super) kernel_threads: u64,
    /// How many there were.
    pub(super) flows: usize,
}

impl Figures {
    /// One for each of the metrics.
    pub(super) fn values(&self) -> Vec<f64> {
        let operations = self.operations as f64;
        vec![
            operations * 1e9 / self.nanos as f64,
            self.cpu as f64 / operations / 1e3,
            self.kernel_threads as f64,
        ]
    }
}

/// The body of a child process: `task` is the argument that the bench gave it.
pub fn child(task: &str) -> Result<()> {
    let request: Request =
        serde_json::from_str(task).context("this command is for `umcg bench block` itself")?;
    answer(&figures(&request)?)
}

fn figures(request: &Request) -> Result<Figures> {
    if request.case == UMCG {
        notice()?;
    }
    let flows = Flows::of(&request.case)?;
    match request.work {
        Work::Sleep => blocking::sleep(&flows, request),
        Work::MutexYield => blocking::mutex(&flows, request, blocking::give_way),
        Work::MutexSleep => blocking::mutex(&flows, request, blocking::nap),
        Work::Ask { port } => blocking::ask(&flows, request, port),
        Work::Call { on_worker, closes } => passing::call(&flows, request, on_worker, closes),
        Work::Compute | Work::Switch if [UMCG, UMCG_OFF].contains(&&*request.case) => {
            passing::busy(&flows, request, request.work == Work::Compute)
        }
        work => bail!("{} cannot do {work:?}", request.case),
    }
}

/// From here on, calls of workers that would block are noticed.
pub(crate) fn notice() -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    umcg::intercept::notice_blocking().map_err(|error| anyhow::anyhow!("{error}"))?;
    #[cfg(not(target_arch = "x86_64"))]
    bail!("blocking is noticed on x86-64 only");
    #[cfg(target_arch = "x86_64")]
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_that_needs_no_process_of_its_own_does_its_work() {
        for case in ["threads", "tokio", "umcg-off"] {
            for work in [
                Work::Sleep,
                Work::MutexYield,
                Work::Compute,
                Work::Switch,
                Work::Call {
                    on_worker: true,
                    closes: true,
                },
            ] {
                let request = Request {
                    case: case.to_owned(),
                    work,
                    flows: 3,
                    nanos: 2_000_000,
                };
                let can = match case {
                    "umcg-off" => work != Work::Sleep && work != Work::MutexYield,
                    "tokio" => work == Work::Sleep,
                    _ => matches!(work, Work::Sleep | Work::MutexYield),
                };
                // Without noticing a worker that sleeps keeps its server: it is not done.
                if case == "umcg-off" && !can {
                    continue;
                }
                let figures = figures(&request);
                assert_eq!(figures.is_ok(), can, "{request:?}: {figures:?}");
                if let Ok(figures) = figures {
                    assert!(figures.operations > 0 && figures.nanos > 0, "{request:?}");
                    assert_eq!(
                        figures.flows,
                        if can && work.has_flows() {
                            3
                        } else {
                            figures.flows
                        }
                    );
                }
            }
        }
    }

    #[test]
    fn requests_of_others_are_refused() {
        assert!(child("{}").is_err() && child("nonsense").is_err());
    }
}
