//! The findings, for people and for programs.

use super::interval::place;
use super::{Comparison, Figure, Row, Unjudged, Verdict, with};
use crate::harness::{describe, number};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

impl Comparison {
    /// The one object that `--json` prints.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = self.head();
        if !self.rows.is_empty() {
            text += &format!("\n{}\n", table(&self.rows));
        }
        text += &summary(&self.rows, self.tolerance);
        if with(&self.rows, Verdict::Unclear).next().is_some() {
            text += "For those that are unclear there have to be more pairs, longer runs or a \
                quieter machine.\n";
        }
        text += &not_judged(&self.not_judged);
        if !self.failures.is_empty() {
            text += "\nRuns that failed, and were made again:\n";
            text.extend(
                self.failures
                    .iter()
                    .map(|failure| format!("  {}\n", failure.reason)),
            );
        }
        text
    }

    fn head(&self) -> String {
        let machine = &self.machine;
        let figure = match self.figure {
            Figure::Median => "Of a run counts the median of its rounds.",
            Figure::Best => "Of a run counts its best round.",
        };
        let confidence = place(self.pairs).map_or(0.0, |(_, confidence)| confidence * 100.0);
        format!(
            "bench {}: {}, {} CPUs, Linux {}\nA: {}\nB: {}\nWhat B costs in what A costs, above 1 \
             for worse: the median of {} pairs \
             of runs, and an\ninterval that holds the true one with \
             {confidence:.1} % confidence. {figure}\n",
            self.bench,
            machine.cpu,
            machine.cpus,
            machine.kernel,
            self.builds[0].display(),
            self.builds[1].display(),
            self.pairs,
        )
    }
}

pub(super) fn not_judged(rows: &[Unjudged]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let lines = rows
        .iter()
        .map(|row| format!("  {}: {}\n", row.name(), row.reason));
    "\nNot judged:\n".to_owned() + &lines.collect::<String>()
}

pub(super) fn table(rows: &[Row]) -> Table {
    let has_bench = rows.iter().any(|row| row.bench.is_some());
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    let bench = has_bench.then_some("bench");
    table.set_header(bench.into_iter().chain([
        "case",
        "parameters",
        "metric",
        "A",
        "B",
        "unit",
        "B costs",
        "from",
        "to",
        "verdict",
    ]));
    for row in rows {
        let bench = has_bench.then(|| row.bench.clone().unwrap_or_default());
        table.add_row(bench.into_iter().chain(cells(row)));
    }
    for column in [3, 4, 6, 7, 8] {
        if let Some(column) = table.column_mut(column + usize::from(has_bench)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &Row) -> Vec<String> {
    let figures = [row.cost.median, row.cost.low, row.cost.high];
    let key = &row.key;
    let mut cells = vec![
        key.case.clone(),
        describe(&key.params),
        key.metric.clone(),
        number(row.a),
        number(row.b),
        key.unit.clone(),
    ];
    cells.extend(figures.map(|ratio| format!("{ratio:.3}")));
    cells.push(verdict(row));
    cells
}

pub(super) fn summary(rows: &[Row], tolerance: f64) -> String {
    let count = |verdict| with(rows, verdict).count();
    let [worse, better, same, unclear] = [
        Verdict::Worse,
        Verdict::Better,
        Verdict::Same,
        Verdict::Unclear,
    ]
    .map(count);
    let percent = number(tolerance * 100.0);
    let mut text = format!(
        "By more than {percent} %: {worse} worse, {better} better; {same} the same; {unclear} \
         unclear.\n"
    );
    if worse > 0 {
        text += "Those that are worse, to be measured by themselves:\n";
        text.extend(with(rows, Verdict::Worse).map(|row| format!("  --only \"{}\"\n", row.name())));
    }
    text
}

/// In a few words.
pub(super) fn verdict(row: &Row) -> String {
    let percent = number((row.cost.median - 1.0).abs() * 100.0);
    match (row.verdict, row.first) {
        (Verdict::Worse, _) => format!("worse by {percent} %"),
        (Verdict::Better, _) => format!("better by {percent} %"),
        (verdict, None) => verdict.word().to_owned(),
        (verdict, Some(_)) => format!("{}; looked worse at first", verdict.word()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Failure, Key};
    use super::*;
    use crate::compare::Interval;
    use crate::harness::{Better, Machine};

    fn row(case: &str, low: f64, high: f64) -> Row {
        let params = [("cpus".to_owned(), 1.into())].into_iter().collect();
        let key = Key {
            case: case.into(),
            params,
            metric: "hop".into(),
            unit: "ns".into(),
        };
        let cost = Interval {
            median: (low + high) / 2.0,
            low,
            high,
            confidence: 0.96,
            count: 15,
        };
        Row {
            bench: None,
            key,
            better: Better::Lower,
            a: 10.0,
            b: 12.5,
            cost,
            verdict: Verdict::of(&cost, 0.03),
            first: None,
        }
    }

    pub(in super::super) fn sample() -> Comparison {
        let mut rows = vec![
            row("slow", 1.1, 1.3),
            row("fast", 0.8, 0.9),
            row("even", 0.99, 1.01),
            row("noisy", 0.5, 2.0),
        ];
        rows[2].first = Some(rows[0].cost);
        let gone = Unjudged {
            bench: None,
            key: row("gone", 1.0, 1.0).key,
            reason: "only A has it".into(),
        };
        Comparison {
            bench: "switch",
            machine: Machine {
                cpus: 2,
                kernel: "6.1".into(),
                cpu: "A CPU".into(),
            },
            builds: ["/old/umcg".into(), "/new/umcg".into()],
            pairs: 15,
            figure: Figure::Best,
            tolerance: 0.03,
            rows,
            not_judged: vec![gone],
            failures: vec![Failure {
                build: 'B',
                reason: "B failed: exit status: 3".into(),
            }],
        }
    }

    #[test]
    fn people_read_a_table_and_what_follows_from_it() {
        let text = sample().to_text();
        for part in [
            "15 pairs of runs",
            "96.5 % confidence",
            "its best round",
            "worse by 20.0 %",
            "better by 15.0 %",
            "same; looked worse at first",
            "By more than 3.00 %: 1 worse, 1 better; 1 the same; 1 unclear.",
            "--only \"slow cpus=1 hop\"",
            "gone cpus=1 hop: only A has it",
            "B failed: exit status: 3",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn programs_read_json() {
        let json: serde_json::Value = serde_json::from_str(&sample().to_json().unwrap()).unwrap();
        assert_eq!(json["rows"][0]["verdict"], "worse");
        assert_eq!(
            (&json["rows"][0]["case"], &json["figure"]),
            (&"slow".into(), &"best".into())
        );
        assert_eq!(json["rows"][0]["better"], "lower");
        assert_eq!(json["rows"][0]["cost"]["low"], 1.1);
        assert_eq!(json["rows"][2]["first"]["high"], 1.3);
        assert!(json["rows"][0].get("first").is_none());
        assert_eq!(json["not_judged"][0]["reason"], "only A has it");
        assert_eq!(json["failures"][0]["build"], "B");
    }
}
