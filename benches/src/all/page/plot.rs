//! The plots of the page: a line of text and one of marks for each row.
//!
//! Places from left to right are in per cent, and sizes of text in pixels. So a plot is as wide as
//! the page without getting small letters on a phone. Colours come from the style sheet.
//!
//! Rejected: the pictures of `--plot`. They are as wide as a sheet of paper, and have the colours
//! of one.

use super::escaped;
use crate::harness::{Report, Row, Section, describe, number};
use std::fmt::Write;
use std::ops::Range;

const LINE: u32 = 36;
const HEAD: u32 = 26;
const AXIS: u32 = 22;

/// Figures further apart than this get a logarithmic axis.
const LINEAR: f64 = 20.0;

/// A plot, and the text below it.
pub(super) struct Plot {
    pub(super) svg: String,
    pub(super) caption: String,
}

/// From figures to per cent of the width.
struct Axis {
    range: Range<f64>,
    is_logarithmic: bool,
}

impl Axis {
    fn of(rows: &[&Row]) -> Option<Self> {
        let ends = rows.iter().flat_map(|row| ends(row));
        let positive: Vec<f64> = ends.filter(|value| *value > 0.0).collect();
        let low = positive.iter().copied().reduce(f64::min)?;
        let high = positive.iter().copied().reduce(f64::max)?;
        let is_logarithmic = high / low > LINEAR;
        let range = if is_logarithmic {
            low / 1.2..high * 1.2
        } else {
            0.0..high * 1.02
        };
        Some(Self {
            range,
            is_logarithmic,
        })
    }

    /// Marks at the ends are as wide as others.
    fn place(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        let part = if self.is_logarithmic {
            (value.max(start) / start).ln() / (end / start).ln()
        } else {
            (value - start) / (end - start)
        };
        1.0 + 98.0 * part.clamp(0.0, 1.0)
    }

    /// Round numbers, few enough for a phone.
    fn ticks(&self) -> Vec<f64> {
        let Range { start, end } = self.range;
        let inside = |value: &f64| (start..=end).contains(value);
        if self.is_logarithmic {
            let decades = (start.log10().floor() as i32)..=(end.log10().ceil() as i32);
            let digits = if end / start > 300.0 {
                &[1.0][..]
            } else {
                &[1.0, 3.0]
            };
            let every = decades.clone().count().div_ceil(6);
            let all = decades.step_by(every).map(|decade| 10.0_f64.powi(decade));
            let all = all.flat_map(|decade| digits.iter().map(move |digit| digit * decade));
            return all.filter(inside).collect();
        }
        let rough = end / 4.0;
        let decade = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
        let step = steps.into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=5)
            .map(|count| f64::from(count) * step)
            .filter(inside)
            .collect()
    }
}

/// The smallest and the largest mark of a row.
fn ends(row: &Row) -> [f64; 2] {
    row.tukey.map_or([row.min, row.max], |it| [it.min, it.max])
}

/// Draws the rows of a section; `None` if there is nothing to draw.
pub(super) fn plot(report: &Report, section: &Section, ours: &[&str]) -> Option<Plot> {
    let rows: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.metric == section.metric)
        .collect();
    let axis = Axis::of(&rows)?;
    let (body, height) = body(report, section, ours, &rows, &axis);
    let title = escaped(section.title);
    let mut svg =
        format!("<svg class=\"plot\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n");
    svg += &grid(&axis, height);
    svg += &body;
    svg += "</svg>\n";
    Some(Plot {
        svg,
        caption: caption(section, &rows, &axis),
    })
}

/// Lines at round numbers.
fn grid(axis: &Axis, height: u32) -> String {
    let mut text = String::new();
    for tick in axis.ticks() {
        let x = axis.place(tick);
        let anchor = match x {
            x if x < 8.0 => "start",
            x if x > 92.0 => "end",
            _ => "middle",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"{}\"/>\n\
             <text class=\"faint\" x=\"{x:.2}%\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            height - AXIS,
            height - 6,
            escaped(&number(tick))
        );
    }
    text
}

/// Rows with the same parameters stand below a heading.
fn body(
    report: &Report,
    section: &Section,
    ours: &[&str],
    rows: &[&Row],
    axis: &Axis,
) -> (String, u32) {
    let (mut text, mut y) = (String::new(), 0);
    let mut groups = Vec::new();
    for row in rows {
        let group = row.group();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        if !group.is_empty() {
            y += HEAD;
            let name = escaped(&describe(&group));
            let _ = writeln!(
                text,
                "<text class=\"group\" x=\"0\" y=\"{}\">{name}</text>",
                y - 6
            );
        }
        for row in rows.iter().filter(|row| row.group() == group) {
            text += &line(report, section, ours, row, axis, y);
            y += LINE;
        }
    }
    (text, y + AXIS)
}

fn line(
    report: &Report,
    section: &Section,
    ours: &[&str],
    row: &Row,
    axis: &Axis,
    y: u32,
) -> String {
    let class = if ours.contains(&row.case) {
        "ours"
    } else {
        "peer"
    };
    let ratio = section.references.first().and_then(|reference| {
        let is_other = *reference != row.case;
        let ratio = report.ratio(row, reference).filter(|_| is_other)?;
        Some(format!(" (x {} {reference})", number(ratio)))
    });
    let figure = format!("{} {}{}", row.figure(), row.unit, ratio.unwrap_or_default());
    let marks = row.tukey.map_or_else(
        || rounds(row, axis, y + 24),
        |tukey| operations(&tukey, axis, y + 24),
    );
    format!(
        "<g class=\"{class}\">\n<text x=\"0\" y=\"{0}\">{1}</text>\n\
         <text class=\"faint\" x=\"100%\" y=\"{0}\" text-anchor=\"end\">{2}</text>\n{marks}</g>\n",
        y + 13,
        escaped(&row.label()),
        escaped(&figure)
    )
}

/// The middle half as a box, and a line at the median.
fn half(axis: &Axis, [q1, median, q3]: [f64; 3], y: u32) -> String {
    let [left, middle, right] = [q1, median, q3].map(|value| axis.place(value));
    format!(
        "<rect class=\"half\" x=\"{left:.2}%\" y=\"{}\" width=\"{:.2}%\" height=\"10\"/>\n\
         <line class=\"median\" x1=\"{middle:.2}%\" x2=\"{middle:.2}%\" y1=\"{}\" y2=\"{}\"/>\n",
        y - 5,
        right - left,
        y - 7,
        y + 7
    )
}

fn reach(axis: &Axis, low: f64, high: f64, y: u32) -> String {
    let [left, right] = [low, high].map(|value| axis.place(value));
    format!("<line class=\"reach\" x1=\"{left:.2}%\" x2=\"{right:.2}%\" y1=\"{y}\" y2=\"{y}\"/>\n")
}

fn dot(class: &str, axis: &Axis, value: f64, y: u32) -> String {
    let x = axis.place(value);
    format!("<circle class=\"{class}\" cx=\"{x:.2}%\" cy=\"{y}\" r=\"2.5\"/>\n")
}

/// A dot for each round.
fn rounds(row: &Row, axis: &Axis, y: u32) -> String {
    let dots: String = row
        .values
        .iter()
        .map(|value| dot("round", axis, *value, y))
        .collect();
    reach(axis, row.min, row.max, y) + &dots + &half(axis, [row.q1, row.median, row.q3], y)
}

/// A Tukey diagram of single operations.
fn operations(tukey: &crate::harness::Tukey, axis: &Axis, y: u32) -> String {
    let far = [tukey.min, tukey.max]
        .into_iter()
        .filter(|value| *value < tukey.low || *value > tukey.high);
    let far: String = far.map(|value| dot("far", axis, value, y)).collect();
    reach(axis, tukey.low, tukey.high, y)
        + &half(axis, [tukey.q1, tukey.median, tukey.q3], y)
        + &dot("mean", axis, tukey.mean, y)
        + &far
}

fn caption(section: &Section, rows: &[&Row], axis: &Axis) -> String {
    let marks = if rows.iter().any(|row| row.tukey.is_some()) {
        "Of single operations of all rounds: the box is the middle half, the thick line the \
         median, the dot the mean. Thin lines reach to the furthest operation that is no \
         more than one and a half boxes away; circles are the smallest and the largest beyond."
    } else {
        "A dot is a round. The box is the middle half of the rounds, the thick line the median, \
         and the thin line reaches from the smallest to the largest."
    };
    let scale = if axis.is_logarithmic {
        "The scale is logarithmic."
    } else {
        "The scale begins at zero."
    };
    let unit = rows.first().map_or("", |row| row.unit);
    let good = match rows.first().map(|row| row.better) {
        Some(crate::harness::Better::Higher) => "more is better",
        _ => "less is better",
    };
    let beside = section.references.first().map_or_else(String::new, |name| {
        format!(" (x N {name}): N times as good as {name}.")
    });
    format!(
        "In {unit}; {good}. Ours are in bold letters, and in another colour than the peers. \
         {marks} {scale}{beside}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: f64, high: f64) -> Axis {
        let row = Row::new(
            "x",
            Default::default(),
            &crate::harness::lower("m", "ns"),
            vec![low, high],
        );
        Axis::of(&[&row.unwrap()]).unwrap()
    }

    #[test]
    fn axes_have_a_few_round_numbers() {
        let ticks = |low, high| axis(low, high).ticks();
        assert_eq!(ticks(3.0, 9.0), [0.0, 5.0]);
        assert_eq!(ticks(30.0, 80.0), [0.0, 50.0]);
        assert_eq!(ticks(50.0, 100.0), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(2.0, 3000.0), [10.0, 100.0, 1000.0]);
        for high in [1e-3, 0.7, 4.2, 97.0, 1e9] {
            let count = ticks(high / 2.0, high).len();
            assert!((2..=6).contains(&count), "{high}: {count}");
            let count = ticks(high / 1e7, high).len();
            assert!((2..=6).contains(&count), "{high}: {count}");
        }
    }

    #[test]
    fn places_are_inside() {
        for axis in [axis(1.0, 2.0), axis(1.0, 1e6)] {
            let places = [0.0, 1.0, 2.0, 1e6, 1e9].map(|value| axis.place(value));
            assert!(places.is_sorted(), "{places:?}");
            assert!(
                places.iter().all(|x| (1.0..=99.0).contains(x)),
                "{places:?}"
            );
        }
    }
}
