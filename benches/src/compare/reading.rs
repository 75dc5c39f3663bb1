//! What a run of a build printed. Builds of other times print more, or less: only what is needed is
//! asked for.

use crate::harness::{Params, name};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// What tells a row from others. A metric in another unit is another one.
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
    /// What `--only` finds it by.
    pub fn name(&self) -> String {
        name(&self.case, &self.params, &self.metric)
    }
}

#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    median: f64,
}

#[derive(Deserialize)]
struct Printed {
    bench: String,
    rows: Vec<Line>,
}

/// The figures of a run.
#[derive(Debug)]
pub(super) struct Reading(Vec<(Key, f64)>);

impl Reading {
    pub(super) fn of(text: &str, bench: &str) -> Result<Self> {
        let printed: Printed = serde_json::from_str(text).context("not the JSON that was expected")?;
        ensure!(printed.bench == bench, "it is of bench {}", printed.bench);
        Ok(Self(printed.rows.into_iter().map(|line| (line.key, line.median)).collect()))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn figure(&self, key: &Key) -> Option<f64> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, figure)| *figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_asked_for() {
        let text = r#"{"bench": "switch", "more": 1, "rows": [{"case": "uth", "params": {"cpus": 1}, "metric": "m", "unit": "ns",
                       "median": 4.5, "new": []}]}"#;
        let reading = Reading::of(text, "switch").unwrap();
        let key = reading.keys().next().unwrap().clone();
        assert_eq!((key.name().as_str(), reading.figure(&key)), ("uth cpus=1 m", Some(4.5)));
        assert_eq!(reading.figure(&Key { unit: "us".into(), ..key }), None);
        assert!(Reading::of(text, "uth").unwrap_err().to_string().contains("bench switch"));
        assert!(Reading::of("", "switch").is_err() && Reading::of("{}", "switch").is_err());
    }
}
