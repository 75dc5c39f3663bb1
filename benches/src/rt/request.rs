//! The request to a child process, how often it does the work, and its answer. `peers/main.go` does
//! the same for Go.
//!
//! A request is one argument and an answer is one line, both JSON. The child that serves answers
//! with its port, and serves until it is killed.

#[cfg(epoll_c)]
use super::epoll::Epoll;
use super::load::{self, Load};
use super::may::May;
use super::ours::{Noticed, Ours};
use super::side::Side;
use super::stackful::Of;
use super::threads::Threads;
use super::tokio::Tokio;
use crate::harness::answer;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// `size` workers a server.
    Yield,
    /// `size` workers.
    Ring,
    SpawnJoin,
    /// `size` leaves.
    Skynet,
    /// `size` workers, each of which sleeps for the whole of the budget.
    Sleepers,
    /// Of `size`.
    Fib,
    /// Beside `size` workers of batch load.
    Serve,
}

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) case: String,
    /// Of the workers, where there are several.
    pub(super) kind: String,
    pub(super) servers: usize,
    pub(super) work: Work,
    pub(super) size: u64,
    /// The budget.
    pub(super) nanos: u64,
}

/// The findings of a child.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) operations: u64,
    pub(super) nanos: u64,
    /// Bytes resident before the work.
    pub(super) before: u64,
    /// The most that ever were.
    pub(super) peak: u64,
}

/// Where a child serves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) port: u16,
}

/// The whole life of a child process; the request is its argument.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Work(Request),
    Load(Load),
}

/// The body of a child process: `task` is the argument that the bench gave it.
pub fn child(task: &str) -> Result<()> {
    match serde_json::from_str(task).context("this command is for `umcg bench rt` itself")? {
        Task::Load(load) => answer(&load::run(&load)?),
        Task::Work(request) => work(&request),
    }
}

fn work(request: &Request) -> Result<()> {
    let side = side(request)?;
    if request.work == Work::Serve {
        let ready = Box::new(|port| answer(&Address { port }).expect("who asked has gone"));
        return side.serve(request.size.try_into()?, ready);
    }
    let before = status("VmRSS:")?;
    let (operations, took) = figures(&*side, request)?;
    answer(&Figures {
        operations,
        nanos: took.as_nanos().try_into()?,
        before,
        peak: status("VmHWM:")?,
    })
}

/// Starts the runtime.
pub(super) fn side(request: &Request) -> Result<Box<dyn Side>> {
    Ok(match (&*request.case, &*request.kind) {
        ("umcg", kind @ ("light" | "full")) => ours(kind == "light", request)?,
        ("umcg", "full-default-stack") => {
            Box::new(Of(Ours::<false>::with_default_stacks(request.servers)?))
        }
        // Of `umcg bench block`.
        ("umcg", "noticed") => Box::new(Of(Noticed::start(request.servers)?)),
        ("threads", _) => Box::new(Of(Threads)),
        ("may", _) => Box::new(Of(May::start(request.servers))),
        ("tokio", _) => Box::new(Tokio::start(request.servers)?),
        #[cfg(epoll_c)]
        ("epoll-c", _) => Box::new(Epoll {
            servers: request.servers,
        }),
        (case, kind) => bail!("{case} {kind} is not in this program"),
    })
}

fn ours(light: bool, request: &Request) -> Result<Box<dyn Side>> {
    let servers = request.servers;
    // Only beside batch load is anything urgent.
    Ok(
        match (light, request.work == Work::Serve && request.size > 0) {
            (true, false) => Box::new(Of(Ours::<true>::start(servers)?)),
            (true, true) => Box::new(Of(Ours::<true>::with_priorities(servers)?)),
            (false, false) => Box::new(Of(Ours::<false>::start(servers)?)),
            (false, true) => Box::new(Of(Ours::<false>::with_priorities(servers)?)),
        },
    )
}

/// Does the work for about as long as the request says: operations, and the time they took.
pub(super) fn figures(side: &dyn Side, request: &Request) -> Result<(u64, Duration)> {
    let budget = Duration::from_nanos(request.nanos);
    let size = request.size;
    match request.work {
        Work::Yield => {
            let workers = size * request.servers as u64;
            let (operations, took) =
                measured(budget, 1, |each| side.yields(workers as usize, each))?;
            Ok((operations * workers, took))
        }
        Work::Ring => measured(budget, size, |hops| side.ring(size as usize, hops)),
        Work::SpawnJoin => measured(budget, 1, |times| side.spawn_join(times)),
        Work::Skynet => repeated(budget, || side.skynet(size)),
        Work::Fib => repeated(budget, || side.fib(size)),
        Work::Sleepers => Ok((1, side.sleepers(size, budget)?)),
        Work::Serve => bail!("to serve takes no time"),
    }
}

/// Calls `batch(n)`, which does `n` operations. Finding an `n` that takes a good part of the budget
/// warms up and does not count.
fn measured(
    budget: Duration,
    first: u64,
    mut batch: impl FnMut(u64) -> Result<Duration>,
) -> Result<(u64, Duration)> {
    let mut size = first;
    while batch(size)? < budget / 8 {
        size *= 4;
    }
    let (mut operations, mut took) = (0, Duration::ZERO);
    while took < budget / 2 {
        took += batch(size)?;
        operations += size;
    }
    Ok((operations, took))
}

/// The same for work that cannot be done in part.
fn repeated(
    budget: Duration,
    mut once: impl FnMut() -> Result<Duration>,
) -> Result<(u64, Duration)> {
    once()?;
    let (mut times, mut took) = (0, Duration::ZERO);
    while times == 0 || took < budget / 2 {
        took += once()?;
        times += 1;
    }
    Ok((times, took))
}

/// A line of `/proc/self/status` that is in kB, in bytes.
fn status(key: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .with_context(|| format!("no {key} in /proc/self/status"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case may be followed by a kind.
    fn request(case: &str, work: Work, size: u64, servers: usize) -> Request {
        let (case, kind) = case.split_once(' ').unwrap_or((case, ""));
        Request {
            case: case.to_owned(),
            kind: kind.to_owned(),
            servers,
            work,
            size,
            nanos: 2_000_000,
        }
    }

    #[test]
    fn every_side_does_all_its_work() {
        // may has one runtime in a process, so its number of servers is that of the first caller.
        for (case, servers) in [
            ("umcg light", 1),
            ("umcg light", 2),
            ("umcg full", 1),
            ("umcg full", 2),
            ("umcg full-default-stack", 1),
            ("threads", 1),
            ("tokio", 1),
            ("tokio", 2),
            ("may", 2),
        ] {
            for (work, size) in [
                (Work::Yield, 3),
                (Work::Ring, 2),
                (Work::Ring, 7),
                (Work::SpawnJoin, 0),
                (Work::Skynet, 100),
                (Work::Sleepers, 20),
                (Work::Fib, 7),
            ] {
                let request = request(case, work, size, servers);
                let side = side(&request).unwrap();
                let (operations, took) = figures(&*side, &request).unwrap();
                assert!(operations > 0 && took > Duration::ZERO, "{request:?}");
                if work == Work::Sleepers {
                    assert!(took >= Duration::from_nanos(request.nanos), "{request:?}");
                }
            }
        }
    }

    #[test]
    fn requests_keep_their_shape() {
        let task = Task::Work(request("go", Work::SpawnJoin, 5, 2));
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"work":{"case":"go","kind":"","servers":2,"#,
                r#""work":"spawn_join","size":5,"nanos":2000000}}"#
            )
        );
        assert!(matches!(
            serde_json::from_str(&text).unwrap(),
            Task::Work(Request { size: 5, .. })
        ));
    }

    #[test]
    fn batches_grow_until_they_can_be_timed() {
        let mut largest = 0;
        let (operations, took) = measured(Duration::from_micros(800), 3, |n| {
            largest = n;
            Ok(Duration::from_micros(n))
        })
        .unwrap();
        assert_eq!(largest, 192, "at least an eighth of the budget");
        assert_eq!(
            (operations, took),
            (576, Duration::from_micros(576)),
            "and for half the budget"
        );
        assert_eq!(
            repeated(Duration::from_secs(3), || Ok(Duration::from_secs(1))).unwrap(),
            (2, Duration::from_secs(2))
        );
        assert_eq!(
            repeated(Duration::ZERO, || Ok(Duration::ZERO)).unwrap().0,
            1
        );
    }

    #[test]
    fn resident_memory_is_found() {
        assert!(status("VmRSS:").unwrap() > 4096 && status("VmHWM:").unwrap() >= 4096);
        assert!(status("NoSuch:").is_err() && child("{}").is_err() && child("nonsense").is_err());
        assert!(side(&request("nobody", Work::Fib, 1, 1)).is_err());
    }
}
