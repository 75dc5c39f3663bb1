//! Counts system calls by strace: between two writes to no file that mark each operation.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Command;

/// How often an operation is done.
const TIMES: usize = 100_000;

/// How often an operation is repeated that is known to make a call: each call is a stop of the
/// traced process.
const PLANTED_TIMES: usize = 1_000;

/// Of any sort, in all of the repetitions: room for the calls that a runtime makes now and then.
const ALLOWED: usize = 10;

/// The output of the process under strace.
pub(crate) fn mark(words: &str) {
    // SAFETY: as many bytes as there are; and no file has this number.
    unsafe { libc::write(-1, words.as_ptr().cast(), words.len()) };
}

/// Does something many times, between marks.
pub(crate) fn measured(name: &str, operation: impl FnMut()) {
    repeated(name, TIMES, operation);
}

fn repeated(name: &str, times: usize, mut operation: impl FnMut()) {
    (0..300).for_each(|_| operation()); // initialisation happens once only
    mark(&format!("begin {name}\n"));
    (0..times).for_each(|_| operation());
    mark(&format!("end {name}\n"));
}

/// An operation that makes a call each time, to show whether calls are seen.
pub(crate) fn planted(name: &str) {
    repeated(name, PLANTED_TIMES, || {
        std::hint::black_box(rustix::process::getppid());
    });
}

/// The system calls of a traced process.
pub(crate) struct Trace(String);

impl Trace {
    /// Runs this program under strace, with these arguments and this variable, up to its mark
    /// `done`. Where there is no strace, or it may not trace, says why.
    pub(crate) fn of(
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        (variable, value): (&str, String),
    ) -> Result<Trace, String> {
        let file = std::env::temp_dir().join(format!("umcg-syscalls-{}", std::process::id()));
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-s", "100", "-o"])
            .arg(&file)
            .arg(std::env::current_exe().unwrap());
        let output = strace.args(arguments).env(variable, value).output();
        let trace = Trace(std::fs::read_to_string(&file).unwrap_or_default());
        let _ = std::fs::remove_file(&file);
        let output = output.map_err(|error| {
            format!("SKIPPED: no strace ({error}), so no system calls were counted")
        })?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        if trace.0.is_empty() {
            return Err(format!("SKIPPED: strace may not trace here: {complaint}"));
        }
        assert!(output.status.success(), "{complaint}");
        assert!(
            trace.has_mark("done"),
            "the traced process did not come to its end"
        );
        Ok(trace)
    }

    pub(crate) fn has_mark(&self, words: &str) -> bool {
        self.0.contains(&format!("write(-1, \"{words}"))
    }

    /// This many operations were measured, and except for the planted ones they make no system
    /// calls.
    pub(crate) fn assert_none(&self, operations: usize) {
        let counts = self.count();
        assert_eq!(counts.len(), operations, "{:?}", counts.keys());
        for (name, calls) in &counts {
            let all: usize = calls.values().sum();
            if name.starts_with("planted") {
                assert!(all >= PLANTED_TIMES, "strace did not see the planted calls");
            } else {
                assert!(all <= ALLOWED, "{name}, {TIMES} times: {calls:?}");
                println!("{name}, {TIMES} times: {all} system calls");
            }
        }
    }

    /// The system calls of each measured operation, by name: those of the kernel thread that does
    /// it. The watch's calls depend on time, and a traced process is slow.
    fn count(&self) -> BTreeMap<String, BTreeMap<String, usize>> {
        let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        let mut now: Option<(&str, String)> = None;
        for line in self.0.lines() {
            let (thread, call) = line.split_once(' ').unwrap_or_default();
            let call = call.trim_start();
            if let Some(words) = call.strip_prefix("write(-1, \"") {
                let words = words.split("\\n").next().unwrap_or_default();
                now = words
                    .strip_prefix("begin ")
                    .map(|name| (thread, name.to_owned()));
                if let Some((_, name)) = &now {
                    counts.entry(name.clone()).or_default();
                }
                continue;
            }
            let name: String = call
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            if let Some((_, now)) = now
                .as_ref()
                .filter(|now| now.0 == thread && !name.is_empty())
            {
                *counts
                    .entry(now.clone())
                    .or_default()
                    .entry(name)
                    .or_default() += 1;
            }
        }
        counts
    }
}
