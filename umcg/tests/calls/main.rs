//! The table of system calls (`umcg/src/intercept/class`) is complete, keeps its own invariants, is
//! the one in docs/calls.md, and says of threads what the kernel does.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod arguments;
#[path = "../../src/intercept/class/mod.rs"]
mod class;
mod document;
mod invariants;
mod kernel;
mod numbers;

use class::Row;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Numbers that the kernel leaves out, for other processors' sake.
const GAP: RangeInclusive<usize> = 337..=423;
/// The last call that the table knows.
const LAST: usize = 471;

fn rows() -> impl Iterator<Item = &'static Row> {
    class::ROWS.into_iter().flatten()
}

fn names() -> BTreeMap<usize, &'static str> {
    let mut names = BTreeMap::new();
    for (number, name) in rows().flat_map(|row| row.calls) {
        let other = names.insert(*number, *name);
        assert_eq!(other, None, "{name} has the number of another");
    }
    names
}

fn row(name: &str) -> &'static Row {
    rows()
        .find(|row| row.calls.iter().any(|call| call.1 == name))
        .unwrap_or_else(|| panic!("no row for {name}"))
}

fn number(name: &str) -> usize {
    let calls = row(name).calls;
    calls.iter().find(|call| call.1 == name).unwrap().0
}
