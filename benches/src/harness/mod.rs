//! Runs the sides of a comparison so that the ratio of two of them is fair, and reports.
//!
//! - All sides run in one process. They alternate: a *round* gives each side its turn, and there
//!   are several rounds after one that only warms up. The order of the sides is turned round in
//!   every other round, so that drift of the machine cancels out.
//! - Each turn runs on a fresh kernel thread, pinned before it starts. Nothing of one turn is left
//!   to the next except the state that the libraries themselves keep.
//! - A side reports one figure a turn for each of its metrics. The report has the median, minimum
//!   and maximum over the rounds, their quartiles, and the figures themselves.

mod boxes;
mod canvas;
mod case;
mod child;
mod choice;
pub mod cpu;
mod go;
pub mod judge;
mod machine;
mod measure;
mod notes;
mod plot;
mod progress;
mod report;
mod run;
mod schedule;
mod stats;
mod table;
mod tukey;
pub mod words;

pub use boxes::Graph;
pub use canvas::is_png;
pub use case::{Better, Case, Metric, Params, Turn, higher, lower};
pub use child::{Child, Program, answer};
pub use choice::{Asked, Choice, Fitting, NoSuchRow, Options, Pattern, name};
pub use go::Go;
pub use judge::{Finding, Outcome, Relation};
pub use machine::Machine;
pub use measure::{Pace, Sample, TICKS_UNIT, clock_step, measure, ticks, time};
pub use notes::Notes;
pub use plot::plot;
/// The common parts of pictures.
pub(crate) mod picture {
    pub(crate) use super::canvas::{Area, draw};
    pub(crate) use super::plot::{COLOURS, GREY, WIDTH, at, label, write};
}
pub(crate) use progress::Progress;
pub use progress::tell;
pub(crate) use report::describe;
pub use report::{Report, Row};
pub use run::{Plan, run, run_groups};
pub use stats::Summary;
pub(crate) use table::Grid;
pub use table::{Column, Demand, Section, number, table};
pub use tukey::{Spread, Tukey};
