//! Draws a trace: a row a server, in it a bar for each run, coloured by thread.
//!
//! Runs that would be narrower than a pixel are one bar with the neighbours, of the thread that has
//! the most of its time. So a trace of any length is a picture of some hundred kilobytes at most.

use super::read::Trace;
use super::{milliseconds, span};
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: usize = 1200;
const LEFT: usize = 180;
const ROW: usize = 28;
const TOP: usize = 40;
/// The most threads that the legend names.
const NAMED: usize = 40;

/// A bar: its first pixel, the one behind its last, and its thread.
struct Bar {
    from: usize,
    to: usize,
    thread: usize,
}

pub(super) fn draw(trace: &Trace) -> String {
    let (begin, end) = span(trace);
    let rows = trace.servers.len();
    let named = trace.threads.len().min(NAMED);
    let height = TOP + ROW * (rows + 1) + 18 * named.div_ceil(4) + 30;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\">{:.3} ms</text>\n",
        LEFT + WIDTH + 20,
        milliseconds(end - begin),
    );
    for (server, name) in trace.servers.iter().enumerate() {
        let y = TOP + ROW * server;
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{}\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"20\" fill=\"#eee\"/>",
            y + 15,
            escaped(name),
        );
        for bar in bars(trace, server, begin, end) {
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"20\" fill=\"{}\">\
                 <title>{}</title></rect>",
                LEFT + bar.from,
                bar.to - bar.from,
                colour(bar.thread),
                escaped(&trace.threads[bar.thread]),
            );
        }
    }
    legend(&mut svg, trace, TOP + ROW * (rows + 1));
    svg.push_str("</svg>\n");
    svg
}

/// The bars of a server.
fn bars(trace: &Trace, server: usize, begin: u64, end: u64) -> Vec<Bar> {
    let scale = WIDTH as f64 / (end - begin).max(1) as f64;
    // By pixel: the time of each thread there.
    let mut pixels: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); WIDTH];
    for run in trace.runs.iter().filter(|run| run.server == server) {
        let from = (run.begin - begin) as f64 * scale;
        let to = (run.end - begin) as f64 * scale;
        let last = (to as usize).min(WIDTH - 1);
        for (pixel, times) in pixels
            .iter_mut()
            .enumerate()
            .take(last + 1)
            .skip(from as usize)
        {
            let part = to.min(pixel as f64 + 1.0) - from.max(pixel as f64);
            *times.entry(run.thread).or_default() += part;
        }
    }
    let mut bars: Vec<Bar> = Vec::new();
    for (pixel, times) in pixels.iter().enumerate() {
        let most = times.iter().max_by(|one, other| one.1.total_cmp(other.1));
        let Some((thread, _)) = most else { continue };
        match bars.last_mut() {
            Some(bar) if bar.to == pixel && bar.thread == *thread => bar.to += 1,
            _ => bars.push(Bar {
                from: pixel,
                to: pixel + 1,
                thread: *thread,
            }),
        }
    }
    bars
}

fn legend(svg: &mut String, trace: &Trace, top: usize) {
    for (thread, name) in trace.threads.iter().enumerate().take(NAMED) {
        let x = LEFT + thread % 4 * (WIDTH / 4);
        let y = top + thread / 4 * 18;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>",
            colour(thread),
            x + 18,
            y + 11,
            escaped(name),
        );
    }
}

/// Colours that follow each other differ by the golden angle.
fn colour(thread: usize) -> String {
    let hue = thread as f64 * 137.508 % 360.0;
    format!("hsl({hue:.0},65%,{}%)", 45 + thread / 3 % 3 * 10)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::read::{Run, Trace};

    #[test]
    fn each_server_has_a_row_and_each_long_run_a_bar() {
        let run = |server, thread, begin, end| Run {
            server,
            thread,
            begin,
            end,
            stopped: "yields".to_owned(),
        };
        let trace = Trace {
            servers: vec!["one".into(), "two".into()],
            threads: vec!["a <1>".into(), "b".into()],
            runs: vec![run(0, 0, 0, 600), run(0, 1, 600, 1200), run(1, 1, 300, 500)],
        };
        let svg = super::draw(&trace);
        assert_eq!(svg.matches("<title>").count(), 3, "{svg}");
        assert!(
            svg.contains("width=\"600\"") && svg.contains("a &lt;1&gt;"),
            "{svg}"
        );
    }
}
