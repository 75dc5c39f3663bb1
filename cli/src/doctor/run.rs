//! What `umcg run` needs, found by a trial run where there is no other way to know.

use super::probe::finding;
use super::{Finding, State};
use crate::run;
use std::env;
use std::ffi::OsStr;
use std::process::Command;
use std::ptr;

pub(super) fn all() -> Vec<Finding> {
    vec![
        unmodified_programs(),
        waiting_for_signals(),
        noticed_blocking(),
    ]
}

/// Runs a program that ends at once.
fn unmodified_programs() -> Finding {
    let name = "umcg run";
    let effect = "threads of unmodified programs switch in user mode";
    let instead = "`umcg run` runs programs natively, after a line that says why";
    if let Some(obstacle) = run::obstacle(OsStr::new("true")) {
        return finding(name, State::No, obstacle, instead);
    }
    let library = match run::library::find() {
        Ok(library) => library,
        Err(error) => return finding(name, State::No, format!("{error:#}"), instead),
    };
    // The trial makes no thread, so nothing is changed in it.
    if is_code_unchangeable() {
        return finding(
            name,
            State::No,
            "the system lets no code be changed",
            instead,
        );
    }
    let trial = env::current_exe().and_then(|command| {
        Command::new(command)
            .args(["run", "--servers", "1", "--", "true"])
            .output()
    });
    match trial {
        Ok(output) if output.status.success() && output.stderr.is_empty() => {
            let detail = format!("tried, with {}", library.display());
            finding(name, State::Yes, detail, effect)
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let detail = format!("a trial run ended with {}: {said}", output.status);
            finding(name, State::No, detail, instead)
        }
        Err(error) => finding(name, State::No, error.to_string(), instead),
    }
}

/// Whether a policy keeps this process from changing its code.
fn is_code_unchangeable() -> bool {
    #[cfg(target_arch = "x86_64")]
    return umcg::intercept::notice_blocking() == Err(umcg::intercept::Error::Unchangeable);
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Begins to notice blocking in this process, for which that changes nothing.
fn noticed_blocking() -> Finding {
    let instead = "workers announce that they block, by `umcg::blocking` or `umcg_blocking_begin`";
    #[cfg(target_arch = "x86_64")]
    let begun = umcg::intercept::notice_blocking().map_err(|error| error.to_string());
    #[cfg(not(target_arch = "x86_64"))]
    let begun: Result<(), String> = Err("only on x86-64".into());
    match begun {
        Ok(()) => {
            let effect = "workers of the library keep no server when they block";
            finding("blocking noticed", State::Yes, "tried", effect)
        }
        Err(detail) => finding("blocking noticed", State::No, detail, instead),
    }
}

/// Whether `rt_sigtimedwait` is allowed, by which threads that are away learn of their signals.
fn waiting_for_signals() -> Finding {
    let name = "rt_sigtimedwait";
    let (signals, now) = (1u64 << (libc::SIGSTKFLT - 1), [0i64; 2]);
    // SAFETY: a set of signals and a time that has passed; takes no signal of the program's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            &raw const signals,
            ptr::null_mut::<()>(),
            now.as_ptr(),
            size_of::<u64>(),
        )
    };
    let error = std::io::Error::last_os_error();
    if result >= 0 || error.raw_os_error() == Some(libc::EAGAIN) {
        let effect = "under `umcg run`, signals find threads wherever they run";
        return finding(name, State::Yes, "tried", effect);
    }
    let instead = "threads under `umcg run` stay on their own kernel threads: nothing is faster";
    finding(name, State::No, error.to_string(), instead)
}
