//! The benches behind `umcg bench`: each sets ours beside the peers, side by side in one run.
//!
//! A bench is a list of [`harness::Case`]s. The [`harness`] runs them in alternating rounds on
//! pinned threads. It turns their measurements into one [`harness::Report`], which can be printed
//! as a table, as JSON or as a picture. So a bench itself only contains one round of each side; see
//! [`switch`] for the smallest example.

pub mod all;
pub mod block;
pub mod compare;
pub mod harness;
pub mod rt;
pub mod run;
pub mod scale;
pub mod switch;
pub mod sync;
pub mod uth;

use anyhow::Result;
use harness::{Graph, Metric, Options, Plan, Report, Section};

/// A bench.
#[derive(Clone, Debug)]
pub struct About {
    /// As in `umcg bench NAME`.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// The cases that are ours.
    pub ours: &'static [&'static str],
    /// Its metrics.
    pub metrics: Vec<&'static Metric>,
    /// The names of its parameters.
    pub params: &'static [&'static str],
    /// How its report is shown.
    pub sections: &'static [Section],
    /// How those of its rows are drawn that have boxes.
    pub graphs: &'static [Graph],
    /// The rows that are measured where none is asked for, as in [`harness::Choice`]; all if there
    /// are none.
    pub usual: &'static [&'static str],
    /// Its part of the time of `umcg bench all`, beside the others' parts.
    pub share: u32,
    /// The arguments of this program that make it a child of the bench.
    pub arguments: &'static [&'static str],
    /// Runs it.
    pub run: fn(Plan, &Options) -> Result<Report>,
}

/// All benches, in the order of `umcg bench all`.
pub fn catalogue() -> Vec<About> {
    vec![
        switch::about(),
        uth::about(),
        rt::about(),
        run::about(),
        block::about(),
        scale::about(),
        sync::SEM.about(16, |plan, options| sync::SEM.run(plan, options)),
        sync::ALTSEMS.about(4, |plan, options| sync::ALTSEMS.run(plan, options)),
        sync::TUBE.about(14, |plan, options| sync::TUBE.run(plan, options)),
        sync::SELECT.about(7, |plan, options| sync::SELECT.run(plan, options)),
        sync::WAITV.about(6, |plan, options| sync::WAITV.run(plan, options)),
    ]
}

/// The bench of this name.
pub fn bench(name: &str) -> Option<About> {
    catalogue().into_iter().find(|bench| bench.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_of_the_catalogue_has_a_name_and_metrics_of_its_own() {
        let all = catalogue();
        for (place, bench) in all.iter().enumerate() {
            assert!(
                !bench.ours.is_empty() && !bench.metrics.is_empty(),
                "{}",
                bench.name
            );
            assert!(
                all[..place].iter().all(|other| other.name != bench.name),
                "{}",
                bench.name
            );
            assert!(bench.share > 0 && !bench.title.is_empty(), "{}", bench.name);
            let is_known = |name: &&&str| harness::words::meaning(name).is_some();
            assert!(
                bench.params.iter().all(|it| is_known(&it)),
                "{}",
                bench.name
            );
            let shown: Vec<&str> = bench.sections.iter().map(|it| it.metric).collect();
            assert!(
                bench.graphs.iter().all(|it| shown.contains(&it.metric)),
                "{}",
                bench.name
            );
        }
    }
}
