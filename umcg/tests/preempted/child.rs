//! Tests that are processes of their own, with a time limit: a worker that was taken off inside
//! malloc leaves nothing that could still report it.

use std::process::Command;
use std::time::Duration;

/// Tells a process that it is the one in which the test takes place.
const CHILD: &str = "UMCG_TEST_CHILD";
/// A program, and arguments, that run programs of this architecture on a system that cannot: an
/// emulator.
const RUNNER: &str = "UMCG_TEST_RUNNER";

/// Runs `scene` in a process of its own, which ends with status 0 if all is well. `test` is the
/// name of the calling test; `label` tells its scenes apart.
#[track_caller]
pub(crate) fn plays(test: &str, label: &str, limit: Duration, scene: impl FnOnce()) {
    let label = format!("{test} {label}");
    match std::env::var(CHILD) {
        Ok(this) if this == label => {
            scene();
            std::process::exit(0)
        }
        Ok(_) => return,
        Err(_) => {}
    }
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &limit.as_secs().to_string()]);
    command.args(
        std::env::var(RUNNER)
            .iter()
            .flat_map(|runner| runner.split_whitespace()),
    );
    command.arg(std::env::current_exe().unwrap());
    // One lock of malloc's for all.
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, &label)
        .env("MALLOC_ARENA_MAX", "1");
    let output = command.output().unwrap();
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{label}: {:?}\n{said}\n{complained}",
        output.status
    );
    // With --nocapture for people.
    eprint!("{complained}");
}
