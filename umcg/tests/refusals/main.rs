//! System calls that are refused: by a filter, for good or for a moment, from the start or later.
//!
//! Each case is a process of its own that puts the filter on itself.

mod child;
mod document;
mod driver;
mod filter;
mod matrix;
mod rest;
mod table;
mod workload;

use child::run;

/// The program that the processes of the other tests run. On its own this is no test.
#[test]
fn scenario() {
    let Some(asked) = child::asked() else { return };
    match asked[0].as_str() {
        "driver" => driver::scenario(&asked[1]),
        "matrix" => matrix::scenario(&asked[1..]),
        "rest" => rest::scenario(&asked[1]),
        other => panic!("no scenario: {other}"),
    }
    std::process::exit(0);
}
