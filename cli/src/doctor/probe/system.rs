//! The machine and the process: CPUs, clocks, limits, filters, the C library.

use super::{figure, finding, line, status};
use crate::doctor::{Finding, State};
use std::fs;
use umcg_benches::harness::cpu;

pub(super) fn all() -> Vec<Finding> {
    vec![
        seccomp(),
        clock_source(),
        cpus(),
        stack_limit(),
        threads(),
        c_library(),
    ]
}

fn seccomp() -> Finding {
    let (name, effect) = (
        "seccomp",
        "system calls that a filter forbids show above as forbidden, with their fallback",
    );
    match status("Seccomp").as_deref() {
        Some("0") => finding(name, State::Info, "no filter", effect),
        Some("2") => finding(name, State::Limited, "a filter is installed", effect),
        Some(mode) => finding(name, State::Limited, format!("mode {mode}"), effect),
        None => finding(name, State::Info, "unknown", effect),
    }
}

fn clock_source() -> Finding {
    let name = "clock source";
    let effect = "deadlines read the clock without a system call";
    match line("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Some(source)
            if ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"]
                .contains(&source.as_str()) =>
        {
            finding(
                name,
                State::Limited,
                source,
                "every reading of the clock is a system call: deadlines cost more",
            )
        }
        Some(source) => finding(name, State::Yes, source, effect),
        None => finding(name, State::Info, "unknown", effect),
    }
}

fn cpus() -> Finding {
    let detail = match cpu::allowed() {
        Ok(cpus) => {
            let online = figure("/sys/devices/system/cpu/online");
            format!("{} for this process (online: {online})", cpus.len())
        }
        Err(error) => error.to_string(),
    };
    let effect = "more servers than this have to share";
    finding("CPUs", State::Info, detail, effect)
}

/// A soft limit of this process, by the name it has in `/proc/self/limits`.
fn limit(name: &str) -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    limits
        .lines()
        .find_map(|line| soft_limit(line, name))
        .unwrap_or("unknown")
        .to_owned()
}

fn soft_limit<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.split_whitespace().next()
}

fn stack_limit() -> Finding {
    let effect = "the stack of a thread worker, as of every pthread; light workers have the size \
        they ask for";
    finding("RLIMIT_STACK", State::Info, limit("Max stack size"), effect)
}

fn threads() -> Finding {
    let [pid_max, threads_max] =
        ["pid_max", "threads-max"].map(|name| figure(&format!("/proc/sys/kernel/{name}")));
    let detail = format!(
        "RLIMIT_NPROC {}, pid_max {pid_max}, threads-max {threads_max}",
        limit("Max processes")
    );
    finding(
        "kernel threads",
        State::Info,
        detail,
        "a thread worker takes one, a light worker none",
    )
}

#[cfg(target_env = "gnu")]
fn c_library() -> Finding {
    // SAFETY: takes nothing and returns a constant string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above; it lives as long as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(version) };
    let effect = "all switch methods, for sjlj and mcsc its own setjmp and makecontext";
    finding(
        "C library",
        State::Yes,
        format!("glibc {}", version.to_string_lossy()),
        effect,
    )
}

#[cfg(not(target_env = "gnu"))]
fn c_library() -> Finding {
    finding(
        "C library",
        State::Limited,
        "not glibc",
        "the assembly method only, where it has no makecontext",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits() {
        let line = "Max stack size            8388608              unlimited            bytes";
        assert_eq!(soft_limit(line, "Max stack size"), Some("8388608"));
        assert_eq!(soft_limit(line, "Max processes"), None);
        assert_ne!(limit("Max stack size"), "unknown");
    }
}
