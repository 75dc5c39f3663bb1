//! The runtime's choices, found by means of a runtime where there is no other way to know.

use super::probe::finding;
use super::{Finding, State};
use umcg::Runtime;
use umcg::rt::DriverKind;

pub(super) fn all() -> Vec<Finding> {
    vec![membarrier(), driver(), own_storage()]
}

fn forbidden(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

fn membarrier() -> Finding {
    let name = "membarrier";
    let instead =
        "a full fence at each use of a server's own queue: switches of the runtime cost more";
    if umcg::asymmetric::init() {
        let effect = "a server touches its own queue without a fence; whoever steals from it pays \
            a system call";
        return finding(name, State::Yes, "tried", effect);
    }
    let detail = match forbidden("UMCG_NO_MEMBARRIER") {
        true => "forbidden by UMCG_NO_MEMBARRIER",
        false => {
            "the kernel, or a filter, does not let us register for private expedited ones (Linux \
             4.14)"
        }
    };
    finding(name, State::No, detail, instead)
}

fn driver() -> Finding {
    let name = "I/O of the runtime";
    let asked = std::env::var("UMCG_DRIVER")
        .map(|kind| format!(", as UMCG_DRIVER={kind} says"))
        .unwrap_or_default();
    let kind = match Runtime::builder().servers(1).name("doctor").build() {
        Ok(runtime) => runtime.driver(),
        Err(error) => {
            return finding(
                name,
                State::No,
                format!("{error}{asked}"),
                "there is no runtime: `umcg::spawn` panics",
            );
        }
    };
    let effect = match kind {
        DriverKind::IoUring => {
            "sockets wait in epoll, files are read and written by io_uring: both park their worker \
             only"
        }
        _ => {
            "sockets wait in epoll; reads and writes of files that are not in the page cache block \
             helper threads"
        }
    };
    finding(
        name,
        if kind == DriverKind::IoUring {
            State::Yes
        } else {
            State::Limited
        },
        format!("{kind}{asked}"),
        effect,
    )
}

fn own_storage() -> Finding {
    let name = "storage of their own";
    match umcg::storage::available() {
        Ok(()) => {
            let detail = format!("tried; {} bytes a worker", umcg::storage::bytes_a_block());
            finding(
                name,
                State::Yes,
                detail,
                "`umcg::spawn` gives each worker thread-local storage made by the C library",
            )
        }
        Err(reason) => finding(
            name,
            State::No,
            reason,
            "`umcg::spawn` makes each worker a kernel thread; light workers need none",
        ),
    }
}
