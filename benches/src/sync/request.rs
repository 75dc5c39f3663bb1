//! The request to a child, and its answer. `peers/main.go` does the same for Go.

use super::BENCHES;
use crate::harness::{Params, Spread, answer, ticks};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, Instant};

/// One piece of work; one argument, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    bench: String,
    /// The first metric of the experiment.
    pub(super) work: String,
    pub(super) case: String,
    pub(super) params: Params,
    /// How long, or
    pub(super) nanos: u64,
    /// how often.
    pub(super) times: u64,
}

/// The results; one line, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// One for each metric of the experiment.
    pub(super) values: Vec<f64>,
    /// Of the last metric, if each operation was measured by itself.
    pub(super) spread: Option<Spread>,
}

impl Request {
    pub(super) fn new(bench: &str, work: &str, case: &str, params: Params) -> Request {
        Request {
            bench: bench.to_owned(),
            work: work.to_owned(),
            case: case.to_owned(),
            params,
            nanos: 0,
            times: 0,
        }
    }

    pub(super) fn budget(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// A parameter that is a number.
    pub(super) fn number(&self, key: &str) -> Result<usize> {
        let number = self.params.get(key).and_then(Value::as_u64);
        Ok(number
            .with_context(|| format!("{}: no {key}", self.work))?
            .try_into()?)
    }

    /// A parameter that tells variants apart; empty if there is none.
    pub(super) fn word(&self, key: &str) -> &str {
        self.params
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn cpus(&self) -> Result<usize> {
        self.number("cpus")
    }

    /// Which side it is for.
    pub(super) fn side(&self) -> (&str, &str, &str, &str) {
        (
            &self.case,
            self.word("kind"),
            self.word("order"),
            self.word("object"),
        )
    }

    /// There is no such side here.
    pub(super) fn refuse<T>(&self) -> Result<T> {
        let (case, kind, order, object) = self.side();
        let words: Vec<&str> = [case, kind, order, object]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        bail!(
            "{} for {} is not in this program",
            self.work,
            words.join(" ")
        )
    }
}

impl Answer {
    pub(super) fn of(value: f64) -> Result<Answer> {
        Ok(Answer {
            values: vec![value],
            spread: None,
        })
    }

    /// Makes figures of the steps that a clock has measured. The spread is of the last one.
    pub(super) fn smooth(&mut self, step: f64) {
        self.spread = self.spread.take().map(|spread| spread.smoothed(step));
        if let (Some(spread), Some(last)) = (&self.spread, self.values.last_mut()) {
            *last = spread.median();
        }
    }

    /// The median, and the boxes.
    pub(super) fn measured(nanos: Vec<f64>) -> Result<Answer> {
        let spread = Spread::of(nanos).context("nothing was measured")?;
        Ok(Answer {
            values: vec![spread.median()],
            spread: Some(spread),
        })
    }
}

/// Makes nanoseconds of ticks: how many went by while it lived.
pub(super) struct Clock {
    start: (Instant, u64),
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock {
            start: Clock::read(),
        }
    }

    /// Both clocks at once: of some readings the one in which least time went by, since anything
    /// that comes between the two is taken for a part of each tick.
    fn read() -> (Instant, u64) {
        let reading = |_| {
            let now = (Instant::now(), ticks());
            (now.0.elapsed(), now)
        };
        let best = (0..8).map(reading).min_by_key(|(took, _)| *took);
        best.map_or_else(|| (Instant::now(), ticks()), |(_, now)| now)
    }

    pub(super) fn nanos(&self, ticks_each: impl IntoIterator<Item = u64>) -> Vec<f64> {
        let (start, end) = (self.start, Clock::read());
        let each = (end.0 - start.0).as_nanos() as f64 / end.1.wrapping_sub(start.1).max(1) as f64;
        ticks_each
            .into_iter()
            .map(|ticks| ticks as f64 * each)
            .collect()
    }
}

/// The body of a child process: `task` is the argument that the bench gave it.
pub fn child(task: &str) -> Result<()> {
    let request: Request =
        serde_json::from_str(task).context("this command is for `umcg bench` itself")?;
    if let "sysv" | "mqueue" = &*request.case {
        private_objects();
    }
    let bench = BENCHES
        .iter()
        .find(|bench| bench.name == request.bench)
        .context("no such bench")?;
    answer(&(bench.work)(&request)?)
}

/// Has the kernel keep this process's objects of interprocess communication apart, so that none is
/// left in the system however the process ends. Where that is not allowed their maker removes them,
/// unless it is killed.
fn private_objects() {
    // SAFETY: plain system call.
    if unsafe { libc::unshare(libc::CLONE_NEWIPC) } != 0 {
        // SAFETY: likewise.
        unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWIPC) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::params;
    use super::*;

    #[test]
    fn requests_keep_their_shape() {
        let mut request = Request::new(
            "sem",
            "contended",
            "go",
            params([("cpus", 2.into()), ("kind", "worker".into())]),
        );
        request.nanos = 5;
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"bench":"sem","work":"contended","case":"go","#,
                r#""params":{"cpus":2,"kind":"worker"},"nanos":5,"times":0}"#
            )
        );
        let same: Request = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (same.cpus().unwrap(), same.side()),
            (2, ("go", "worker", "", ""))
        );
        assert!(same.number("size").is_err());
        assert_eq!(
            same.refuse::<()>().unwrap_err().to_string(),
            "contended for go worker is not in this program"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(child("{}").is_err() && child("nonsense").is_err());
        let nobody = Request::new("nothing", "contended", "go", Params::new());
        assert!(child(&serde_json::to_string(&nobody).unwrap()).is_err());
    }

    #[test]
    fn ticks_become_nanoseconds() {
        let began = Instant::now();
        let clock = Clock::start();
        let before = ticks();
        std::thread::sleep(Duration::from_millis(20));
        let nanos = clock.nanos([ticks() - before]);
        let most = began.elapsed().as_nanos() as f64;
        assert!(
            (15e6..=most * 1.01).contains(&nanos[0]),
            "{nanos:?} of {most}"
        );
    }
}
