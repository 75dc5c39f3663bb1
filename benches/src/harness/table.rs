//! The table for people.

use super::judge::{Finding, Relation, listed};
use super::{Params, Report, Row};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;

/// Computes a column that is in no row; the report is there to look at other rows.
pub type Column = fn(&Report, &Row) -> Option<String>;

/// The demands on a row, and whether it meets them.
pub type Demand = fn(&Report, &Row) -> Vec<Finding>;

/// One table of a report: the rows of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Stands above the table.
    pub title: &'static str,
    /// Which rows.
    pub metric: &'static str,
    /// The header of the medians.
    pub heading: &'static str,
    /// Further columns.
    pub columns: &'static [(&'static str, Column)],
    /// What is asked of our rows, if there is something: the column `bar`.
    pub bar: Option<Demand>,
    /// The cases that all others are compared with.
    pub references: &'static [&'static str],
}

/// Three significant digits, thousands separated, never an exponent.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        _ => 5,
    };
    let plain = format!("{value:.digits$}");
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

fn param(params: &Params, key: &str) -> String {
    params.get(key).map(text).unwrap_or_default()
}

/// A parameter's value.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The parameters of a table. Its cases mostly differ by the variant alone, and the one with most
/// parameters has all; others come behind.
fn keys<'a>(rows: &[&'a Row]) -> Option<Vec<&'a str>> {
    let most = rows.iter().max_by_key(|row| row.params.len())?;
    let mut keys: Vec<&str> = most.params.keys().map(String::as_str).collect();
    for key in rows.iter().flat_map(|row| row.params.keys()) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    Some(keys)
}

/// A section's cells, for every form of table.
pub(crate) struct Grid {
    pub(crate) header: Vec<String>,
    /// Rows with the same parameters stand together.
    pub(crate) lines: Vec<Vec<String>>,
}

impl Grid {
    /// `None` if the report has nothing for the section.
    pub(crate) fn new(report: &Report, section: &Section) -> Option<Self> {
        let rows: Vec<&Row> = report
            .rows
            .iter()
            .filter(|row| row.metric == section.metric)
            .collect();
        let keys = keys(&rows)?;
        let mut groups: Vec<Params> = Vec::new();
        rows.iter().map(|row| row.group()).for_each(|group| {
            if !groups.contains(&group) {
                groups.push(group);
            }
        });
        let of = |group: Params| rows.iter().filter(move |row| row.group() == group);
        Some(Self {
            header: header(section, &keys),
            lines: groups
                .into_iter()
                .flat_map(of)
                .map(|row| cells(report, section, row, &keys))
                .collect(),
        })
    }
}

/// Renders one section; `None` if the report has nothing for it.
pub fn table(report: &Report, section: &Section) -> Option<String> {
    let Grid { header, lines } = Grid::new(report, section)?;
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(header);
    lines.into_iter().for_each(|line| {
        table.add_row(line);
    });
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    Some(format!("{}\n{table}\n", section.title))
}

fn header(section: &Section, keys: &[&str]) -> Vec<String> {
    let fixed = ["min", "max", "spread"].map(str::to_owned);
    let columns = section.columns.iter().map(|(heading, _)| *heading);
    let references = section.references.iter();
    ["case"]
        .into_iter()
        .chain(keys.iter().copied())
        .chain([section.heading])
        .map(str::to_owned)
        .chain(fixed)
        .chain(columns.map(str::to_owned))
        .chain(section.bar.map(|_| "bar".to_owned()))
        .chain(references.map(|reference| format!("x {reference}")))
        .collect()
}

fn cells(report: &Report, section: &Section, row: &Row, keys: &[&str]) -> Vec<String> {
    let mut cells = vec![row.case.to_owned()];
    cells.extend(keys.iter().map(|key| param(&row.params, key)));
    cells.push(row.figure());
    cells.extend([row.min, row.max].map(number));
    cells.push(format!("{:.1}%", row.spread() * 100.0));
    cells.extend(
        section
            .columns
            .iter()
            .map(|(_, column)| column(report, row).unwrap_or_default()),
    );
    cells.extend(section.bar.map(|bar| listed(&bar(report, row))));
    let ratio = |reference: &&str| ratio(report, row, reference).unwrap_or_default();
    cells.extend(section.references.iter().map(ratio));
    cells
}

/// How many times as fast as the reference, and a sign if that is no difference.
fn ratio(report: &Report, row: &Row, reference: &str) -> Option<String> {
    let ratio = number(report.ratio(row, reference)?);
    Some(match report.relation(row, reference) {
        Some(Relation::Equal) => format!("= {ratio}"),
        _ => ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::report::tests::sample;

    #[test]
    fn numbers_for_people() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (0.00791, "0.00791"),
            (1.239, "1.24"),
            (56.78, "56.8"),
            (999.6, "1,000"),
            (1234567.8, "1,234,568"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(number(-123.0), "-123");
    }

    #[test]
    fn rows_are_grouped_by_parameters_and_compared() {
        let section = Section {
            title: "Title",
            metric: "round_trips",
            heading: "trips/s",
            columns: &[("ns", |_, row| Some(number(1e9 / row.median)))],
            bar: None,
            references: &["futex"],
        };
        let text = table(&sample(), &section).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("futex ") || line.contains("uth "))
            .collect();
        let words = |line: &str| {
            line.split(['│', '┆', ' '])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(text.starts_with("Title\n"));
        assert_eq!(
            words(lines[1]),
            [
                "futex",
                "1",
                "1,000",
                "900",
                "1,100",
                "20.0%",
                "1,000,000",
                "1.00"
            ]
        );
        assert_eq!(
            words(lines[2])[..2],
            ["uth", "1"],
            "the rows of one CPU stand together"
        );
        assert_eq!(words(lines[2]).last().unwrap(), "250");
        assert_eq!(words(lines[3])[..2], ["futex", "2"]);
        assert!(
            table(
                &sample(),
                &Section {
                    metric: "nothing",
                    ..section
                }
            )
            .is_none()
        );
    }
}
