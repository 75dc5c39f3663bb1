//! The picture: a line for each row, a dot at what B costs and whiskers to the ends of the
//! interval, beside lines at one and at the tolerance.

use super::report::verdict;
use super::verdict::limits;
use super::{Comparison, Row, Verdict};
use crate::harness::picture::{Area, COLOURS, GREY, WIDTH, at, label};
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use std::ops::Range;
use std::path::Path;

const LINE: u32 = 22;
const HEAD: u32 = 50;
const FOOT: u32 = 76;
const NAMES: u32 = 430;
const VERDICTS: u32 = 180;
/// Beyond this factor the axis is logarithmic.
const LINEAR: f64 = 2.0;
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

/// Draws a comparison into an SVG file.
pub fn plot(comparison: &Comparison, file: &Path) -> Result<()> {
    let height = HEAD + FOOT + LINE * comparison.rows.len() as u32;
    let root = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    draw(&root, comparison).map_err(|error| anyhow!("cannot write {}: {error}", file.display()))
}

fn draw(root: &Area<'_>, comparison: &Comparison) -> Result<()> {
    root.fill(&WHITE)?;
    let range = range(comparison);
    if range.end / range.start > LINEAR {
        draw_rows(root, comparison, range.clone(), range.log_scale())?;
    } else {
        draw_rows(root, comparison, range.clone(), range)?;
    }
    let [a, b] = &comparison.builds;
    let machine = &comparison.machine;
    let foot = [
        format!("A: {}    B: {}", a.display(), b.display()),
        format!("{} pairs of runs; {}, {} CPUs, Linux {}", comparison.pairs, machine.cpu, machine.cpus, machine.kernel),
    ];
    let top = root.dim_in_pixel().1 as i32 - 26;
    for (line, text) in foot.into_iter().enumerate() {
        root.draw(&Text::new(text, (10, top + 16 * line as i32), label(HPos::Left, GREY)))?;
    }
    root.present()?;
    Ok(())
}

/// All intervals and the limits, and a little more.
fn range(comparison: &Comparison) -> Range<f64> {
    let (above, below) = limits(comparison.tolerance.max(0.01));
    let ends = comparison.rows.iter().map(|row| (row.cost.low, row.cost.high));
    let (low, high) = ends.fold((below, above), |(low, high), row| (low.min(row.0), high.max(row.1)));
    let more = (high / low).powf(0.08);
    low / more..high * more
}

fn draw_rows<X>(area: &Area<'_>, comparison: &Comparison, range: Range<f64>, axis: X) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let count = comparison.rows.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("bench {}: what B costs in what A costs", comparison.bench), ("sans-serif", 18))
        .margin_top(10)
        .margin_right(VERDICTS)
        .margin_bottom(30)
        .x_label_area_size(FOOT - 40)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, 0.0..count)?;
    let (above, below) = limits(comparison.tolerance);
    chart.draw_series([Rectangle::new([(below, 0.0), (above, count)], BAND.filled())])?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .x_label_formatter(&|value| format!("{value:.2}"))
        .x_desc("better   <   1   <   worse")
        .draw()?;
    for (limit, width) in [(below, 1), (1.0, 2), (above, 1)] {
        chart.draw_series([PathElement::new(vec![(limit, 0.0), (limit, count)], GREY.stroke_width(width))])?;
    }
    for (index, row) in comparison.rows.iter().enumerate() {
        let y = count - index as f64 - 0.5;
        let colour = colour(row.verdict);
        chart.draw_series(marks(row, y, colour))?;
        chart.draw_series([Circle::new((row.cost.median, y), 4, colour.filled())])?;
        let left = chart.backend_coord(&(range.start, y));
        area.draw(&Text::new(row.key.name(), at(area, left, -8), label(HPos::Right, BLACK)))?;
        let right = (WIDTH as i32 - VERDICTS as i32, left.1);
        area.draw(&Text::new(verdict(row), at(area, right, 8), label(HPos::Left, colour)))?;
    }
    Ok(())
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
    fn every_row_is_drawn() {
        let file = std::env::temp_dir().join(format!("umcg-forest-{}.svg", std::process::id()));
        let mut few = sample();
        few.rows.truncate(1);
        for comparison in [sample(), few] {
            plot(&comparison, &file).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(comparison.rows.iter().all(|row| text.contains(&row.key.name())), "{text}");
            assert!(text.contains("worse by 20.0 %") && text.contains("/new/umcg"), "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(plot(&sample(), Path::new("/no/such/folder/x.svg")).is_err());
    }
}
