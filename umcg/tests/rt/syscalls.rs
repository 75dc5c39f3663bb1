//! What makes no system call: counted by strace, between two writes to no file that mark each operation.
//!
//! Where there is no strace, or it may not trace, the test says so and passes.

use crate::support::{Kind, child_arguments, child_variable, is_child, say};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg::{Handle, Runtime};

const TIMES: usize = 100_000;
/// Of any sort, in all of the repetitions: room for what the process does besides. The watch looks every 10 ms.
const ALLOWED: usize = 40;

const NAME: &str = "syscalls::uncontended_operations_make_none";

fn mark(words: &str) {
    unsafe { libc::write(-1, words.as_ptr().cast(), words.len()) };
}

/// Does something many times, between marks.
fn measured(name: &str, mut operation: impl FnMut()) {
    (0..300).for_each(|_| operation()); // what happens once only
    mark(&format!("begin {name}\n"));
    (0..TIMES).for_each(|_| operation());
    mark(&format!("end {name}\n"));
}

fn operations(kind: Kind) {
    measured(&format!("planted {kind:?}"), || {
        std::hint::black_box(unsafe { libc::getppid() });
    });
    let over = Arc::new(AtomicUsize::new(0));
    let seen = over.clone();
    let yielder = kind.spawn(move || {
        while seen.load(Relaxed) == 0 {
            umcg::yield_now();
        }
    });
    measured(&format!("yield {kind:?}"), umcg::yield_now);
    over.store(1, Relaxed);
    yielder.join().unwrap();
    let me = Handle::current();
    measured(&format!("unpark and park oneself {kind:?}"), || {
        me.unpark();
        umcg::park();
    });
    let turn = Arc::new(AtomicUsize::new(0));
    let theirs = turn.clone();
    let partner = kind.spawn(move || {
        while theirs.load(Relaxed) < 2 {
            while theirs.load(Relaxed) == 0 {
                umcg::park();
            }
            if theirs.load(Relaxed) == 1 {
                theirs.store(0, Relaxed);
                me.unpark();
            }
        }
    });
    let other = partner.handle();
    measured(&format!("unpark another and park {kind:?}"), || {
        turn.store(1, Relaxed);
        other.unpark();
        while turn.load(Relaxed) == 1 {
            umcg::park();
        }
    });
    turn.store(2, Relaxed);
    other.unpark();
    partner.join().unwrap();
    measured(&format!("spawn and join {kind:?}"), || kind.spawn(|| ()).join().unwrap());
    measured(&format!("scope {kind:?}"), || {
        umcg::scope(|scope| {
            kind.spawn_in(scope, || ());
        });
    });
    measured(&format!("spawn and detach {kind:?}"), || {
        drop(kind.spawn(|| ()));
        umcg::yield_now();
    });
}

/// The process that is traced.
fn traced() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        kind.run(&runtime, move || operations(kind));
    }
    mark("done\n");
}

/// The system calls of each measured operation, by name.
fn count(trace: &str) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut now: Option<String> = None;
    for line in trace.lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        if let Some(words) = call.strip_prefix("write(-1, \"") {
            let words = words.split("\\n").next().unwrap_or_default();
            now = words.strip_prefix("begin ").map(str::to_owned);
            if let Some(name) = &now {
                counts.entry(name.clone()).or_default();
            }
            continue;
        }
        let name: String = call.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if let (Some(now), false) = (&now, name.is_empty()) {
            *counts.entry(now.clone()).or_default().entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn uncontended_operations_make_none() {
    if is_child(NAME) {
        return traced();
    }
    let file = std::env::temp_dir().join(format!("umcg-rt-syscalls-{}", std::process::id()));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "100", "-o"]).arg(&file).arg(std::env::current_exe().unwrap());
    let (variable, value) = child_variable(NAME);
    let output = strace.args(child_arguments(NAME)).env(variable, value).output();
    let trace = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    match output {
        Err(error) => return say(&format!("SKIPPED: no strace ({error}), so no system calls were counted")),
        Ok(output) if trace.is_empty() => {
            return say(&format!("SKIPPED: strace may not trace here: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    let counts = count(&trace);
    assert!(trace.contains("write(-1, \"done"), "the traced process did not come to its end");
    assert_eq!(counts.len(), 14, "{:?}", counts.keys());
    for (name, calls) in &counts {
        let all: usize = calls.values().sum();
        if name.starts_with("planted") {
            assert!(all >= TIMES, "strace did not see the planted calls");
        } else {
            // What the watch does goes by time, and a traced process is slow.
            let clocks: usize = ["futex", "clock_gettime", "membarrier"].iter().filter_map(|call| calls.get(*call)).sum();
            assert!(all - clocks <= ALLOWED && all <= 10 * ALLOWED, "{name}, {TIMES} times: {calls:?}");
            println!("{name}, {TIMES} times: {all} system calls");
        }
    }
}
