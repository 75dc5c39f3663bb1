//! Failures of a uth that end the process, with the name of the uth in the message: a panic or an
//! exception that would leave its function, and a step that its state does not allow.

use super::record::UthRecord;
use crate::os::boundary::{self, Departure};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `f`; an exception that would leave it ends the process with the name of the uth.
pub(crate) fn bounded(record: &UthRecord, f: impl FnOnce()) {
    boundary::call(f, |departure| match departure {
        Departure::Exception => crate::say(format_args!(
            "{}",
            about(record, "was left by an exception of another language")
        )),
        Departure::Forced => die(record, &format!("was left by {}", boundary::FORCED)),
    });
}

/// Calls `f`; a panic that would leave it ends the process with the name of the uth.
pub(crate) fn caught(record: &UthRecord, f: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(f)).is_err() {
        die(record, "panicked");
    }
}

/// Ends the process with a message about a uth.
pub(crate) fn die(record: &UthRecord, what: &str) -> ! {
    crate::fatal(format_args!("{}", about(record, what)))
}

fn about(record: &UthRecord, what: &str) -> String {
    let (name, len) = record.name();
    let kind = record.kind();
    match &name[..len] {
        [] => format!("{kind} {:p} {what}", record as *const UthRecord),
        name => format!("{kind} `{}` {what}", String::from_utf8_lossy(name)),
    }
}
