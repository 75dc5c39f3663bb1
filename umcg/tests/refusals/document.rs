//! The table in `docs/refusals.md` has a row for each system call, and names each module that makes
//! it.

use crate::table::{NAMES, NO_CALLS, TESTED, UNTESTED};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which parts of the sources make which calls.
type Sites = BTreeMap<String, BTreeSet<String>>;

/// The beginnings of the names of the system's functions.
const BEGINNINGS: [&str; 2] = ["libc::", "rustix::"];
/// Names that are looked for after any prefix.
const ANYWHERE: [&str; 15] = [
    "futex::cmp_requeue",
    "futex::requeue",
    "futex::wait",
    "futex::wait_bitset",
    "futex::waitv",
    "futex::wake",
    "thread::Builder::new",
    "thread::spawn",
    "thread::sleep",
    "process::Command::new",
    "IoUring::builder",
    "RawDir::new",
    "register_probe",
    "register_sync_cancel",
    "submit_and_wait",
];
/// They read numbers of calls that others have made, or make.
const READ_NUMBERS: [&str; 6] = [
    "umcg/src/intercept/attributes.rs",
    "umcg/src/intercept/notice/before.rs",
    "umcg/src/intercept/notice/others.rs",
    "umcg/src/intercept/notice/stuck.rs",
    "umcg/src/intercept/signal/sets.rs",
    "umcg/src/rt/run/kernel_call.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All sources, without files of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            found.push(path);
        }
    }
}

/// Without comments, and without the tests at the end.
fn code(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The functions of `rustix` that a file has imported, or modules of it: names from which no path
/// goes on, within the import.
fn imported(code: &str) -> BTreeSet<&str> {
    let imports = code
        .match_indices("use rustix::")
        .map(|(at, _)| code[at..].split(';').next().unwrap_or_default());
    let leaves = imports
        .flat_map(|import| import.split([',', '{', '}']))
        .filter_map(|part| part.trim().rsplit("::").next());
    leaves.filter(|leaf| is_function(leaf)).collect()
}

fn is_function(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
}

/// All names of functions of the system's that a file calls.
fn named(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, beginning) in code.match_indices("SYS_") {
        let rest = &code[at + beginning.len()..];
        names.insert(
            rest[..rest
                .find(|character| !is_word(character))
                .unwrap_or(rest.len())]
                .to_owned(),
        );
    }
    let imported = imported(code);
    for (at, _) in code.match_indices('(') {
        let before = &code[..at];
        let begin = before
            .rfind(|character| !is_word(character) && character != ':')
            .map_or(0, |at| at + 1);
        let name = &before[begin..];
        if let Some(known) = ANYWHERE
            .iter()
            .find(|known| name.ends_with(**known) && !name.starts_with("crate::"))
        {
            names.insert((*known).to_owned());
        }
        // Methods, functions of types, and declarations are none.
        let is_own = before[..begin].ends_with('.') || before[..begin].ends_with("fn ");
        if is_own || !name.split("::").all(is_function) {
            continue;
        }
        if BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        {
            names.insert(name.rsplit("::").next().unwrap_or_default().to_owned());
        } else if imported.contains(name.split("::").next().unwrap_or_default()) {
            names.insert(name.to_owned());
        }
    }
    names
}

/// All system calls that the tables know.
fn known() -> impl Iterator<Item = &'static &'static str> {
    TESTED.iter().map(|row| &row.name).chain(UNTESTED)
}

fn calls(name: &str) -> Option<&'static [&'static str]> {
    let last = name.rsplit("::").next().unwrap_or_default();
    let of = |name: &str| {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, calls)| *calls)
    };
    let own = || {
        known()
            .find(|call| **call == last)
            .map(std::slice::from_ref)
    };
    // The calls by which the C library makes threads are its own.
    let none = || (NO_CALLS.contains(&last) || last.starts_with("pthread_")).then_some(&[][..]);
    // `futex::wait` is not `wait`: the longer name first.
    of(name).or_else(|| of(last)).or_else(own).or_else(none)
}

/// The calls of all crates, and the names that are not in the list.
fn made() -> (Sites, Vec<String>) {
    let (mut sites, mut unknown) = (Sites::new(), Vec::new());
    for folder in ["umcg-context/src", "umcg-core/src", "umcg/src", "capi/src"] {
        let mut files = Vec::new();
        sources(&root().join(folder), &mut files);
        for file in files {
            let name = file
                .strip_prefix(root())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if READ_NUMBERS.contains(&name.as_str()) {
                continue;
            }
            // The module of the crate: code that moves within one is the same part.
            let name = name.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            for function in named(&code(&fs::read_to_string(&file).unwrap())) {
                match calls(&function) {
                    None => unknown.push(format!("{name}: {function}")),
                    Some(calls) => {
                        for call in calls {
                            sites
                                .entry((*call).to_owned())
                                .or_default()
                                .insert(name.clone());
                        }
                    }
                }
            }
        }
    }
    (sites, unknown)
}

/// The rows of the document: a call, and the files.
fn documented() -> Sites {
    let text = fs::read_to_string(root().join("docs/refusals.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let call = cells.next()?.trim_end_matches('`').to_owned();
        let files = cells
            .next()?
            .split(", ")
            .map(|file| file.trim_matches('`').to_owned())
            .filter(|file| file != "std")
            .collect();
        Some((call, files))
    });
    rows.collect()
}

#[test]
fn each_call_that_the_sources_make_has_its_row_and_each_row_its_sources() {
    let (made, unknown) = made();
    assert!(
        unknown.is_empty(),
        "tests/refusals/table.rs does not know which system calls these make: {unknown:#?}"
    );
    let documented = documented();
    for (call, files) in &made {
        let files: Vec<_> = files.iter().map(|file| format!("`{file}`")).collect();
        let row = documented.get(call).map(|files| {
            files
                .iter()
                .map(|file| format!("`{file}`"))
                .collect::<Vec<_>>()
        });
        // A call that is never refused is made everywhere.
        if row.is_some() && UNTESTED.contains(&call.as_str()) {
            continue;
        }
        assert_eq!(
            row.as_ref(),
            Some(&files),
            "docs/refusals.md: the row of {call}: {}",
            files.join(", ")
        );
    }
    for (call, files) in &documented {
        assert!(
            made.contains_key(call) || files.is_empty(),
            "docs/refusals.md: {call} is not made"
        );
        assert!(
            known().any(|name| name == call),
            "tests/refusals/table.rs has no row for {call}"
        );
    }
    for name in known() {
        assert!(
            documented.contains_key(*name),
            "docs/refusals.md has no row for {name}"
        );
    }
}

#[test]
fn a_call_is_seen_however_it_is_written() {
    let text = "use rustix::thread::{futex, membarrier};\n\
        fn f() { unsafe { libc::open(a) }; libc::SYS_tgkill; rustix::fs::fstat(b); \
        // libc::close(c)\nfutex::wait(d); membarrier(e); self.membarrier(g) }";
    let names: Vec<_> = named(&code(text)).into_iter().collect();
    assert_eq!(
        names,
        ["fstat", "futex::wait", "membarrier", "open", "tgkill"]
    );
}
