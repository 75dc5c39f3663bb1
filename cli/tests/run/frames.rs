//! Frames of the library that code of the program's may unwind at any instruction: a handler of
//! signals that is cancelled, throws or jumps, and has interrupted them.
//!
//! A function with landing pads has a personality routine. That of Rust ends the process at a place
//! from which the function makes no call. So these have none.

use std::collections::BTreeSet;
use std::process::Command;

/// The engine and the kernel have the addresses of the first three. The others may be parts of
/// these.
const UNWOUND: [&str; 5] = [
    "umcg::intercept::hook::hook",
    "umcg::intercept::signal::run",
    "umcg::intercept::signal::run_since",
    "umcg::intercept::signal::handle",
    "umcg::intercept::signal::call_program",
];

/// The lines that a program prints. None if it is not there.
fn lines(program: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let output = Command::new(program).args(arguments).output().ok()?;
    assert!(output.status.success(), "{program}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

/// Where functions begin that have a personality routine, and where all do that have unwind tables.
fn functions(tables: &[String]) -> [BTreeSet<u64>; 2] {
    let (mut with_routine, mut all) = (BTreeSet::new(), BTreeSet::new());
    // The common part of some functions, which comes before them.
    let (mut common, mut personal) = (String::new(), BTreeSet::new());
    for line in tables {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [place, _, _, "CIE", ..] => common = place.to_owned(),
            ["Augmentation:", kinds] if kinds.contains('P') => {
                personal.insert(common.clone());
            }
            [_, _, _, "FDE", of, range] => {
                let begin = range.trim_start_matches("pc=").split("..").next().unwrap();
                let begin = u64::from_str_radix(begin, 16).unwrap();
                all.insert(begin);
                if personal.contains(of.trim_start_matches("cie=")) {
                    with_routine.insert(begin);
                }
            }
            _ => {}
        }
    }
    [with_routine, all]
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn frames_that_handlers_unwind_have_no_landing_pads() {
    let umcg = env!("CARGO_BIN_EXE_umcg");
    let library = lines(umcg, &["run", "--", "printenv", "LD_PRELOAD"]).unwrap();
    let library = library[0].as_str();
    let (Some(symbols), Some(tables)) = (
        lines("nm", &["--demangle", "--defined-only", library]),
        lines("readelf", &["--debug-dump=frames", library]),
    ) else {
        println!("SKIPPED: no binutils");
        return;
    };
    let [with_routine, all] = functions(&tables);
    for (index, name) in UNWOUND.into_iter().enumerate() {
        let symbol = symbols.iter().find_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            (rest.get(2..)? == name).then(|| u64::from_str_radix(address, 16).unwrap())
        });
        let Some(begin) = symbol else {
            assert!(index >= 3, "{name} is not there");
            continue;
        };
        assert!(all.contains(&begin), "{name} has no unwind table");
        assert!(!with_routine.contains(&begin), "{name} has landing pads");
    }
    assert!(with_routine.len() > 100, "the tables are read wrongly");
}
