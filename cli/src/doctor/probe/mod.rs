//! Tries each feature, harmlessly: a kernel may report a feature and still not let this process use
//! it.

mod calls;
mod system;
mod thread;

use super::{Finding, State};
use std::fs;
use std::io;

pub(super) fn all() -> Vec<Finding> {
    [thread::all(), calls::all(), system::all()].concat()
}

pub(super) fn finding(
    feature: &'static str,
    state: State,
    detail: impl Into<String>,
    effect: &'static str,
) -> Finding {
    Finding {
        feature,
        state,
        detail: detail.into(),
        effect,
    }
}

/// A feature that was tried: the effect of having it, and of its substitute.
fn tried(
    feature: &'static str,
    result: Result<(), String>,
    with: &'static str,
    without: &'static str,
) -> Finding {
    match result {
        Ok(()) => finding(feature, State::Yes, "tried", with),
        Err(detail) => finding(feature, State::No, detail, without),
    }
}

/// The contents of a file of one line, if there is one.
fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// The same for a figure, which may be unknown.
fn figure(path: &str) -> String {
    line(path).unwrap_or_else(|| "unknown".into())
}

fn status(key: &str) -> Option<String> {
    field(&fs::read_to_string("/proc/self/status").ok()?, key)
}

/// The value in a line `key: value`.
fn field(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| {
        line.strip_prefix(key)?
            .trim_start()
            .strip_prefix(':')
            .map(|value| value.trim().to_owned())
    };
    text.lines().find_map(value)
}

/// The error of the system call that has just failed.
fn refusal() -> String {
    errno(&io::Error::last_os_error())
}

/// Names the errors that a probe meets; the others by number.
fn errno(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel does not have it (ENOSYS)".into(),
        Some(libc::EINVAL) => "the kernel does not have it (EINVAL)".into(),
        Some(libc::EPERM) => "forbidden (EPERM)".into(),
        Some(libc::EACCES) => "forbidden (EACCES)".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_file() {
        let text = "Name:\tumcg\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(text, "Seccomp").as_deref(), Some("2"));
        assert_eq!(field(text, "Seccomp_filters").as_deref(), Some("1"));
        assert_eq!(field(text, "x86_Thread_features"), None);
    }
}
