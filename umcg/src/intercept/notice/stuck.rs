//! Workers that the kernel keeps all the same: in a page fault on a slow mapping, or in a call that
//! nearly always finds its data in memory, and did not.
//!
//! The looker finds the kernel thread of a server asleep in the same turn twice. It takes the
//! worker off the server if what it sleeps in can begin anew
//! ([`release_stuck`](raw::Server::release_stuck)). So BLOCK comes some milliseconds late, and the
//! server is free again.

use super::before::Uncounted;
use crate::rt::run::kernel_call::{SystemCall, ThreadState, of_thread};
use std::time::Duration;
use umcg_core::raw;

/// The time between two looks while servers run workers, and the longest while none does.
const SHORT: Duration = Duration::from_millis(4);
const LONG: Duration = Duration::from_millis(64);

/// What the last look saw of a server.
struct Seen {
    server: *mut (),
    turn: u64,
}

/// Looks for such workers, for ever; and for threads that sleep uncounted, until there is none.
pub(super) fn watch() {
    let mut seen: Vec<Seen> = Vec::new();
    let mut uncounted = Uncounted::all();
    let mut pause = SHORT;
    loop {
        uncounted.take_if(Uncounted::look);
        let mut runs = uncounted.is_some();
        raw::Server::each(&mut |server| runs |= look(server, &mut seen));
        pause = if runs { SHORT } else { LONG.min(pause * 2) };
        std::thread::sleep(pause);
    }
}

/// Looks at a server. Whether it runs a worker.
fn look(server: raw::Server, seen: &mut Vec<Seen>) -> bool {
    server.settle_stuck();
    let runs = server.current().is_some();
    let turn = server.turns();
    let place = server.into_ptr();
    let index = seen.iter().position(|seen| seen.server == place);
    let last = match index {
        Some(index) => std::mem::replace(&mut seen[index].turn, turn),
        None => {
            seen.push(Seen {
                server: place,
                turn,
            });
            return runs;
        }
    };
    let sleeps = || match of_thread(server.carried_by()) {
        ThreadState::Blocks(call) => can_begin_anew(&call),
        ThreadState::Runs | ThreadState::Gone => false,
    };
    if runs && last == turn && sleeps() && server.turns() == turn {
        server.release_stuck(turn);
    }
    runs
}

/// Whether the kernel restarts what the thread sleeps in after the handler of a signal.
fn can_begin_anew(call: &SystemCall) -> bool {
    const PAGE_FAULT: i64 = -1;
    matches!(
        call.number(),
        Some(
            PAGE_FAULT
                | libc::SYS_open
                | libc::SYS_openat
                | libc::SYS_openat2
                | libc::SYS_read
                | libc::SYS_readv
                | libc::SYS_pread64
                | libc::SYS_preadv
                | libc::SYS_preadv2
                | libc::SYS_write
                | libc::SYS_writev
                | libc::SYS_pwrite64
                | libc::SYS_pwritev
                | libc::SYS_pwritev2
                | libc::SYS_ioctl
                | libc::SYS_stat
                | libc::SYS_newfstatat
                | libc::SYS_statx
                | libc::SYS_getdents64
        )
    )
}
