//! The picture: a line for each row, a dot at what B costs and whiskers to the ends of the
//! interval, beside lines at one and at the tolerance.

use super::report::verdict;
use super::verdict::limits;
use super::{Comparison, Row, Verdict};
use crate::harness::picture::{self, Area, COLOURS, GREY, WIDTH, at, label, write};
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use std::ops::Range;
use std::path::Path;

const LINE: u32 = 22;
const HEAD: u32 = 50;
const FOOT: u32 = 76;
const NAMES: u32 = 400;
const VERDICTS: u32 = 230;
const BAND: RGBColor = RGBColor(236, 236, 236);

fn colour(verdict: Verdict) -> RGBColor {
    let [blue, red, green, ..] = COLOURS;
    match verdict {
        Verdict::Worse => red,
        Verdict::Better => green,
        Verdict::Same => blue,
        Verdict::Unclear => GREY,
    }
}

/// The contents of a picture.
pub(super) struct Forest<'a> {
    pub(super) title: String,
    /// Two lines below.
    pub(super) foot: [String; 2],
    pub(super) tolerance: f64,
    pub(super) rows: &'a [Row],
}

/// Draws a comparison into a file.
pub fn plot(comparison: &Comparison, file: &Path) -> Result<()> {
    let [a, b] = &comparison.builds;
    let machine = &comparison.machine;
    let forest = Forest {
        title: format!("bench {}: what B costs in what A costs", comparison.bench),
        foot: [
            format!("A: {}    B: {}", a.display(), b.display()),
            format!(
                "{} pairs of runs; {}, {} CPUs, Linux {}",
                comparison.pairs, machine.cpu, machine.cpus, machine.kernel
            ),
        ],
        tolerance: comparison.tolerance,
        rows: &comparison.rows,
    };
    forest.plot(file)
}

impl Forest<'_> {
    pub(super) fn plot(&self, file: &Path) -> Result<()> {
        let height = HEAD + FOOT + LINE * self.rows.len() as u32;
        picture::draw(file, (WIDTH, height), |root| draw(root, self))
    }
}

fn draw(root: &Area<'_>, forest: &Forest<'_>) -> Result<()> {
    root.fill(&WHITE)?;
    draw_rows(root, forest)?;
    let top = root.dim_in_pixel().1 as i32 - 26;
    for (line, text) in forest.foot.iter().enumerate() {
        root.draw(&Text::new(
            text.clone(),
            (10, top + 16 * line as i32),
            label(HPos::Left, GREY),
        ))?;
    }
    root.present()?;
    Ok(())
}

/// All intervals and the limits, and a little more.
fn range(forest: &Forest<'_>) -> Range<f64> {
    let (above, below) = limits(forest.tolerance.max(0.01));
    let ends = forest.rows.iter().map(|row| (row.cost.low, row.cost.high));
    let (low, high) = ends.fold((below, above), |(low, high), row| {
        (low.min(row.0), high.max(row.1))
    });
    let more = (high / low).powf(0.08);
    low / more..high * more
}

/// Where the axis has numbers: as many round ones as there is room for.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let inside = |value: &f64| range.contains(value);
    if range.end / range.start > 3.0 {
        let decades = -6..=6;
        let all =
            decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10.0_f64.powi(decade)));
        return all.filter(inside).collect();
    }
    let steps = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    let step = steps
        .into_iter()
        .find(|step| (range.end - range.start) / step <= 7.0)
        .unwrap_or(1.0);
    let first = (range.start / step).ceil() as u32;
    (first..first + 8)
        .map(|place| f64::from(place) * step)
        .filter(inside)
        .collect()
}

fn draw_rows(area: &Area<'_>, forest: &Forest<'_>) -> Result<()> {
    let range = range(forest);
    let count = forest.rows.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&forest.title, ("sans-serif", 18))
        .margin_top(10)
        .margin_right(VERDICTS)
        .margin_bottom(30)
        .x_label_area_size(FOOT - 40)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(range.clone().log_scale(), 0.0..count)?;
    let (above, below) = limits(forest.tolerance);
    chart.draw_series([Rectangle::new(
        [(below, 0.0), (above, count)],
        BAND.filled(),
    )])?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .disable_x_mesh()
        .x_labels(0)
        .x_label_formatter(&|_| String::new())
        .x_desc("below 1: better; above 1: worse")
        .draw()?;
    for tick in ticks(&range) {
        let below = chart.backend_coord(&(tick, 0.0));
        let place = at(area, (below.0, below.1 + 12), 0);
        write(area, tick_label(tick), place, label(HPos::Center, BLACK))?;
    }
    for (limit, width) in [(below, 1), (1.0, 2), (above, 1)] {
        chart.draw_series([PathElement::new(
            vec![(limit, 0.0), (limit, count)],
            GREY.stroke_width(width),
        )])?;
    }
    for (index, row) in forest.rows.iter().enumerate() {
        let y = count - index as f64 - 0.5;
        let colour = colour(row.verdict);
        chart.draw_series(marks(row, y, colour))?;
        chart.draw_series([Circle::new((row.cost.median, y), 4, colour.filled())])?;
        let left = chart.backend_coord(&(range.start, y));
        let name = row.name();
        write(area, name, at(area, left, -8), label(HPos::Right, BLACK))?;
        let right = (WIDTH as i32 - VERDICTS as i32, left.1);
        let text = format!("{:.3}  {}", row.cost.median, verdict(row));
        write(area, text, at(area, right, 8), label(HPos::Left, colour))?;
    }
    Ok(())
}

fn tick_label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The interval and its ends.
fn marks(row: &Row, y: f64, colour: RGBColor) -> Vec<PathElement<(f64, f64)>> {
    let (low, high) = (row.cost.low, row.cost.high);
    let line = |points: Vec<(f64, f64)>| PathElement::new(points, colour.stroke_width(2));
    let end = |x| line(vec![(x, y - 0.2), (x, y + 0.2)]);
    vec![line(vec![(low, y), (high, y)]), end(low), end(high)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::report::tests::sample;

    #[test]
    fn the_axis_has_round_numbers() {
        let labels = |range| {
            ticks(&range)
                .into_iter()
                .map(tick_label)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(labels(0.955..1.046), "0.96 0.98 1 1.02 1.04");
        assert_eq!(labels(0.7..1.6), "0.8 1 1.2 1.4");
        assert_eq!(labels(0.08..11.0), "0.1 0.2 0.5 1 2 5 10");
    }

    #[test]
    fn every_row_is_drawn() {
        let file = std::env::temp_dir().join(format!("umcg-forest-{}.svg", std::process::id()));
        let mut few = sample();
        few.rows.truncate(1);
        for comparison in [sample(), few] {
            plot(&comparison, &file).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(
                comparison
                    .rows
                    .iter()
                    .all(|row| text.contains(&row.key.name())),
                "{text}"
            );
            assert!(
                text.contains("worse by 20.0 %") && text.contains("/new/umcg"),
                "{text}"
            );
        }
        std::fs::remove_file(&file).unwrap();
        assert!(plot(&sample(), Path::new("/no/such/folder/x.svg")).is_err());
    }
}
