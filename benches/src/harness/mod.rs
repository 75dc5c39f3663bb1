//! Runs the sides of a comparison so that the ratio of two of them is fair, and reports.
//!
//! - All sides run in one process. They alternate: a *round* gives each side its turn, and there
//!   are several rounds after one that only warms up. The order of the sides is turned round in
//!   every other round, so that drift of the machine cancels out.
//! - Each turn runs on a fresh kernel thread, pinned before it starts. Nothing of one turn is left
//!   to the next except the state that the libraries themselves keep.
//! - A side reports one figure a turn for each of its metrics. The report has the median, minimum
//!   and maximum over the rounds.

mod boxes;
mod case;
mod child;
mod choice;
pub mod cpu;
mod go;
mod machine;
mod measure;
mod plot;
mod progress;
mod report;
mod run;
mod stats;
mod table;
mod tukey;

pub use boxes::Graph;
pub use case::{Better, Case, Metric, Params, Turn, higher, lower};
pub use child::{Child, Program, answer};
pub use choice::{Choice, Options, Pattern, name};
pub use go::Go;
pub use machine::Machine;
pub use measure::{Pace, Sample, TICKS_UNIT, measure, ticks, time};
pub use plot::plot;
/// The common parts of pictures.
pub(crate) mod picture {
    pub(crate) use super::plot::{Area, COLOURS, GREY, WIDTH, at, label, write};
}
pub(crate) use progress::Progress;
pub(crate) use report::describe;
pub use report::{Report, Row};
pub use run::{Plan, run, run_groups};
pub use stats::Summary;
pub use table::{Column, Section, number, table};
pub use tukey::{Spread, Tukey};
