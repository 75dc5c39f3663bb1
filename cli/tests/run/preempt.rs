//! Threads that are to run soon while others compute on all servers.

use crate::seeing::{UMCG, command_of, programs};
use std::process::Command;

/// The number that this program prints with one server.
fn printed(options: &[&str], program: &str, arguments: &[&str]) -> Option<f64> {
    let programs = programs()?;
    let output = Command::new("timeout")
        .args(["-s", "KILL", "100", UMCG, "run", "--servers", "1"])
        .args(options)
        .arg("--")
        .arg(command_of(&programs, program))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.trim().parse().unwrap())
}

/// With a tick of a second, and nothing else to preempt the threads that compute, there would be
/// one wait in a second at most, of 200.
#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn a_deadline_does_not_wait_for_the_tick() {
    let rate = printed(&["--tick", "1000"], "overdue", &[]);
    assert!(
        rate.is_none_or(|rate| rate > 5.0),
        "{rate:?} waits a second"
    );
}

/// Each of some threads takes a lock that its holder gives away when asked, and asks after waiting
/// for 5 ms. Natively the lock is taken some 65 times until each of three has had it 20 times, and
/// some 150 times for six. With ticks alone it would be 650 times for three: two take turns, and
/// the third starves. Were the watch to look at fixed times, it would be two to ten times as often
/// for six.
#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn all_threads_that_take_turns_by_waits_get_theirs() {
    for threads in ["3", "6"] {
        let takes = printed(&[], "given_away", &[threads]);
        assert!(
            takes.is_none_or(|takes| takes < 300.0),
            "{threads}: {takes:?}"
        );
    }
}
