//! `umcg bench uth`: the cost of a context, in the tables of the UthLib paper, for each of its
//! methods and beside today's peers.
//!
//! | metric | the paper's | what is measured |
//! |---|---|---|
//! | `switch`, `switch_ns` | Table 2 | one switch from one context to another |
//! | `create` | Table 3 | making 100 contexts whose stacks were never used, each |
//! | `recycle` | Table 4 | making 100 contexts of the stacks of deleted ones, each |
//! | `reinit` | Table 5 | giving 100 contexts that have not run another function and argument, each |
//! | `create_run_delete` | - | making a context of a kept stack, running it to its end, and deleting it |
//!
//! `switch` has two parameters. `contexts` counts the main thread: 2 is a ping-pong, and with more
//! the main thread switches to the others in turn, each of which switches back: the one pattern
//! that every side can do, so a ratio of two sides compares like with like. Each of these switches
//! counts. `depth` is `shallow` where the others switch back themselves, and `deep` where they do
//! it at the bottom of four calls, through which they return after each switch; the main thread
//! does it in its loop, as a scheduler would. The metric `ring` is for sides that need no detour:
//! context i switches to i+1, and all of them, the main thread too, do it at the same depth.

mod body;
#[cfg(boost_context)]
mod boost;
mod coro;
mod gener;
pub(crate) mod ours;
mod paper;

use crate::About;
use crate::harness::{
    self, Case, Metric, Options, Params, Plan, Report, Sample, Section, TICKS_UNIT, lower, number,
};
use anyhow::Result;
pub use paper::paper_tables;
use std::time::Duration;

/// Table 3, 4 and 5 are about this many contexts.
const HUNDRED: usize = 100;
/// Stacks of the contexts that are created, as in the paper.
const STACK: usize = 64 * 1024;
/// Stacks of the contexts that are switched between: another size, so that none of them is found in
/// a pool by the others.
const SWITCH_STACK: usize = 32 * 1024;

const SWITCH: &[Metric] = &[lower("switch", TICKS_UNIT), lower("switch_ns", "ns")];
const RING: &[Metric] = &[lower("ring", TICKS_UNIT), lower("ring_ns", "ns")];
const LIFE: &[Metric] = &[
    lower("create", "us"),
    lower("recycle", "us"),
    lower("reinit", TICKS_UNIT),
    lower("create_run_delete", "ns"),
];
/// The cases that are ours.
const OURS: &[&str] = &["asm", "sjlj", "mcsc"];

const REFERENCES: &[&str] = &["mcsc", "corosensei"];

const SECTIONS: &[Section] = &[
    Section {
        title: "Table 2: context switch",
        metric: "switch",
        heading: TICKS_UNIT,
        columns: &[("ns", |report, row| {
            report
                .beside(row, row.case, "switch_ns")
                .map(|ns| number(ns.median))
        })],
        bar: None,
        references: REFERENCES,
    },
    Section {
        title: "Context switch in a ring: each context switches to the next",
        metric: "ring",
        heading: TICKS_UNIT,
        columns: &[("ns", |report, row| {
            report
                .beside(row, row.case, "ring_ns")
                .map(|ns| number(ns.median))
        })],
        bar: None,
        references: &["mcsc"],
    },
    Section {
        title: "Table 3: creation",
        metric: "create",
        heading: "us",
        columns: &[],
        bar: None,
        references: REFERENCES,
    },
    Section {
        title: "Table 4: recycling",
        metric: "recycle",
        heading: "us",
        columns: &[],
        bar: None,
        references: REFERENCES,
    },
    Section {
        title: "Table 5: re-initialisation",
        metric: "reinit",
        heading: TICKS_UNIT,
        columns: &[],
        bar: None,
        references: REFERENCES,
    },
    Section {
        title: "Creation with a kept stack, run to the end, deletion",
        metric: "create_run_delete",
        heading: "ns",
        columns: &[],
        bar: None,
        references: REFERENCES,
    },
];

/// The operations of a side. Everything that is timed is monomorphic: these are called once a turn.
struct Side {
    name: &'static str,
    shallow: Switches,
    deep: Switches,
    /// The same in a ring, for sides that can.
    ring_shallow: Option<Switches>,
    ring_deep: Option<Switches>,
    life: fn(Duration) -> Result<Life>,
}

/// Switches between this many contexts for about this long; a switch is an operation.
type Switches = fn(contexts: usize, budget: Duration) -> Result<Sample>;

/// The parts of [`LIFE`].
#[derive(Default)]
struct Life {
    create: Sample,
    recycle: Sample,
    reinit: Sample,
    create_run_delete: Sample,
}

impl Life {
    fn values(&self) -> Vec<f64> {
        let Self {
            create,
            recycle,
            reinit,
            create_run_delete,
        } = self;
        vec![
            create.nanos() / 1e3,
            recycle.nanos() / 1e3,
            reinit.ticks_each(),
            create_run_delete.nanos(),
        ]
    }
}

const SIDES: &[Side] = &[
    ours::ASM,
    ours::SJLJ,
    ours::MCSC,
    coro::SIDE,
    gener::SIDE,
    #[cfg(boost_context)]
    boost::SIDE,
];

/// The metrics of this bench.
fn metrics() -> impl Iterator<Item = &'static Metric> {
    [SWITCH, RING, LIFE].into_iter().flatten()
}

/// The contexts of the paper's Table 2, and the hundred of Tables 3 to 5.
const USUAL: &[&str] = &["contexts=2", "contexts=100"];

/// For the catalogue.
pub(crate) fn about() -> About {
    About {
        name: "uth",
        title: "The tables of the UthLib paper: switch, creation, recycling, re-initialisation",
        ours: OURS,
        metrics: metrics().collect(),
        params: &["contexts", "depth"],
        sections: SECTIONS,
        graphs: &[],
        usual: USUAL,
        share: 3,
        arguments: &[],
        run,
    }
}

/// Runs the bench.
fn run(plan: Plan, options: &Options) -> Result<Report> {
    let cpu = harness::cpu::allowed()?[0];
    let mut cases = Vec::new();
    // The sides of a comparison have their turns next to each other: the machine may be another a
    // second later.
    for contexts in [2, 16, 4096] {
        let case = |depth, side: &Side, metrics, switches| {
            switch_case(side.name, metrics, contexts, depth, switches, cpu)
        };
        cases.extend(
            SIDES
                .iter()
                .map(|side| case("shallow", side, SWITCH, side.shallow)),
        );
        cases.extend(
            SIDES
                .iter()
                .map(|side| case("deep", side, SWITCH, side.deep)),
        );
        cases.extend(
            SIDES
                .iter()
                .filter_map(|side| Some(case("shallow", side, RING, side.ring_shallow?))),
        );
        cases.extend(
            SIDES
                .iter()
                .filter_map(|side| Some(case("deep", side, RING, side.ring_deep?))),
        );
    }
    for side in SIDES {
        let life = side.life;
        let turn = Box::new(move |budget| Ok(life(budget)?.values()));
        cases.push(Case {
            name: side.name,
            params: params(HUNDRED, "shallow"),
            metrics: LIFE,
            cpu,
            length: 1,
            turn,
        });
    }
    if cfg!(not(boost_context)) && options.choice.takes_case("boost-context") {
        options.notes.say(
            "boost-context: no row: Boost.Context was not found when this was built (Debian: \
             libboost-context-dev)",
        );
    }
    harness::run("uth", cases, plan, options)
}

fn switch_case(
    name: &'static str,
    metrics: &'static [Metric],
    contexts: usize,
    depth: &'static str,
    switches: Switches,
    cpu: usize,
) -> Case {
    let turn = Box::new(move |budget| {
        let sample = switches(contexts, budget)?;
        Ok(vec![sample.ticks_each(), sample.nanos()])
    });
    Case {
        name,
        params: params(contexts, depth),
        metrics,
        cpu,
        length: 1,
        turn,
    }
}

fn params(contexts: usize, depth: &str) -> Params {
    [
        ("contexts".to_owned(), contexts.into()),
        ("depth".to_owned(), depth.into()),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_switches_and_lives() {
        // Each on a thread of its own, as in the bench.
        std::thread::scope(|scope| {
            SIDES
                .iter()
                .for_each(|side| drop(scope.spawn(move || check(side))))
        });
    }

    fn check(side: &Side) {
        let short = Duration::from_millis(1);
        for contexts in [2, 3, 64] {
            assert!(
                (side.shallow)(contexts, short).unwrap().operations > 0,
                "{}",
                side.name
            );
            assert!(
                (side.deep)(contexts, short).unwrap().operations > 0,
                "{}",
                side.name
            );
            for ring in side.ring_shallow.iter().chain(&side.ring_deep) {
                let sample = ring(contexts, short).unwrap();
                assert!(
                    sample.operations > 0 && sample.operations % contexts as u64 == 0,
                    "{}",
                    side.name
                );
            }
        }
        let values = (side.life)(short).unwrap().values();
        assert_eq!(values.len(), LIFE.len());
        assert!(
            values.iter().all(|value| value.is_finite() && *value > 0.0),
            "{}: {values:?}",
            side.name
        );
    }
}
