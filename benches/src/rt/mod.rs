//! `umcg bench rt`: the runtime beside tokio, may, Go, kernel threads and a C server.
//!
//! Each turn of each side is a child process that does one piece of work and answers with one line
//! (`request`, `process`): memory and CPU time are the side's own, and no idle threads of another
//! runtime are about. A child gets as many CPUs as it has servers. Our workers, may's coroutines
//! and kernel threads run the same lines (`stackful`); tokio and Go (`peers/main.go`) have their
//! own, in the form that is fastest and still usual there. Servers under `load` are children too,
//! and the load generator is a third.
//!
//! The parameter `kind` tells two variants of one case apart, so rows that differ in nothing else
//! are compared.

#[cfg(epoll_c)]
mod epoll;
mod experiments;
mod load;
mod may;
mod ours;
mod process;
mod request;
mod side;
mod stackful;
mod threads;
mod tokio;

use crate::About;
use crate::harness::{self, Case, Go, Options, Params, Plan, Program, Report};
use anyhow::{Result, ensure};
use experiments::{BENCHES, Bench, Kind, SECTIONS, Size, USUAL, metrics};
pub(crate) use load::go_first;
use load::{Load, Outcome};
use process::Starter;
pub use request::child;
use request::{Request, Work};
pub(crate) use side::compute;
use std::time::Duration;

/// Connections on which urgent requests come, in turn.
const URGENT_CONNECTIONS: usize = 8;
/// An urgent request is due after each interval of this many nanoseconds.
const URGENT_EVERY: u64 = 1_000_000;
/// Workers of the batch load, for each server.
const BATCH: u64 = 4;
/// The 99th percentile of a few requests says nothing, so these turns take this many times as long
/// as others.
const URGENT_TURNS: u32 = 8;
/// The same of echo.
const ECHO_TURNS: u32 = 2;
/// And no shorter than this: the kernel tells the CPU time of another process with an error of a
/// tick, 4 ms or 10.
pub(crate) const LEAST_ECHO: Duration = Duration::from_millis(60);

/// The kind of ours with the runtime's default of 256 KiB of stack, where new stacks count. All
/// others have 64.
const DEFAULT_STACK: &str = "full-default-stack";

/// The cases that are ours.
const OURS: &[&str] = &["umcg"];

/// One row of every table, if it can do that bench.
#[derive(Clone)]
struct Side {
    case: &'static str,
    kind: Option<&'static str>,
    starter: Starter,
}

impl Side {
    fn can(&self, bench: &Bench) -> bool {
        if self.kind == Some(DEFAULT_STACK) {
            return matches!(
                bench.kind,
                Kind::Work {
                    work: Work::Skynet | Work::Sleepers,
                    ..
                }
            );
        }
        match self.case {
            "epoll-c" => matches!(bench.kind, Kind::Echo),
            "threads" => !matches!(
                bench.kind,
                Kind::Work {
                    work: Work::Skynet | Work::Sleepers | Work::Fib,
                    ..
                }
            ),
            _ => true,
        }
    }

    fn request(&self, servers: usize, work: Work, size: u64, budget: Duration) -> Request {
        let kind = self.kind.unwrap_or_default().to_owned();
        Request {
            case: self.case.to_owned(),
            kind,
            servers,
            work,
            size,
            nanos: budget.as_nanos() as u64,
        }
    }

    fn params(&self, servers: usize, connections: Option<usize>) -> Params {
        let connections = connections.map(|count| ("connections".to_owned(), count.into()));
        let kind = self.kind.map(|kind| ("kind".to_owned(), kind.into()));
        [("servers".to_owned(), servers.into())]
            .into_iter()
            .chain(connections)
            .chain(kind)
            .collect()
    }
}

/// For the catalogue.
pub(crate) fn about() -> About {
    About {
        name: "rt",
        title: "The runtime beside tokio, may, Go, kernel threads and a C server",
        ours: OURS,
        metrics: metrics().collect(),
        params: &["servers", "connections", "kind"],
        sections: SECTIONS,
        graphs: &[],
        usual: USUAL,
        share: 26,
        arguments: &["bench", "rt-child"],
        run,
    }
}

/// Runs the bench, with children that run [`child`].
fn run(plan: Plan, options: &Options) -> Result<Report> {
    let cpus = harness::cpu::allowed()?;
    ensure!(!cpus.is_empty(), "no CPU to run on");
    if cpus.len() < 2 {
        let line = "rt: only one CPU to run on: no rows for 2 servers";
        options.notes.say(line);
    }
    let size = if options.small {
        Size::Small
    } else {
        Size::Full
    };
    let plans = Plans {
        options,
        cpus,
        size,
    };
    let go = plans.go();
    let sides = plans.sides(go.as_ref());
    let groups = BENCHES
        .iter()
        .flat_map(|bench| plans.groups(bench, &sides))
        .collect();
    harness::run_groups("rt", groups, plan, options)
}

/// Makes cases.
struct Plans<'a> {
    options: &'a Options,
    cpus: Vec<usize>,
    size: Size,
}

impl Plans<'_> {
    /// Its program, if its rows are asked for.
    fn go(&self) -> Option<Go> {
        let go = self.own("go", None);
        if !BENCHES.iter().any(|bench| self.is_asked(bench, &go)) {
            return None;
        }
        Go::build(include_str!("peers/main.go"))
            .map_err(|error| self.options.notes.say(format!("go: no rows: {error:#}")))
            .ok()
    }

    fn own(&self, case: &'static str, kind: Option<&'static str>) -> Side {
        Side {
            case,
            kind,
            starter: Starter::Own(self.options.own.clone()),
        }
    }

    fn sides(&self, go: Option<&Go>) -> Vec<Side> {
        let own = |case, kind| self.own(case, kind);
        let mut sides = ["light", "full", DEFAULT_STACK]
            .map(|kind| own("umcg", Some(kind)))
            .to_vec();
        sides.extend([own("tokio", None), own("may", None)]);
        sides.extend(go.map(|go| Side {
            case: "go",
            kind: None,
            starter: Starter::Foreign(go.program()),
        }));
        let (threads, epoll) = (own("threads", None), own("epoll-c", None));
        if BENCHES
            .iter()
            .any(|bench| !threads.can(bench) && self.is_asked(bench, &threads))
        {
            self.options.notes.say(
                "threads: no rows for skynet, sleepers and fib: that would be too many kernel \
                 threads",
            );
        }
        sides.push(threads);
        if cfg!(epoll_c) {
            sides.push(epoll);
        } else if BENCHES
            .iter()
            .any(|bench| epoll.can(bench) && self.is_asked(bench, &epoll))
        {
            let line = "epoll-c: no rows: there was no C compiler when this was built";
            self.options.notes.say(line);
        }
        sides
    }

    /// For how many servers, and connections where there are some.
    fn sizes(&self, bench: &Bench) -> Vec<(usize, Option<usize>)> {
        let most = self.cpus.len().min(2);
        match bench.kind {
            Kind::Work { .. } => (1..=most).map(|servers| (servers, None)).collect(),
            Kind::Echo => {
                let connections = self.size.pick(&[1, 100, 1000][..], &[1, 40]);
                (1..=most)
                    .flat_map(|servers| {
                        connections.iter().map(move |&count| (servers, Some(count)))
                    })
                    .collect()
            }
            Kind::Urgent => vec![(most, None)],
        }
    }

    /// Whether a row of this side would be asked for, were there one.
    fn is_asked(&self, bench: &Bench, side: &Side) -> bool {
        let takes = |params: &Params| {
            self.options
                .choice
                .takes_any(side.case, params, bench.metrics)
        };
        self.sizes(bench)
            .into_iter()
            .any(|(servers, connections)| takes(&side.params(servers, connections)))
    }

    /// The cases that are compared with each other take turns; others come before or after.
    fn groups(&self, bench: &'static Bench, sides: &[Side]) -> Vec<Vec<Case>> {
        let make = |side: &Side, (servers, connections): (usize, Option<usize>)| match (
            &bench.kind,
            connections,
        ) {
            (Kind::Echo, Some(connections)) => self.echo(bench, side, servers, connections),
            (Kind::Urgent, _) => self.urgent(bench, side, servers),
            _ => self.work(bench, side, servers),
        };
        let able: Vec<&Side> = sides.iter().filter(|side| side.can(bench)).collect();
        self.sizes(bench)
            .into_iter()
            .map(|size| able.iter().map(|side| make(side, size)).collect())
            .collect()
    }

    fn case(
        &self,
        bench: &'static Bench,
        side: &Side,
        params: Params,
        turn: harness::Turn,
    ) -> Case {
        Case {
            name: side.case,
            params,
            metrics: bench.metrics,
            cpu: self.cpus[0],
            length: match bench.kind {
                // They take as long as they take.
                Kind::Work {
                    work: Work::Skynet | Work::Sleepers | Work::Fib,
                    ..
                } => 0,
                Kind::Urgent => URGENT_TURNS,
                Kind::Echo => ECHO_TURNS,
                Kind::Work { .. } => 1,
            },
            turn,
        }
    }

    fn work(&self, bench: &'static Bench, side: &Side, servers: usize) -> Case {
        let (own, cpus, size) = (side.clone(), self.cpus[..servers].to_vec(), self.size);
        let turn = Box::new(move |budget: Duration| {
            let Kind::Work {
                work,
                size: how_many,
                values,
            } = bench.kind
            else {
                return Ok(Vec::new());
            };
            let nap = size.pick(Duration::from_secs(1), Duration::from_millis(10));
            let budget = if work == Work::Sleepers { nap } else { budget };
            let request = own.request(servers, work, how_many(size), budget);
            Ok(values(&own.starter.figures(&request, &cpus)?, &request))
        });
        self.case(bench, side, side.params(servers, None), turn)
    }

    /// The generator gets the CPUs that the server has not, if there are any.
    fn echo(&self, bench: &'static Bench, side: &Side, servers: usize, connections: usize) -> Case {
        let (own, cpus, program) = (side.clone(), self.cpus.clone(), self.options.own.clone());
        let least = self.size.pick(LEAST_ECHO, Duration::ZERO);
        let turn = Box::new(move |budget: Duration| {
            let budget = (budget * ECHO_TURNS).max(least);
            let request = own.request(servers, Work::Serve, 0, budget);
            let others = if cpus.len() > servers {
                &cpus[servers..]
            } else {
                &cpus[..]
            };
            let cpus = [&cpus[..servers], others];
            let outcome = echoed(&own.starter, &program, &request, connections, cpus)?;
            Ok(vec![
                outcome.cpu_each(),
                outcome.rate(),
                outcome.p99 as f64 / 1e3,
            ])
        });
        self.case(bench, side, side.params(servers, Some(connections)), turn)
    }

    fn urgent(&self, bench: &'static Bench, side: &Side, servers: usize) -> Case {
        let (own, cpus, program) = (side.clone(), self.cpus.clone(), self.options.own.clone());
        let turn = Box::new(move |budget: Duration| {
            let request = own.request(
                servers,
                Work::Serve,
                BATCH * servers as u64,
                budget * URGENT_TURNS,
            );
            let nanos = request.nanos.max(20 * URGENT_EVERY);
            let load = Load {
                port: 0,
                server: 0,
                connections: URGENT_CONNECTIONS,
                nanos,
                every: Some(URGENT_EVERY),
            };
            let outcome =
                own.starter
                    .outcome(&program, &request, load, [&cpus[..servers], &cpus])?;
            Ok(vec![outcome.p99 as f64 / 1e3])
        });
        self.case(bench, side, side.params(servers, None), turn)
    }
}

/// A server for this request, and as many connections to it as can be busy.
fn echoed(
    starter: &Starter,
    own: &Program,
    request: &Request,
    connections: usize,
    cpus: [&[usize]; 2],
) -> Result<Outcome> {
    let load = Load {
        port: 0,
        server: 0,
        connections,
        nanos: request.nanos,
        every: None,
    };
    starter.outcome(own, request, load, cpus)
}

/// The echo of this bench for others: requests a second, and the server's CPU time for one, in
/// microseconds. `own` runs [`child`]. The CPUs are those of the server, which has one server or
/// thread, and those of the load.
pub(crate) fn echo(
    own: &Program,
    case: &str,
    kind: &str,
    connections: usize,
    budget: Duration,
    cpus: [&[usize]; 2],
) -> Result<Vec<f64>> {
    let request = Request {
        case: case.to_owned(),
        kind: kind.to_owned(),
        servers: 1,
        work: Work::Serve,
        size: 0,
        nanos: budget.as_nanos() as u64,
    };
    let outcome = echoed(&Starter::Own(own.clone()), own, &request, connections, cpus)?;
    Ok(vec![outcome.rate(), outcome.cpu_each()])
}
