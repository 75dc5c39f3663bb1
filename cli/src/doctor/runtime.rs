//! What the runtime would use, tried by means of a runtime where there is no other way to know.

use super::probe::{errno, finding};
use super::{Finding, State};
use std::io;
use umcg::rt::DriverKind;
use umcg::{Builder, Runtime};

pub(super) fn all() -> Vec<Finding> {
    let mut all = vec![membarrier()];
    match Runtime::builder().servers(1).name("doctor").build() {
        Ok(runtime) => all.extend([driver(&runtime), own_storage(&runtime)]),
        Err(error) => all.push(finding("runtime", State::No, error.to_string(), "there is none: `umcg::spawn` panics")),
    }
    all
}

fn forbidden(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

fn membarrier() -> Finding {
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
    let name = "membarrier";
    let instead = "a full fence at each use of a server's own queue: switches of the runtime cost more";
    if forbidden("UMCG_NO_MEMBARRIER") {
        return finding(name, State::No, "forbidden by UMCG_NO_MEMBARRIER", instead);
    }
    // SAFETY: asks which commands there are.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    match commands {
        ..0 => finding(name, State::No, errno(&io::Error::last_os_error()), instead),
        commands if commands & PRIVATE_EXPEDITED == 0 => {
            finding(name, State::No, "the kernel has no private expedited one; it came with Linux 4.14", instead)
        }
        _ => finding(
            name,
            State::Yes,
            "tried",
            "a server touches its own queue without a fence; whoever steals from it pays a system call",
        ),
    }
}

fn driver(runtime: &Runtime) -> Finding {
    let name = "I/O of the runtime";
    let asked = std::env::var("UMCG_DRIVER").map(|kind| format!(", as UMCG_DRIVER={kind} says")).unwrap_or_default();
    let kind = runtime.driver();
    let effect = match kind {
        DriverKind::IoUring => "sockets wait in epoll, files are read and written by io_uring: both park their worker only",
        _ => "sockets wait in epoll; reads and writes of files that are not in the page cache block helper threads",
    };
    finding(name, if kind == DriverKind::IoUring { State::Yes } else { State::Limited }, format!("{kind}{asked}"), effect)
}

fn own_storage(runtime: &Runtime) -> Finding {
    let name = "storage of their own";
    match runtime.build(&Builder::new(), || ()).map(umcg::JoinHandle::join) {
        Ok(Ok(())) => {
            finding(name, State::Yes, "tried", "`umcg::spawn` gives each worker thread-local storage made by the C library")
        }
        Ok(Err(error)) => finding(name, State::No, error.to_string(), "only light workers (`spawn_light`) can be made"),
        Err(_) if forbidden("UMCG_NO_OWN_STORAGE") => {
            finding(name, State::No, "forbidden by UMCG_NO_OWN_STORAGE", "only light workers (`spawn_light`) can be made")
        }
        Err(error) => {
            let detail = format!("{error}; or the C library is not as expected, or the thread pointer cannot be written");
            finding(name, State::No, detail, "only light workers (`spawn_light`) can be made")
        }
    }
}
