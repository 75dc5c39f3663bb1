//! The benches behind `umcg bench`: each sets ours beside the peers, side by side in one run.
//!
//! A bench is a list of [`harness::Case`]s. The [`harness`] runs them in alternating rounds on
//! pinned threads. It turns their measurements into one [`harness::Report`], which can be printed
//! as a table, as JSON or as a picture. So a bench itself only contains one round of each side; see
//! [`switch`] for the smallest example.

pub mod block;
pub mod compare;
pub mod harness;
pub mod rt;
pub mod run;
pub mod scale;
pub mod switch;
pub mod sync;
pub mod uth;

use harness::Metric;

/// The text that one has to know of a bench to read its report.
#[derive(Clone, Debug)]
pub struct About {
    /// As in `umcg bench NAME`.
    pub name: &'static str,
    /// The cases that are ours.
    pub ours: &'static [&'static str],
    /// Its metrics.
    pub metrics: Vec<&'static Metric>,
}

/// All benches.
pub fn catalogue() -> Vec<About> {
    let switch = About {
        name: "switch",
        ours: switch::OURS,
        metrics: switch::METRICS.iter().collect(),
    };
    let uth = About {
        name: "uth",
        ours: uth::OURS,
        metrics: uth::metrics().collect(),
    };
    let rt = About {
        name: "rt",
        ours: rt::OURS,
        metrics: rt::metrics().collect(),
    };
    let run = About {
        name: "run",
        ours: run::OURS,
        metrics: run::METRICS.iter().collect(),
    };
    let block = About {
        name: "block",
        ours: block::OURS,
        metrics: block::METRICS.iter().collect(),
    };
    let scale = About {
        name: "scale",
        ours: scale::OURS,
        metrics: scale::METRICS.iter().collect(),
    };
    let about = |bench: &&sync::Bench| About {
        name: bench.name,
        ours: sync::OURS,
        metrics: bench.metrics().collect(),
    };
    [switch, uth, rt, run, block, scale]
        .into_iter()
        .chain(sync::BENCHES.iter().map(about))
        .collect()
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
        }
    }
}
