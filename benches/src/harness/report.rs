//! The findings of a bench, in the shape that `--json` prints.

use super::table::{number, text};
use super::{Better, Machine, Metric, Params, Relation, Summary, Tukey};
use serde::Serialize;
use serde_json::Value;

/// The parameters that tell variants of one case apart. Cases that have not all of them are
/// compared with each variant.
const VARIANTS: [&str; 3] = ["kind", "order", "object"];

/// Parameters in words.
pub(crate) fn describe(params: &Params) -> String {
    let words: Vec<String> = params
        .iter()
        .map(|(key, value)| format!("{key} {}", text(value)))
        .collect();
    words.join(", ")
}

/// One figure of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case's stable name.
    pub case: &'static str,
    /// Its parameters.
    pub params: Params,
    /// The metric's stable name.
    pub metric: &'static str,
    /// The metric's unit.
    pub unit: &'static str,
    /// The middle value of the rounds.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// A quarter of the rounds is below it.
    pub q1: f64,
    /// A quarter of the rounds is above it.
    pub q3: f64,
    /// How many rounds.
    pub runs: usize,
    /// The value of each, in their order.
    pub values: Vec<f64>,
    /// Which direction is good.
    #[serde(skip)]
    pub better: Better,
    /// Where every operation was measured by itself: all of them, of all rounds together.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub tukey: Option<Tukey>,
    /// Then also the step of the clock that did it, in nanoseconds. A smaller median is below what
    /// the clock can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
}

impl Row {
    /// Of the values of the rounds; `None` if there are none, or one that is not finite.
    pub(crate) fn new(
        case: &'static str,
        params: Params,
        metric: &Metric,
        values: Vec<f64>,
    ) -> Option<Self> {
        let Summary {
            median,
            min,
            max,
            q1,
            q3,
            runs,
        } = Summary::of(&values)?;
        let Metric { name, unit, better } = *metric;
        Some(Self {
            case,
            params,
            metric: name,
            unit,
            median,
            min,
            max,
            q1,
            q3,
            runs,
            values,
            better,
            tukey: None,
            step: None,
        })
    }

    /// The parameters that make rows comparable: all but the variant.
    pub(crate) fn group(&self) -> Params {
        let shared = |(key, _): &(&String, &Value)| !VARIANTS.contains(&key.as_str());
        self.params
            .iter()
            .filter(shared)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    fn variant(&self) -> impl Iterator<Item = (&str, &Value)> {
        VARIANTS
            .iter()
            .filter_map(|key| Some((*key, self.params.get(*key)?)))
    }

    /// The case and its variant.
    pub(crate) fn label(&self) -> String {
        let words = self.variant().filter_map(|(_, value)| value.as_str());
        [self.case]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The median for people, or that it is below the clock's step.
    pub(crate) fn figure(&self) -> String {
        match self.step {
            Some(step) if self.median < step => format!("< {}", number(step)),
            _ => number(self.median),
        }
    }

    /// How far apart the rounds were, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.max - self.min) / self.median
        }
    }
}

/// The result of a bench.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The bench's name.
    pub bench: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// Its findings, in the order of the cases.
    pub rows: Vec<Row>,
    /// The rows that are missing, and why; a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The cases that failed; more than once those of which several rows are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<&'static str>,
}

impl Report {
    /// The row of another case or metric with the same parameters. A case without variants is
    /// beside all variants of another, and one with some is beside those that are the same in
    /// these.
    pub fn beside(&self, row: &Row, case: &str, metric: &str) -> Option<&Row> {
        let group = row.group();
        let fits = |other: &&Row| {
            let same = other.case == case && other.metric == metric && other.group() == group;
            same && other
                .variant()
                .all(|(key, value)| row.params.get(key) == Some(value))
        };
        self.rows
            .iter()
            .filter(fits)
            .max_by_key(|other| other.params.len())
    }

    /// How many times as fast as `reference` a row is, by the medians.
    pub fn ratio(&self, row: &Row, reference: &str) -> Option<f64> {
        let reference = self.beside(row, reference, row.metric)?;
        let ratio = match row.better {
            Better::Higher => row.median / reference.median,
            Better::Lower => reference.median / row.median,
        };
        ratio.is_finite().then_some(ratio)
    }

    /// How a row stands beside `reference`; `None` without that row, and for one beside itself.
    pub fn relation(&self, row: &Row, reference: &str) -> Option<Relation> {
        let reference = self.beside(row, reference, row.metric)?;
        (reference.case != row.case).then(|| Relation::of(row, reference))?
    }

    /// The one object that `--json` prints.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    fn params(cpus: u64) -> Params {
        [("cpus".to_owned(), Value::from(cpus))]
            .into_iter()
            .collect()
    }

    pub(crate) fn sample() -> Report {
        let trips = Metric {
            name: "round_trips",
            unit: "1/s",
            better: Better::Higher,
        };
        let cost = Metric {
            name: "cost",
            unit: "ns",
            better: Better::Lower,
        };
        let row = |case, cpus, metric: &Metric, median: f64| {
            let values = [0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.1].map(|part| part * median);
            Row::new(case, params(cpus), metric, values.to_vec()).unwrap()
        };
        Report {
            bench: "switch",
            machine: Machine {
                cpus: 2,
                kernel: "6.1".into(),
                cpu: "A CPU".into(),
            },
            rows: vec![
                row("futex", 1, &trips, 1000.0),
                row("futex", 2, &trips, 500.0),
                row("uth", 1, &trips, 250_000.0),
                row("futex", 1, &cost, 100.0),
                row("uth", 1, &cost, 4.0),
            ],
            notes: Vec::new(),
            failed: Vec::new(),
        }
    }

    #[test]
    fn json_has_the_documented_shape() {
        let report = sample();
        let parsed: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(parsed["bench"], "switch");
        assert_eq!(
            parsed["machine"],
            json!({"cpus": 2, "kernel": "6.1", "cpu": "A CPU"})
        );
        assert_eq!(
            parsed["rows"][0],
            json!({"case": "futex", "params": {"cpus": 1}, "metric": "round_trips", "unit": "1/s",
                   "median": 1000.0, "min": 900.0, "max": 1100.0, "q1": 1000.0, "q3": 1000.0,
                   "runs": 7,
                   "values": [900.0, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 1100.0]})
        );
    }

    #[test]
    fn variants_are_compared_with_cases_that_have_none() {
        let mut report = sample();
        report.rows[2]
            .params
            .insert("kind".to_owned(), "light".into());
        let variant = &report.rows[2];
        assert_eq!(report.ratio(variant, "futex"), Some(250.0));
        assert_eq!(report.ratio(&report.rows[0], "uth"), None, "which of them?");
        assert_eq!(
            (variant.label(), variant.group()),
            ("uth light".to_owned(), report.rows[0].params.clone())
        );
        assert_eq!(describe(&variant.params), "cpus 1, kind light");
    }

    #[test]
    fn variants_are_compared_in_what_they_share() {
        let mut report = sample();
        let mut set = |row: usize, key: &str, value: &str| {
            report.rows[row].params.insert(key.to_owned(), value.into())
        };
        set(0, "kind", "worker");
        set(2, "kind", "worker");
        set(2, "order", "strong");
        assert_eq!(report.ratio(&report.rows[2], "futex"), Some(250.0));
        assert_eq!(report.rows[2].label(), "uth worker strong");
        report.rows[0]
            .params
            .insert("kind".to_owned(), "thread".into());
        assert_eq!(
            report.ratio(&report.rows[2], "futex"),
            None,
            "of another kind"
        );
    }

    #[test]
    fn a_median_below_the_clocks_step_is_no_figure() {
        let mut row = sample().rows.remove(4);
        assert_eq!(row.figure(), "4.00");
        row.step = Some(10.0);
        assert_eq!(row.figure(), "< 10.0");
        row.step = Some(0.4);
        assert_eq!(row.figure(), "4.00");
    }

    #[test]
    fn boxes_are_there_where_there_are_some() {
        let mut report = sample();
        report.rows[0].tukey =
            crate::harness::Spread::of(vec![1.0, 2.0]).and_then(|spread| Tukey::of(&[spread]));
        let parsed: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(parsed["rows"][0]["box"]["samples"], 2);
        assert!(parsed["rows"][1].get("box").is_none());
    }

    #[test]
    fn ratios_are_taken_between_rows_of_the_same_parameters() {
        let report = sample();
        assert_eq!(report.ratio(&report.rows[2], "futex"), Some(250.0));
        assert_eq!(
            report.ratio(&report.rows[4], "futex"),
            Some(25.0),
            "a lower cost is a higher ratio"
        );
        assert_eq!(report.ratio(&report.rows[1], "uth"), None);
        assert!((report.rows[0].spread() - 0.2).abs() < 1e-9);
    }
}
