//! docs/calls.md has the table as it is.

use crate::class::{Class, Rule, State};
use crate::rows;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Set to write the tables of the document anew.
const WRITE: &str = "UMCG_WRITE_CALLS";

type IsIn = fn(Class) -> bool;

/// The tables by name, and the classes that are in each.
const TABLES: [(&str, IsIn); 8] = [
    ("pass", |class| matches!(class, Class::Pass)),
    ("watch", |class| matches!(class, Class::Watch(_))),
    ("user", |class| matches!(class, Class::User(_))),
    ("try", |class| matches!(class, Class::Try(_))),
    ("home", |class| matches!(class, Class::Home)),
    ("change", |class| matches!(class, Class::Change(_))),
    ("thread", |class| matches!(class, Class::Thread(_))),
    ("bare", |class| matches!(class, Class::Bare)),
];

fn calls(list: &[(usize, &str)], separator: &str) -> String {
    let names = list
        .iter()
        .map(|(number, name)| format!("`{name}` {number}"));
    names.collect::<Vec<_>>().join(separator)
}

fn kinds(state: State) -> String {
    let kinds = State::ALL
        .iter()
        .filter(|kind| !kind.0.within(state).is_none());
    kinds.map(|kind| kind.1).collect::<Vec<_>>().join(", ")
}

fn sentence(why: &str, rule: Rule) -> String {
    let arguments = match rule {
        Rule::Never => "",
        _ => " *By arguments.*",
    };
    format!("{why}{arguments}")
}

/// The rows of some classes.
fn table(is_in: IsIn) -> String {
    let mut text =
        String::from("| calls | blocks | depends on | changes | why |\n|---|---|---|---|---|\n");
    for row in rows().filter(|row| is_in(row.class)) {
        let blocking = format!("{:?}", row.blocking).to_lowercase();
        let cells = [
            calls(row.calls, ", "),
            blocking,
            kinds(row.reads),
            kinds(row.changes),
            sentence(row.why, row.rule),
        ];
        writeln!(
            text,
            "|{}",
            cells
                .map(|cell| format!(" {cell} |"))
                .concat()
                .replace("  |", " |")
        )
        .unwrap();
    }
    text
}

fn kinds_of_state() -> String {
    let mut text = String::from("| state | meaning | |\n|---|---|---|\n");
    for (kind, name, meaning) in State::ALL {
        let is_common = !kind.within(State::COMMON).is_none();
        let own = if is_common { "common" } else { "own" };
        writeln!(text, "| {name} | {meaning} | {own} |").unwrap();
    }
    text
}

fn arguments() -> String {
    let mut text = String::from("| calls | arguments |\n|---|---|\n");
    for row in rows().filter(|row| row.rule != Rule::Never) {
        writeln!(text, "| {} | {} |", calls(row.calls, ", "), row.rule.text()).unwrap();
    }
    text
}

/// The document with the tables of the code.
fn renewed(document: &str) -> String {
    let mut tables: Vec<_> = TABLES.map(|(name, is_in)| (name, table(is_in))).into();
    tables.push(("state", kinds_of_state()));
    tables.push(("arguments", arguments()));
    let mut text = document.to_owned();
    for (name, table) in tables {
        let begin = format!("<!-- table: {name} -->\n");
        let (before, rest) = text
            .split_once(&begin)
            .unwrap_or_else(|| panic!("docs/calls.md has no place for the table {name}"));
        let after = rest.find("<!-- end -->").map(|at| &rest[at..]);
        let after = after.unwrap_or_else(|| panic!("the table {name} has no end"));
        text = format!("{before}{begin}\n{table}\n{after}");
    }
    text
}

#[test]
fn the_document_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/calls.md");
    let document = fs::read_to_string(&path).unwrap();
    let renewed = renewed(&document);
    if env::var_os(WRITE).is_some() {
        fs::write(&path, renewed).unwrap();
        return;
    }
    let differing = renewed
        .lines()
        .zip(document.lines())
        .find(|(new, old)| new != old);
    assert!(
        renewed == document,
        "docs/calls.md differs from the table, first at {differing:#?}; \
         `{WRITE}=1 cargo test -p umcg --test calls document` writes it anew"
    );
}
