//! The output of a run of a build. Builds of other times print more, or less: only the necessary
//! members are asked for.

use crate::harness::{Better, Params, name};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The members that tell a row from others. A metric in another unit is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The case.
    pub case: String,
    /// Its parameters.
    pub params: Params,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
}

impl Key {
    /// The text in which `--only` looks for its pattern.
    pub fn name(&self) -> String {
        name(&self.case, &self.params, &self.metric)
    }
}

/// Which figure of a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The median of its rounds.
    Median,
    /// That of its best round, which was disturbed least.
    Best,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    median: f64,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Deserialize)]
struct Printed {
    bench: String,
    rows: Vec<Line>,
}

/// The figures of a run.
#[derive(Debug)]
pub(super) struct Reading(Vec<Line>);

impl Reading {
    pub(super) fn of(text: &str, bench: &str) -> Result<Self> {
        let printed: Printed =
            serde_json::from_str(text).context("not the JSON that was expected")?;
        ensure!(printed.bench == bench, "it is of bench {}", printed.bench);
        Ok(Self(printed.rows))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|line| &line.key)
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.keys().any(|own| own == key)
    }

    pub(super) fn figure(&self, key: &Key, figure: Figure, better: Better) -> Option<f64> {
        let line = self.0.iter().find(|line| line.key == *key)?;
        match (figure, better) {
            (Figure::Median, _) => Some(line.median),
            (Figure::Best, Better::Lower) => line.min,
            (Figure::Best, Better::Higher) => line.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_asked_for() {
        let text = r#"{"bench": "switch", "more": 1, "rows": [{"case": "uth", "params": {"cpus": 1},
                       "metric": "m", "unit": "ns", "median": 4.5, "min": 4, "new": []}]}"#;
        let reading = Reading::of(text, "switch").unwrap();
        let key = reading.keys().next().unwrap().clone();
        let figure = |figure, better| reading.figure(&key, figure, better);
        assert_eq!(
            (key.name().as_str(), figure(Figure::Median, Better::Lower)),
            ("uth cpus=1 m", Some(4.5))
        );
        assert_eq!(figure(Figure::Best, Better::Lower), Some(4.0));
        assert_eq!(figure(Figure::Best, Better::Higher), None, "it did not say");
        assert!(
            reading.has(&key)
                && !reading.has(&Key {
                    unit: "us".into(),
                    ..key
                })
        );
        assert!(
            Reading::of(text, "uth")
                .unwrap_err()
                .to_string()
                .contains("bench switch")
        );
        assert!(Reading::of("", "switch").is_err() && Reading::of("{}", "switch").is_err());
    }
}
