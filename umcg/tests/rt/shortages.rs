//! A resource that cannot be had is an error of the call that asked for it.

use crate::support::{child_arguments, child_variable, is_child};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;
use umcg::{Builder, SpawnError};

/// The most memory that the process may map beyond the present amount, in KiB.
const ROOM: &str = "UMCG_TEST_ROOM";

/// Bytes of addresses that the process has.
fn mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmSize:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

fn set_most_mapped(most: u64) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    let limit = rustix::process::Rlimit {
        current: Some(most.min(limit.maximum.unwrap_or(u64::MAX))),
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
}

/// Where workers are kernel threads and memory is short, a closure that does not run has gone when
/// the scope ends that it borrows from, and the caller is told.
#[test]
fn a_scope_outlives_closures_that_find_no_memory() {
    const TEST: &str = "shortages::a_scope_outlives_closures_that_find_no_memory";
    if is_child(TEST) {
        return one_scope(std::env::var(ROOM).unwrap().parse().unwrap());
    }
    for room in [100u64, 300, 700, 1500, 3000, 5000, 20_000] {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "300"])
            .arg(std::env::current_exe().unwrap())
            .args(child_arguments(TEST));
        command.envs([
            child_variable(TEST),
            (ROOM, room.to_string()),
            ("UMCG_NO_OWN_STORAGE", "1".to_owned()),
        ]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{room} KiB: {:?}\n{said}",
            output.status
        );
    }
}

fn one_scope(room: u64) {
    /// Notices if it is dropped a moment too late.
    struct Lent<'a>(&'a AtomicBool);
    impl Drop for Lent<'_> {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(30));
            if self.0.load(Relaxed) {
                // A panic would be the worker's affair.
                std::process::abort();
            }
        }
    }
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    umcg::rt::global();
    std::thread::spawn(|| ()).join().unwrap();
    let before = mapped();
    set_most_mapped(before + (room << 10));
    let made = umcg::scope(|scope| {
        let lent = Lent(&IS_OVER);
        let made = scope.build(&Builder::new(), move || (lent, 1).1);
        made.map(|worker| worker.join().map_err(|error| error.to_string()))
    });
    IS_OVER.store(true, Relaxed);
    set_most_mapped(u64::MAX);
    std::thread::sleep(Duration::from_millis(60));
    // Other threads may take some of the little that is left, after there is a thread.
    let is_told = matches!(&made, Ok(Err(said)) if said.contains("the thread of a worker could not \
        register"));
    assert!(
        is_told || matches!(made, Ok(Ok(1)) | Err(SpawnError::Thread)),
        "{made:?}"
    );
    // The shortage is over.
    assert_eq!(umcg::spawn(|| 2).join().unwrap(), 2);
}
