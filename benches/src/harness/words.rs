//! What the names in tables and plots mean, in a few words each: for helps, captions and the page.
//! `benches/README.md` says it at length.

use super::{Report, Section};

/// Greek letters are the names of the experiments in the paper on semaphores; the others are
/// parameters.
const WORDS: &[(&str, &str)] = &[
    (
        "alpha",
        "the paper's Experiment 1: critical sections of css steps, and nss steps outside",
    ),
    ("alpha_nonblocking", "the same with downs that do not wait"),
    (
        "beta",
        "Experiment 1 by the ratio of critical steps, which are 1,000, to the others",
    ),
    (
        "gamma",
        "the paper's Experiment 2: css steps with one of some semaphores, nss outside",
    ),
    (
        "epsilon",
        "the paper's Experiment 3: rounds of a pinger, each measured by itself",
    ),
    (
        "connections",
        "connections of the client, each with one request under way",
    ),
    ("consumers", "flows that take messages or wakeups"),
    (
        "contexts",
        "contexts that are switched between, the main thread included",
    ),
    ("cpus", "CPUs that the processes may use"),
    (
        "css",
        "steps inside the critical section; a step is a cycle",
    ),
    (
        "depth",
        "deep: switches are made at the bottom of four calls",
    ),
    ("k", "things that are waited for at once"),
    (
        "kind",
        "of flow: worker, light and full are ours or tasks, thread is a kernel thread",
    ),
    ("nss", "steps outside the critical section"),
    (
        "object",
        "of ours, where it is not the one that the bench is named after",
    ),
    (
        "objects",
        "words or descriptors that are waited for at once",
    ),
    (
        "order",
        "strong: first come, first served; barging: the fastest gets it",
    ),
    ("pongers", "flows that send messages back"),
    ("processes", "threads or workers that begin together"),
    ("producers", "flows that send or post"),
    ("program", "the program that is run"),
    (
        "ratio",
        "of steps inside the critical section to those outside",
    ),
    ("semaphores", "of which one is taken"),
    (
        "servers",
        "kernel threads that run workers, and as many CPUs",
    ),
    ("size", "of a message, in bytes"),
    (
        "sockets",
        "of a simulated machine, which share its processors evenly",
    ),
    ("what", "the work of each worker"),
    ("workload", "the kind of work that all workers do"),
    ("workers", "workers or threads that are at it at once"),
];

/// The meaning of a metric with a name of the paper, or of a parameter.
pub fn meaning(word: &str) -> Option<&'static str> {
    let found = WORDS.iter().find(|(known, _)| *known == word);
    found.map(|(_, meaning)| *meaning)
}

/// The names that a section's rows have, and their meanings: the metric's if there is one, then
/// those of the parameters in their order.
pub fn key(report: &Report, section: &Section) -> Vec<(String, &'static str)> {
    let rows = report
        .rows
        .iter()
        .filter(|row| row.metric == section.metric);
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        for name in [section.metric]
            .into_iter()
            .chain(row.params.keys().map(String::as_str))
        {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    let known = |name: String| meaning(&name).map(|meaning| (name, meaning));
    names.into_iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::report::tests::sample;

    #[test]
    fn names_are_explained_once() {
        for (place, (name, meaning)) in WORDS.iter().enumerate() {
            assert!(
                WORDS[..place].iter().all(|(other, _)| other != name),
                "{name}"
            );
            assert!(meaning.len() > 10 && !meaning.ends_with('.'), "{name}");
        }
        assert!(meaning("css").is_some() && meaning("nonsense").is_none());
    }

    #[test]
    fn a_key_has_the_names_that_are_there() {
        let section = Section {
            title: "",
            metric: "round_trips",
            heading: "",
            columns: &[],
            bar: None,
            references: &[],
        };
        let names: Vec<String> = key(&sample(), &section)
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(names, ["cpus"]);
        let absent = Section {
            metric: "alpha",
            ..section
        };
        assert!(key(&sample(), &absent).is_empty(), "it has no rows");
    }
}
