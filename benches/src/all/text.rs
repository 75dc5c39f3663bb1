//! The summary for standard output, and the JSON.

use super::tally::{Tally, unmet};
use super::{All, Done};
use crate::harness::{Report, judge};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// In words, to the second, or to a tenth of a minute.
pub(super) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.1} min", seconds / 60.0),
    }
}

impl Done {
    /// In a few words.
    pub(super) fn words(&self) -> String {
        match &self.report {
            Err(reason) => format!("failed: {reason}"),
            Ok(report) => {
                let bars = Tally::sum(report, &self.about).words();
                let rows = format!("{} rows in {}", report.rows.len(), time(self.took));
                if bars.is_empty() {
                    rows
                } else {
                    format!("{rows}; bars: {bars}")
                }
            }
        }
    }
}

impl All {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let machine = &self.machine;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}, {} CPUs, Linux {}; up to {} rounds, in {}. {}\n",
            machine.cpu,
            machine.cpus,
            machine.kernel,
            self.rounds,
            time(self.took),
            judge::RULE
        );
        for done in &self.done {
            let _ = writeln!(text, "{:<8} {}", done.about.name, done.words());
            let Ok(report) = &done.report else { continue };
            for it in done.about.sections.iter().flat_map(|it| unmet(report, it)) {
                let _ = writeln!(text, "    {}: {}", it.outcome, it.text);
            }
        }
        text
    }

    /// The one object that `--json` prints.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Printed<'a> {
            bench: &'static str,
            machine: &'a crate::harness::Machine,
            facts: serde_json::Map<String, serde_json::Value>,
            seconds: f64,
            reports: Vec<&'a Report>,
            failures: Vec<serde_json::Value>,
        }
        let reports = self
            .done
            .iter()
            .filter_map(|done| done.report.as_ref().ok());
        let failures = self.done.iter().filter_map(|done| {
            let reason = done.report.as_ref().err()?;
            Some(json!({"bench": done.about.name, "reason": reason}))
        });
        let facts = self.facts.0.iter();
        serde_json::to_string_pretty(&Printed {
            bench: "all",
            machine: &self.machine,
            facts: facts
                .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                .collect(),
            seconds: self.took.as_secs_f64(),
            reports: reports.collect(),
            failures: failures.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn people_read_a_summary() {
        let text = super::super::tests::run(&["good", "bad"], 15).to_text();
        for part in [
            "good     6 rows in 0 s; bars: 1 met, 1 missed",
            "    missed: cost, umcg (cpus 2): at most 10, and the median is 11.1 ns",
            "bad      failed: it cannot be & will not be",
            "a verdict needs 15 rounds",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn programs_read_json() {
        let all = super::super::tests::run(&["good", "bad"], 15);
        let json: Value = serde_json::from_str(&all.to_json().unwrap()).unwrap();
        assert_eq!(json["bench"], "all");
        assert_eq!(json["reports"][0]["bench"], "good");
        assert_eq!(json["reports"][0]["rows"].as_array().unwrap().len(), 6);
        assert_eq!(json["failures"][0]["bench"], "bad");
        assert!(json["facts"]["Kernel"].is_string());
    }

    #[test]
    fn times_are_short() {
        assert_eq!(time(Duration::from_millis(2400)), "2 s");
        assert_eq!(time(Duration::from_secs(570)), "9.5 min");
    }
}
