//! The picture: for each workload, the efficiency over the number of servers.

use super::{EFFICIENCY, MEASURED, P99, SERVERS};
use crate::harness::picture::{Area, COLOURS, GREY, WIDTH, draw, label};
use crate::harness::{Report, Row};
use anyhow::{Result, ensure};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use serde_json::Value;
use std::path::Path;
use umcg_sim::Workload;

const HEIGHT: u32 = 260;
const FOOT: u32 = 30;

/// A panel: a metric of a workload.
struct Panel<'a> {
    workload: Workload,
    metric: &'static str,
    rows: Vec<&'a Row>,
}

/// Draws a report into a file.
pub fn plot(report: &Report, file: &Path) -> Result<()> {
    let panel = |(workload, metric): (Workload, &'static str)| {
        let fits = |row: &&Row| {
            row.metric == metric && row.params.get("workload") == Some(&workload.name().into())
        };
        let rows: Vec<&Row> = report.rows.iter().filter(fits).collect();
        (!rows.is_empty()).then_some(Panel {
            workload,
            metric,
            rows,
        })
    };
    let all = Workload::ALL.map(|workload| (workload, EFFICIENCY.name));
    let panels: Vec<Panel<'_>> = all
        .into_iter()
        .chain([(Workload::Echo, P99.name)])
        .filter_map(panel)
        .collect();
    ensure!(!panels.is_empty(), "there is nothing to plot");
    let lines = panels.len().div_ceil(2) as u32;
    let size = (WIDTH, lines * HEIGHT + FOOT);
    draw(file, size, |root| paint(root, &panels))
}

fn paint(root: &Area<'_>, panels: &[Panel<'_>]) -> Result<()> {
    root.fill(&WHITE)?;
    let lines = panels.len().div_ceil(2);
    let (above, below) = root.split_vertically(lines as u32 * HEIGHT);
    for (area, panel) in above.split_evenly((lines, 2)).iter().zip(panels) {
        panel.draw(area)?;
    }
    let [one, two, dot, ..] = COLOURS;
    for (place, (text, colour)) in [
        ("simulated, one socket", one),
        ("simulated, two sockets", two),
        ("measured", dot),
    ]
    .into_iter()
    .enumerate()
    {
        let left = 30 + 250 * place as i32;
        below.draw(&Circle::new((left, 10), 4, colour.filled()))?;
        below.draw(&Text::new(text, (left + 12, 10), label(HPos::Left, GREY)))?;
    }
    root.present()?;
    Ok(())
}

fn number_of(row: &Row, key: &str) -> u64 {
    row.params.get(key).and_then(Value::as_u64).unwrap_or(0)
}

impl Panel<'_> {
    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let most = self.rows.iter().map(|row| row.median).fold(1.0, f64::max);
        let most = if self.metric == EFFICIENCY.name {
            1.0
        } else {
            most
        };
        let most_servers = SERVERS[SERVERS.len() - 1] as u64;
        let mut chart = ChartBuilder::on(area)
            .caption(
                format!("{}: {}", self.workload.name(), self.metric),
                ("sans-serif", 16),
            )
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d((1_u64..most_servers).log_scale(), 0.0..most)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("servers")
            .y_desc(self.rows[0].unit)
            .draw()?;
        let points = |takes: &dyn Fn(&Row) -> bool| -> Vec<(u64, f64)> {
            let rows = self.rows.iter().filter(|row| takes(row));
            rows.map(|row| (number_of(row, "servers"), row.median))
                .collect()
        };
        for sockets in [1, 2] {
            let colour = COLOURS[sockets - 1];
            let its =
                |row: &Row| row.case != MEASURED && number_of(row, "sockets") == sockets as u64;
            let line = points(&its);
            let dots = line.clone().into_iter();
            chart.draw_series(dots.map(|dot| Circle::new(dot, 3, colour.filled())))?;
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
        }
        let measured = points(&|row| row.case == MEASURED);
        let dot = |point| Circle::new(point, 4, COLOURS[2].filled());
        chart.draw_series(measured.into_iter().map(dot))?;
        Ok(())
    }
}
