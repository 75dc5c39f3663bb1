//! Tukey diagrams: a panel for each combination of parameters but one, which is the axis from left
//! to right, and at each of its values a box for each case.

use super::canvas::Area;
use super::plot::{COLOURS, GREY, WIDTH, at, cases, colour, label};
use super::report::describe;
use super::{Params, Report, Row, Tukey, number};
use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;

/// Panels in a line; and one in a line where there are more than this many boxes beside each other.
const COLUMNS: usize = 2;
const MANY: usize = 6;
const HEIGHT: u32 = 300;
const TITLE: u32 = 36;
const LEGEND: u32 = 20;
const KEY: &str = "box: the middle half of the operations; line: median; dot: mean; \
                   whiskers: up to one and a half boxes from the box; circles: smallest and \
                   largest";
/// Of a legend in a line.
const LEGENDS: usize = 5;

/// Diagrams of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// Stands above them.
    pub title: &'static str,
    /// Of the rows to draw; those that have a box.
    pub metric: &'static str,
    /// The parameter from left to right.
    pub across: &'static str,
}

/// The part of a report that a graph shows.
pub(super) struct Figure<'a> {
    graph: &'a Graph,
    /// The data of the boxes, in the order of the rows.
    labels: Vec<String>,
    panels: Vec<Panel<'a>>,
}

/// Rows that differ in the parameter that is the axis, and in their case.
struct Panel<'a> {
    params: Params,
    rows: Vec<&'a Row>,
}

/// Adds the one that is not there yet.
fn add<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

impl<'a> Figure<'a> {
    pub(super) fn new(report: &'a Report, graph: &'a Graph) -> Option<Self> {
        let (mut labels, mut panels) = (Vec::new(), Vec::<Panel<'_>>::new());
        for row in report
            .rows
            .iter()
            .filter(|row| row.metric == graph.metric && row.tukey.is_some())
        {
            add(&mut labels, row.label());
            let mut params = row.group();
            params.remove(graph.across);
            match panels.iter_mut().find(|panel| panel.params == params) {
                Some(panel) => panel.rows.push(row),
                None => panels.push(Panel {
                    params,
                    rows: vec![row],
                }),
            }
        }
        (!panels.is_empty()).then_some(Self {
            graph,
            labels,
            panels,
        })
    }

    fn head(&self) -> u32 {
        TITLE + LEGEND * (1 + self.labels.len().div_ceil(LEGENDS)) as u32
    }

    pub(super) fn height(&self) -> u32 {
        self.head() + HEIGHT * self.lines() as u32
    }

    fn columns(&self) -> usize {
        if self.labels.len() > MANY || self.panels.len() == 1 {
            1
        } else {
            COLUMNS
        }
    }

    fn lines(&self) -> usize {
        self.panels.len().div_ceil(self.columns())
    }

    pub(super) fn draw(&self, area: &Area<'_>, report: &Report) -> Result<()> {
        let (head, body) = area.split_vertically(self.head());
        let middle = (WIDTH as i32 / 2, 18);
        let large = ("sans-serif", 18)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, VPos::Center));
        head.draw(&Text::new(self.graph.title, middle, large))?;
        for (index, name) in self.labels.iter().enumerate() {
            let left = 40 + (index % LEGENDS) as i32 * (WIDTH as i32 - 60) / LEGENDS as i32;
            let top = TITLE as i32 + (index / LEGENDS) as i32 * LEGEND as i32;
            let style = self.style(index, report);
            head.draw(&Rectangle::new(
                [(left, top), (left + 12, top + 12)],
                style.mix(0.5).filled(),
            ))?;
            head.draw(&Rectangle::new(
                [(left, top), (left + 12, top + 12)],
                style.stroke_width(1),
            ))?;
            head.draw(&Text::new(
                name.clone(),
                (left + 18, top + 6),
                label(HPos::Left, BLACK),
            ))?;
        }
        head.draw(&Text::new(
            KEY,
            (40, self.head() as i32 - LEGEND as i32 / 2),
            label(HPos::Left, GREY),
        ))?;
        let areas = body.split_evenly((self.lines(), self.columns()));
        self.panels
            .iter()
            .zip(&areas)
            .try_for_each(|(panel, area)| self.draw_panel(area, panel, report))
    }

    /// Each box has a colour of its own as long as there are some. Else it is the colour of the
    /// case, whose variants get lighter.
    fn style(&self, index: usize, report: &Report) -> RGBAColor {
        if self.labels.len() <= COLOURS.len() {
            return COLOURS[index].to_rgba();
        }
        let case = self.labels[index].split(' ').next().unwrap_or_default();
        let same = |name: &&String| name.split(' ').next() == Some(case);
        let before = self.labels[..index].iter().filter(same).count();
        colour(&cases(report), case).mix(0.55_f64.powi(before as i32))
    }

    /// Of all panels: boxes of one are as high as those of another.
    fn range(&self) -> std::ops::Range<f64> {
        let rows = self.panels.iter().flat_map(|panel| &panel.rows);
        let boxes = rows.filter_map(|row| row.tukey);
        let range = boxes.fold(f64::INFINITY..0.0, |range, tukey| {
            range.start.min(tukey.min)..range.end.max(tukey.max)
        });
        // On this axis there is no zero: the clock may not have moved.
        range.start.max(1.0) / 1.5..range.end.max(2.0) * 1.5
    }

    fn draw_panel(&self, area: &Area<'_>, panel: &Panel<'_>, report: &Report) -> Result<()> {
        let values = panel.values(self.graph.across);
        let unit = panel.rows.first().map_or("", |row| row.unit);
        let mut chart = ChartBuilder::on(area)
            .caption(describe(&panel.params), ("sans-serif", 14))
            .margin(8)
            .margin_right(20)
            .x_label_area_size(34)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..values.len() as f64, self.range().log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .x_labels(0)
            .y_labels(8)
            .light_line_style(WHITE)
            .y_label_formatter(&|value| number(*value))
            .y_desc(unit)
            .draw()?;
        let (low, count) = (self.range().start, self.labels.len() as f64);
        for (place, value) in values.iter().enumerate() {
            let below = chart.backend_coord(&(place as f64 + 0.5, low));
            let name = format!("{} {}", self.graph.across, super::table::text(value));
            area.draw(&Text::new(
                name,
                at(area, (below.0, below.1 + 12), 0),
                label(HPos::Center, GREY),
            ))?;
            for row in panel
                .rows
                .iter()
                .filter(|row| row.params.get(self.graph.across) == Some(value))
            {
                let (Some(tukey), Some(index)) = (
                    &row.tukey,
                    self.labels.iter().position(|name| *name == row.label()),
                ) else {
                    continue;
                };
                let middle = place as f64 + 0.1 + 0.8 * (index as f64 + 0.5) / count;
                let (half, style) = (0.32 / count, self.style(index, report));
                let corners = [(middle - half, tukey.q1), (middle + half, tukey.q3)];
                chart.draw_series([Rectangle::new(corners, style.mix(0.5).filled())])?;
                chart.draw_series(outline(tukey, middle, half, style))?;
                chart.draw_series([Circle::new((middle, tukey.mean), 2, BLACK.filled())])?;
                let far = [tukey.min, tukey.max]
                    .into_iter()
                    .filter(|value| *value < tukey.low || *value > tukey.high);
                chart.draw_series(
                    far.map(|value| Circle::new((middle, value), 2, style.stroke_width(1))),
                )?;
            }
        }
        Ok(())
    }
}

impl Panel<'_> {
    /// Of the axis.
    fn values(&self, across: &str) -> Vec<Value> {
        let mut values = Vec::new();
        self.rows
            .iter()
            .filter_map(|row| row.params.get(across))
            .for_each(|value| add(&mut values, value.clone()));
        values
    }
}

/// Around the box, at the median, and the whiskers.
fn outline(
    tukey: &Tukey,
    middle: f64,
    half: f64,
    colour: RGBAColor,
) -> Vec<PathElement<(f64, f64)>> {
    let Tukey {
        low,
        q1,
        median,
        q3,
        high,
        ..
    } = *tukey;
    let line =
        |points: Vec<(f64, f64)>, width: u32| PathElement::new(points, colour.stroke_width(width));
    let (left, right) = (middle - half, middle + half);
    vec![
        line(
            vec![(left, q1), (right, q1), (right, q3), (left, q3), (left, q1)],
            1,
        ),
        line(vec![(left, median), (right, median)], 2),
        line(vec![(middle, q3), (middle, high)], 1),
        line(vec![(middle, q1), (middle, low)], 1),
        line(
            vec![(middle - half / 2.0, high), (middle + half / 2.0, high)],
            1,
        ),
        line(
            vec![(middle - half / 2.0, low), (middle + half / 2.0, low)],
            1,
        ),
    ]
}
