//! Two files that `--json` printed, of one bench or of `umcg bench all`: rows matched by name.
//!
//! The ratio of a row is that of the two medians, and its interval comes from the intervals of both
//! ([`interval`](super::interval)), each of which must hold its median with 97.5 %: if both do,
//! which is at least 95 %, the true ratio is between the quotients of opposite ends. Files of old
//! builds have no rounds, only the smallest and the largest; their quotients are the range, and
//! nothing says how often such a range holds the truth.
//!
//! This is weaker than `--builds`: the runs were at different times, and what the machine did then
//! is in the ratio. The rounds of a run do not show it.

use super::forest::Forest;
use super::interval::Interval;
use super::report::{not_judged, summary, table};
use super::{Key, Row, Unjudged, Verdict, verdict, with};
use crate::harness::{Asked, Better, Choice, Pattern};
use crate::{About, catalogue};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const EXPLANATION: &str = "\
What B costs in what A costs, above 1 for worse: the medians, and an interval from the rounds of
both that holds the true ratio with at least 95 % confidence, as far as the rounds show it: the
files are of two times, and a machine changes.
";

/// Of each of the two medians.
const CONFIDENCE: f64 = 0.975;

/// The findings.
#[derive(Clone, Debug, Serialize)]
pub struct Files {
    /// A and B.
    pub files: [PathBuf; 2],
    /// What makes them differ beside the figures.
    pub warnings: Vec<String>,
    /// The fraction.
    pub tolerance: f64,
    /// The rows that both have.
    pub rows: Vec<Row>,
    /// How many of these are judged by the smallest and largest round alone.
    pub by_range: usize,
    /// The others.
    pub not_judged: Vec<Unjudged>,
}

/// A row as it is printed.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    median: f64,
    min: f64,
    max: f64,
    #[serde(default)]
    runs: usize,
    #[serde(default)]
    values: Vec<f64>,
}

/// The report of a bench.
#[derive(Clone, Debug, Deserialize)]
struct Printed {
    bench: String,
    machine: Value,
    rows: Vec<Line>,
}

/// Compares two files.
pub fn compare(files: [&Path; 2], tolerance: f64, only: &[Pattern]) -> Result<Files> {
    let [a, b] = files;
    let reports = [
        read(a).with_context(|| format!("A: {}", a.display()))?,
        read(b).with_context(|| format!("B: {}", b.display()))?,
    ];
    let mut found = Files {
        files: files.map(Path::to_owned),
        warnings: warnings(&reports),
        tolerance,
        rows: Vec::new(),
        by_range: 0,
        not_judged: Vec::new(),
    };
    let [a, b] = &reports;
    let several = a.len() > 1 || b.len() > 1;
    let is_bench = |name: &str| crate::bench(name).is_some();
    let mut is_shared = false;
    for one in a {
        let Some(other) = b.iter().find(|other| other.bench == one.bench) else {
            continue;
        };
        is_shared = true;
        let Some(only) = Asked::of(only, &one.bench, is_bench) else {
            continue;
        };
        let choice = Choice {
            only,
            ..Choice::default()
        };
        found.bench([one, other], several, &choice);
    }
    ensure!(
        is_shared,
        "the files have no bench in common: A is of {}, and B of {}",
        names(a),
        names(b)
    );
    ensure!(
        !found.rows.is_empty(),
        "the files have no row in common that can be judged{}",
        super::list(&found.not_judged)
    );
    Ok(found)
}

fn names(reports: &[Printed]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| &*report.bench).collect();
    names.join(", ")
}

/// The reports of a file: one, or those of `bench all`.
fn read(file: &Path) -> Result<Vec<Printed>> {
    let text = fs::read_to_string(file)?;
    let whole: Value = serde_json::from_str(&text).context("no JSON, or not all of it")?;
    ensure!(
        whole.get("builds").is_none() && whole.get("files").is_none(),
        "it is a comparison already: compare what `umcg bench NAME --json` prints"
    );
    let is_ours = whole.get("bench").is_some_and(Value::is_string);
    ensure!(
        is_ours,
        "it is not what `umcg bench NAME --json` prints: there is no bench in it"
    );
    let reports = match whole.get("reports") {
        Some(reports) => serde_json::from_value(reports.clone()),
        None => serde_json::from_value(whole).map(|report| vec![report]),
    };
    let reports: Vec<Printed> = reports.context("its rows are not those of a bench of umcg")?;
    if reports.iter().all(|report| report.rows.is_empty()) {
        bail!("there is no row in it");
    }
    Ok(reports)
}

/// Figures of two machines differ by the machines.
fn warnings([a, b]: &[Vec<Printed>; 2]) -> Vec<String> {
    let of = |reports: &[Printed], key: &str| {
        let machine = reports.first().map(|report| &report.machine);
        machine.and_then(|machine| machine.get(key)).map_or_else(
            || "unknown".to_owned(),
            |value| value.as_str().map_or(value.to_string(), str::to_owned),
        )
    };
    let keys = [
        ("cpu", "processor"),
        ("cpus", "number of CPUs"),
        ("kernel", "kernel"),
    ];
    let pairs = keys.map(|(key, name)| (name, of(a, key), of(b, key)));
    pairs
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("another {name}: A has {a}, and B {b}"))
        .collect()
}

impl Files {
    fn bench(&mut self, [a, b]: [&Printed; 2], several: bool, choice: &Choice) {
        let about = catalogue().into_iter().find(|about| about.name == a.bench);
        let bench = several.then(|| a.bench.clone());
        let wanted = |line: &&Line| {
            let Key {
                case,
                params,
                metric,
                ..
            } = &line.key;
            choice.takes(case, params, metric)
        };
        for one in a.rows.iter().filter(wanted) {
            let Some(other) = b.rows.iter().find(|other| other.key == one.key) else {
                self.leave(&bench, &one.key, "only A has it");
                continue;
            };
            match better(about.as_ref(), &one.key) {
                None => self.leave(&bench, &one.key, "a metric that this program does not know"),
                Some(better) => self.judge(bench.clone(), [one, other], better),
            }
        }
        let is_new = |line: &&Line| a.rows.iter().all(|other| other.key != line.key);
        let new = b.rows.iter().filter(wanted).filter(is_new);
        new.for_each(|line| self.leave(&bench, &line.key, "only B has it"));
    }

    fn leave(&mut self, bench: &Option<String>, key: &Key, reason: &str) {
        self.not_judged.push(Unjudged {
            bench: bench.clone(),
            key: key.clone(),
            reason: reason.to_owned(),
        });
    }

    fn judge(&mut self, bench: Option<String>, [a, b]: [&Line; 2], better: Better) {
        let Some((cost, by_range)) = cost(a, b, better) else {
            self.leave(&bench, &a.key, "a figure that is not above zero");
            return;
        };
        self.by_range += usize::from(by_range);
        self.rows.push(Row {
            bench,
            key: a.key.clone(),
            better,
            a: a.median,
            b: b.median,
            cost,
            verdict: Verdict::of(&cost, self.tolerance),
            first: None,
        });
    }

    /// The rows with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Row> {
        with(&self.rows, verdict)
    }

    /// The one object that `--json` prints.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let [a, b] = &self.files;
        let mut text = format!("A: {}\nB: {}\n", a.display(), b.display());
        for warning in &self.warnings {
            text += &format!("Warning: {warning}\n");
        }
        text += EXPLANATION;
        text += &format!(
            "\n{}\n{}",
            table(&self.rows),
            summary(&self.rows, self.tolerance)
        );
        if self.by_range > 0 {
            text += &format!(
                "For {} rows a file has no rounds, or fewer than 7: from and to are of the \
                 smallest and the\nlargest then, without a confidence. Where these overlap, the \
                 verdict is unclear.\n",
                self.by_range
            );
        }
        text + &not_judged(&self.not_judged)
    }

    /// Draws each row's ratio and interval into a file.
    pub fn plot(&self, file: &Path) -> Result<()> {
        let [a, b] = &self.files;
        let forest = Forest {
            title: "What B costs in what A costs".to_owned(),
            foot: [
                format!("A: {}    B: {}", a.display(), b.display()),
                self.warnings.join("; "),
            ],
            tolerance: self.tolerance,
            rows: &self.rows,
        };
        forest.plot(file)
    }
}

fn better(about: Option<&About>, key: &Key) -> Option<Better> {
    let mut metrics = about?.metrics.iter();
    let metric = metrics.find(|metric| metric.name == key.metric)?;
    Some(metric.better)
}

/// With an interval from the rounds, or from the ends. The second says that it is from the ends,
/// whose confidence is not known: 0.
fn cost(a: &Line, b: &Line, better: Better) -> Option<(Interval, bool)> {
    let rounds = |line: &Line| Interval::with(&line.values, CONFIDENCE);
    let intervals = rounds(a).zip(rounds(b));
    let by_range = intervals.is_none();
    let ((low_a, high_a), (low_b, high_b), confidence) = match intervals {
        Some((a, b)) => (
            (a.low, a.high),
            (b.low, b.high),
            a.confidence + b.confidence - 1.0,
        ),
        None => ((a.min, a.max), (b.min, b.max), 0.0),
    };
    let (low, high) = match better {
        Better::Lower => ([high_a, low_b], [low_a, high_b]),
        Better::Higher => ([low_a, high_b], [high_a, low_b]),
    };
    let interval = Interval {
        median: verdict::cost([a.median, b.median], better)?,
        low: verdict::cost(low, better)?,
        high: verdict::cost(high, better)?,
        confidence,
        count: a.runs.min(b.runs),
    };
    Some((interval, by_range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A file that goes with the test.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str) -> Self {
            let name = format!("umcg-files-{name}-{}.json", std::process::id());
            let file = std::env::temp_dir().join(name);
            fs::write(&file, text).unwrap();
            Self(file)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// A row of bench switch, whose rounds are up to one per cent apart from the median.
    fn row(case: &str, median: f64) -> Value {
        let values: Vec<f64> = (0..15)
            .map(|round| median * (0.993 + 0.001 * f64::from(round)))
            .collect();
        json!({"case": case, "params": {"cpus": 1}, "metric": "round_trips", "unit": "1/s",
               "median": median, "min": values[0], "max": values[14], "runs": 15,
               "values": values})
    }

    fn report(bench: &str, kernel: &str, rows: &[Value]) -> Value {
        let machine = json!({"cpus": 2, "kernel": kernel, "cpu": "A CPU"});
        json!({"bench": bench, "machine": machine, "rows": rows})
    }

    fn compared(test: &str, a: &Value, b: &Value) -> Result<Files> {
        some_compared(test, a, b, &[])
    }

    fn some_compared(test: &str, a: &Value, b: &Value, only: &[&str]) -> Result<Files> {
        let a = File::new(&format!("{test}-a"), &a.to_string());
        let b = File::new(&format!("{test}-b"), &b.to_string());
        let only: Vec<Pattern> = only.iter().map(|text| text.parse().unwrap()).collect();
        compare([&a.0, &b.0], 0.03, &only)
    }

    #[test]
    fn a_first_word_chooses_a_bench() {
        let reports = [("switch", "round_trips"), ("uth", "reinit")].map(|(bench, metric)| {
            let mut row = row("uth", 100.0);
            row["metric"] = metric.into();
            report(bench, "6.1", &[row])
        });
        let file = json!({"bench": "all", "reports": reports});
        let count = |only: &[&str]| {
            let found = some_compared("chosen", &file, &file, only);
            found.map(|found| found.rows.len()).ok()
        };
        assert_eq!(count(&["switch round_trips"]), Some(1));
        assert_eq!(count(&["switch"]), Some(1));
        assert_eq!(count(&["cpus=1"]), Some(2));
        assert_eq!(count(&["sem"]), None);
    }

    #[test]
    fn rows_are_matched_by_name_and_judged_by_their_rounds() {
        let a = [row("uth", 100.0), row("pipe", 100.0), row("futex", 100.0)];
        let b = [row("pipe", 80.0), row("uth", 101.0), row("futex", 130.0)];
        let found = compared(
            "judged",
            &report("switch", "6.1", &a),
            &report("switch", "6.1", &b),
        );
        let found = found.unwrap();
        let verdicts: Vec<Verdict> = found.rows.iter().map(|row| row.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Same, Verdict::Worse, Verdict::Better],
            "more round trips are better"
        );
        let cost = &found.rows[1].cost;
        assert!((cost.median - 1.25).abs() < 1e-9 && cost.low < 1.25 && cost.high > 1.25);
        assert!(cost.confidence >= 0.95 && cost.count == 15, "{cost:?}");
        assert_eq!((found.by_range, found.warnings.len()), (0, 0));
        let text = found.to_text();
        assert!(text.contains("worse by 25.0 %"), "{text}");
        assert!(
            !text.contains("Warning") && !text.contains("smallest"),
            "{text}"
        );
    }

    #[test]
    fn files_without_rounds_are_judged_by_their_ranges() {
        let old = |case: &str, median: f64, min: f64, max: f64| {
            let mut row = row(case, median);
            let row_of = row.as_object_mut().unwrap();
            row_of.remove("values");
            row_of.insert("min".into(), min.into());
            row_of.insert("max".into(), max.into());
            row
        };
        let a = [
            old("uth", 100.0, 90.0, 110.0),
            old("pipe", 100.0, 99.0, 101.0),
        ];
        let b = [old("uth", 80.0, 75.0, 95.0), old("pipe", 80.0, 79.0, 81.0)];
        let found = compared(
            "old",
            &report("switch", "6.1", &a),
            &report("switch", "6.2", &b),
        );
        let found = found.unwrap();
        let verdicts: Vec<Verdict> = found.rows.iter().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unclear, Verdict::Worse]);
        assert_eq!(found.by_range, 2);
        assert_eq!(found.warnings, ["another kernel: A has 6.1, and B 6.2"]);
        let text = found.to_text();
        assert!(text.contains("For 2 rows a file has no rounds"), "{text}");
        assert!(text.contains("Warning: another kernel"), "{text}");
    }

    #[test]
    fn all_benches_are_compared_at_once_and_one_with_its_part() {
        let switch = report("switch", "6.1", &[row("uth", 100.0)]);
        let ready = |median: f64| {
            json!({"case": "umcg", "params": {"k": 2}, "metric": "ready", "unit": "ns",
                   "median": median, "min": median, "max": median, "runs": 15,
                   "values": vec![median; 15]})
        };
        let all = |median: f64| {
            json!({"bench": "all", "machine": switch["machine"], "reports": [
                switch,
                report("select", "6.1", &[ready(median)]),
                report("altsems", "6.1", &[ready(2.0 * median)]),
            ]})
        };
        let found = compared("all", &all(10.0), &all(10.0)).unwrap();
        let names: Vec<String> = found.rows.iter().map(Row::name).collect();
        assert_eq!(
            names,
            [
                "switch uth cpus=1 round_trips",
                "select umcg k=2 ready",
                "altsems umcg k=2 ready"
            ]
        );
        assert!(found.to_text().contains("│ bench"));
        let found = compared(
            "part",
            &all(10.0),
            &report("altsems", "6.1", &[ready(30.0)]),
        );
        let found = found.unwrap();
        assert_eq!(found.rows.len(), 1);
        assert_eq!(
            (found.rows[0].a, found.rows[0].verdict),
            (20.0, Verdict::Worse)
        );
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_the_reason() {
        let good = report("switch", "6.1", &[row("uth", 100.0)]);
        let error = |test: &str, b: &Value| format!("{:#}", compared(test, &good, b).unwrap_err());
        let other = report("uth", "6.1", &[row("uth", 1.0)]);
        let said = error("bench", &other);
        assert!(said.ends_with("A is of switch, and B of uth"), "{said}");
        let said = error("row", &report("switch", "6.1", &[row("pipe", 1.0)]));
        assert!(said.contains("no row in common"), "{said}");
        assert!(
            said.contains("uth cpus=1 round_trips: only A has it"),
            "{said}"
        );
        let said = error("zero", &report("switch", "6.1", &[row("uth", 0.0)]));
        assert!(said.contains("not above zero"), "{said}");
        let said = error("nothing", &json!([1]));
        assert!(
            said.contains("B: ") && said.contains("there is no bench in it"),
            "{said}"
        );
        let said = error(
            "foreign",
            &json!({"bench": "x", "rows": [1], "machine": {}}),
        );
        assert!(said.contains("not those of a bench of umcg"), "{said}");
        let said = error("done", &json!({"bench": "switch", "builds": ["a", "b"]}));
        assert!(said.contains("a comparison already"), "{said}");
        let said = error("empty", &report("switch", "6.1", &[]));
        assert!(said.contains("there is no row in it"), "{said}");
        let broken = File::new("broken", "{\"bench\": \"swi");
        let said = compare([&broken.0, &broken.0], 0.03, &[]).unwrap_err();
        assert!(
            format!("{said:#}").contains("no JSON, or not all of it"),
            "{said:#}"
        );
        let missing = Path::new("/no/such/file.json");
        let said = compare([missing, missing], 0.03, &[]).unwrap_err();
        assert!(format!("{said:#}").starts_with("A: /no/such/file.json: No such"));
    }

    #[test]
    fn programs_read_json_and_a_picture_is_drawn() {
        let a = report("switch", "6.1", &[row("uth", 100.0)]);
        let found = compared("json", &a, &a).unwrap();
        let json: Value = serde_json::from_str(&found.to_json().unwrap()).unwrap();
        assert_eq!(json["rows"][0]["verdict"], "same");
        assert_eq!(json["rows"][0]["case"], "uth");
        assert!(json["rows"][0].get("bench").is_none());
        let file = File::new("picture", "");
        found.plot(&file.0).unwrap();
        assert!(fs::read_to_string(&file.0).unwrap().contains("uth cpus=1"));
    }
}
