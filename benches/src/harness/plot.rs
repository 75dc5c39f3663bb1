//! The picture: one panel a metric, one line a row, a dot at the median and whiskers from minimum
//! to maximum. Rows that have a box are in Tukey diagrams instead.

use super::boxes::Figure;
use super::canvas::{self, Area};
use super::report::describe;
use super::{Graph, Params, Report, Row, Section, number, words};
use anyhow::{Result, ensure};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;
use std::path::Path;

pub(crate) const WIDTH: u32 = 1000;
const LINE: u32 = 22;
const HEAD: u32 = 54;
const FOOT: u32 = 48;
/// A line at the end.
const NOTE: u32 = 17;
const NAMES: u32 = 150;
const VALUES: u32 = 150;
pub(crate) const GREY: RGBColor = RGBColor(110, 110, 110);
/// Distinct also for most colour-blind readers (Okabe and Ito).
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(148, 103, 189),
];
/// Figures further apart than this get a logarithmic axis.
const LINEAR: f64 = 20.0;

/// The contents of one line of a panel.
enum Line<'a> {
    Group(String),
    Row(&'a Row),
}

struct Panel<'a> {
    section: &'a Section,
    lines: Vec<Line<'a>>,
}

impl<'a> Panel<'a> {
    fn new(report: &'a Report, section: &'a Section) -> Option<Self> {
        let fits =
            |row: &&Row| row.metric == section.metric && row.min > 0.0 && row.tukey.is_none();
        let rows: Vec<&Row> = report.rows.iter().filter(fits).collect();
        let mut groups: Vec<Params> = Vec::new();
        rows.iter().map(|row| row.group()).for_each(|group| {
            if !groups.contains(&group) {
                groups.push(group);
            }
        });
        let mut lines = Vec::new();
        for group in groups {
            lines.push(Line::Group(describe(&group)));
            lines.extend(
                rows.iter()
                    .filter(|row| row.group() == group)
                    .map(|row| Line::Row(row)),
            );
        }
        (!lines.is_empty()).then_some(Self { section, lines })
    }

    fn height(&self) -> u32 {
        HEAD + FOOT + LINE * self.lines.len() as u32
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(row) => Some(*row),
            Line::Group(_) => None,
        })
    }

    /// The smallest and the largest figure, whiskers included.
    fn range(&self) -> Range<f64> {
        self.rows().fold(f64::INFINITY..0.0, |range, row| {
            range.start.min(row.min)..range.end.max(row.max)
        })
    }
}

/// Draws `sections` and `graphs` of `report` into a file.
pub fn plot(report: &Report, sections: &[Section], graphs: &[Graph], file: &Path) -> Result<()> {
    let panels: Vec<Panel<'_>> = sections
        .iter()
        .filter_map(|section| Panel::new(report, section))
        .collect();
    let figures: Vec<Figure<'_>> = graphs
        .iter()
        .filter_map(|graph| Figure::new(report, graph))
        .collect();
    ensure!(
        !panels.is_empty() || !figures.is_empty(),
        "there is nothing to plot"
    );
    let foot = foot(report, sections, !panels.is_empty());
    let height = panels.iter().map(Panel::height).sum::<u32>()
        + figures.iter().map(Figure::height).sum::<u32>()
        + NOTE * foot.len() as u32
        + LINE / 2;
    canvas::draw(file, (WIDTH, height), |root| {
        draw(root, report, &panels, &figures)?;
        let top = (height - NOTE * foot.len() as u32) as i32;
        for (place, line) in foot.into_iter().enumerate() {
            let place = (NAMES as i32, top + NOTE as i32 * place as i32);
            let style = ("sans-serif", 12).into_font().color(&GREY);
            root.draw(&Text::new(line, place, style))?;
        }
        Ok(root.present()?)
    })
}

/// The lines below all: marks and names, and the machine.
fn foot(report: &Report, sections: &[Section], has_panels: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if has_panels {
        let marks = "dot: median of the rounds; line with ends: from the smallest to the largest; \
                     behind it: the median from the axis";
        lines.push(marks.to_owned());
    }
    for (name, meaning) in sections.iter().flat_map(|it| words::key(report, it)) {
        let line = format!("{name}: {meaning}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let machine = &report.machine;
    lines.push(format!(
        "{}, {} CPUs, Linux {}",
        machine.cpu, machine.cpus, machine.kernel
    ));
    lines
}

fn draw(
    root: &Area<'_>,
    report: &Report,
    panels: &[Panel<'_>],
    figures: &[Figure<'_>],
) -> Result<()> {
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for panel in panels {
        let (area, below) = rest.split_vertically(panel.height());
        rest = below;
        let range = panel.range();
        if range.end / range.start > LINEAR {
            let logarithmic = range.start / 2.0..range.end * 2.0;
            draw_panel(
                &area,
                report,
                panel,
                logarithmic.start,
                logarithmic.log_scale(),
                "logarithmic scale",
            )?;
        } else {
            draw_panel(&area, report, panel, 0.0, 0.0..range.end * 1.05, "")?;
        }
    }
    for figure in figures {
        let (area, below) = rest.split_vertically(figure.height());
        rest = below;
        figure.draw(&area, report)?;
    }
    Ok(())
}

/// Those of the words that are not empty.
fn listed(words: &[&str]) -> String {
    let words: Vec<_> = words
        .iter()
        .copied()
        .filter(|word| !word.is_empty())
        .collect();
    words.join(", ")
}

/// A row's lines: a faint one from the axis to its median, and one from its least to its most with
/// an end at each.
fn strokes(row: &Row, floor: f64, y: f64, colour: RGBColor) -> [PathElement<(f64, f64)>; 4] {
    let thin = colour.stroke_width(2);
    let end = |x| PathElement::new(vec![(x, y - 0.2), (x, y + 0.2)], thin);
    let faint = colour.mix(0.25).stroke_width(6);
    [
        PathElement::new(vec![(floor, y), (row.median, y)], faint),
        PathElement::new(vec![(row.min, y), (row.max, y)], thin),
        end(row.min),
        end(row.max),
    ]
}

fn draw_panel<X>(
    area: &Area<'_>,
    report: &Report,
    panel: &Panel<'_>,
    floor: f64,
    axis: X,
    scale: &str,
) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let unit = panel.rows().next().map_or("", |row| row.unit);
    let reference = panel.section.references.first();
    let beside = reference.map_or_else(String::new, |name| {
        format!("(x N): N times as good as {name}")
    });
    let mut chart = ChartBuilder::on(area)
        .caption(panel.section.title, ("sans-serif", 18))
        .margin_top(10)
        .margin_right(VALUES)
        .x_label_area_size(FOOT - 6)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, 0.0..panel.lines.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .light_line_style(WHITE)
        .x_labels(8)
        .x_label_formatter(&|value| number(*value))
        .x_desc(listed(&[unit, scale, &beside]))
        .draw()?;
    let cases = cases(report);
    for (index, line) in panel.lines.iter().enumerate() {
        let y = panel.lines.len() as f64 - index as f64 - 0.5;
        let left = chart.backend_coord(&(floor, y));
        let row = match line {
            Line::Group(name) => {
                let style = label(HPos::Left, BLACK);
                write(area, name.clone(), at(area, left, 6), style)?;
                continue;
            }
            Line::Row(row) => *row,
        };
        let colour = colour(&cases, row.case);
        chart.draw_series(strokes(row, floor, y, colour))?;
        chart.draw_series([Circle::new((row.median, y), 4, colour.filled())])?;
        let figure = figure(report, panel.section, row);
        write_beside(area, left, row.label(), figure)?;
    }
    Ok(())
}

/// A row's name and its figure, on either side of its marks.
fn write_beside(area: &Area<'_>, left: (i32, i32), name: String, figure: String) -> Result<()> {
    write(area, name, at(area, left, -8), label(HPos::Right, BLACK))?;
    let right = (WIDTH as i32 - VALUES as i32, left.1);
    write(area, figure, at(area, right, 8), label(HPos::Left, GREY))
}

/// Every case of the report once, so that each keeps its colour from panel to panel.
pub(super) fn cases(report: &Report) -> Vec<&'static str> {
    let mut cases = Vec::new();
    report.rows.iter().for_each(|row| {
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    });
    cases
}

pub(super) fn colour(cases: &[&str], case: &str) -> RGBColor {
    COLOURS[cases.iter().position(|other| *other == case).unwrap_or(0) % COLOURS.len()]
}

/// The median, and how it compares with the first reference.
fn figure(report: &Report, section: &Section, row: &Row) -> String {
    let ratio = section
        .references
        .first()
        .and_then(|reference| report.ratio(row, reference));
    ratio.map_or_else(
        || number(row.median),
        |ratio| format!("{} (x {})", number(row.median), number(ratio)),
    )
}

/// A point of the whole picture as a point of `area`, moved to the right.
pub(crate) fn at(area: &Area<'_>, point: (i32, i32), right: i32) -> (i32, i32) {
    let (x, y) = area.get_base_pixel();
    (point.0 - x + right, point.1 - y)
}

pub(crate) fn write(
    area: &Area<'_>,
    text: String,
    place: (i32, i32),
    style: TextStyle<'_>,
) -> Result<()> {
    Ok(area.draw(&Text::new(text, place, style))?)
}

pub(crate) fn label(horizontal: HPos, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", 13)
        .into_font()
        .color(&colour)
        .pos(Pos::new(horizontal, VPos::Center))
}
