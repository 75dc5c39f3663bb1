//! `umcg doctor`: the features of this machine that umcg would use, and its substitute where one is
//! missing.

mod probe;
mod run;
mod runtime;

use crate::output;
use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use umcg_benches::harness::Machine;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Whether a feature can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Yes,
    No,
    /// Usable within bounds that the detail names.
    Limited,
    /// No feature but a figure that matters.
    Info,
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    feature: &'static str,
    state: State,
    /// The finding.
    detail: String,
    /// Its effect on umcg, or umcg's substitute.
    effect: &'static str,
}

#[derive(Serialize)]
struct Diagnosis {
    doctor: &'static str,
    machine: Machine,
    features: Vec<Finding>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let features = all();
    let diagnosis = Diagnosis {
        doctor: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        features,
    };
    if args.json {
        return output::print((serde_json::to_string_pretty(&diagnosis)? + "\n").as_bytes());
    }
    let Machine { cpu, cpus, kernel } = &diagnosis.machine;
    let text = format!(
        "{cpu}, {cpus} CPUs, Linux {kernel}\n{}\n",
        table(&diagnosis.features)
    );
    output::print(text.as_bytes())
}

fn all() -> Vec<Finding> {
    let mut all = probe::all();
    all.extend(runtime::all());
    all.extend(run::all());
    all
}

fn table(features: &[Finding]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(140);
    }
    table.set_header(["feature", "state", "found", "what umcg does"]);
    for Finding {
        feature,
        state,
        detail,
        effect,
    } in features
    {
        let state = format!("{state:?}").to_lowercase();
        table.add_row([*feature, state.trim_start_matches("info"), detail, effect]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_looked_at() {
        let all = all();
        assert!(all.len() >= 18);
        for name in ["membarrier", "I/O of the runtime", "storage of their own"] {
            assert!(all.iter().any(|finding| finding.feature == name), "{name}");
        }
        for finding in &all {
            assert!(
                !finding.feature.is_empty()
                    && !finding.detail.is_empty()
                    && !finding.effect.is_empty(),
                "{finding:?}"
            );
        }
        let text = table(&all).to_string();
        assert!(
            all.iter()
                .all(|finding| text.contains(finding.feature.split(' ').next().unwrap()))
        );
    }
}
