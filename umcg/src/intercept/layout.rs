//! What a debugger has to know: where the list of the program's threads is, and how its parts lie.
//!
//! The script for gdb (`cli/src/run/gdb.py`) needs no debug information: it reads this table by its
//! symbol, from a live process as from a core file. Words are only added at the end, with a new
//! version.

use super::guest::{self, Guest};
use std::sync::atomic::AtomicPtr;
use umcg_core::raw::WORKER_LAYOUT;

/// The table. All but the first and the third word are offsets in bytes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RunLayout {
    magic: [u8; 8],
    version: usize,
    /// The first guest is named there.
    first: &'static AtomicPtr<Guest>,
    /// Of a guest: the next one; its serial number, 0 if no thread has the state (32 bits); its
    /// tid, 0 if it is not known (32 bits); its worker, null for a plain thread; why it left its
    /// server and the number of the call (32 bits each).
    guest: [usize; 5],
    /// Of a worker: its context (pc, rsp, rbp, rbx); its state (32 bits) and its value at home; its
    /// thread pointer.
    worker: [usize; 4],
}

/// Found by debuggers.
#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a symbol of the library")]
pub(super) static umcg_run_layout: RunLayout = RunLayout {
    magic: *b"umcg-run",
    version: 1,
    first: &guest::ALL,
    guest: guest::OFFSETS,
    worker: [
        WORKER_LAYOUT.context,
        WORKER_LAYOUT.state,
        WORKER_LAYOUT.state_at_home as usize,
        WORKER_LAYOUT.thread_pointer,
    ],
};
