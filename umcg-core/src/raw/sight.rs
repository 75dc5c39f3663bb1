//! Looking at adopted workers from outside: for lists of them, traces and debuggers.

use super::Worker;
use crate::os::symbols;
use crate::umcg::{request, worker};
use rustix::io::Errno;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use umcg_context::local;

/// Where a debugger finds the parts of a worker, as offsets from its address
/// ([`Worker::into_ptr`]).
#[derive(Clone, Copy, Debug)]
pub struct WorkerLayout {
    /// The context that a worker away from its home, which no server runs, goes on with: four
    /// words, the pc, the stack pointer and two registers that depend on the architecture (on
    /// x86-64 rbp and rbx).
    pub context: usize,
    /// Its state, in 32 bits.
    pub state: usize,
    /// The state of a worker at home.
    pub state_at_home: u32,
    /// The word that names its thread-local storage.
    pub thread_pointer: usize,
}

/// The layout of workers.
pub const WORKER_LAYOUT: WorkerLayout = WorkerLayout {
    context: offset_of!(worker::Worker, context),
    // The low half of a little-endian word, first in the node, which is first in the worker.
    state: offset_of!(worker::Worker, node) + crate::umcg::idle::Node::STATE_OFFSET,
    state_at_home: crate::umcg::idle::state::BLOCKED,
    thread_pointer: offset_of!(worker::Worker, tp),
};

/// Sets a function for requests of other processes: it is called with the value of each SIGURG
/// that is queued (rt_tgsigqueueinfo(2)) for a thread that lets it through. It is
/// async-signal-safe.
///
/// # Errors
/// The handler of SIGURG could not be installed.
pub fn set_request_handler(handler: fn(usize)) -> Result<(), Errno> {
    request::set(handler)
}

/// Calls `tell` with the file that holds the code at `pc`, the place in it, and the function that
/// contains it with the place in that, if there is a symbol. The file is `?` if nothing is found,
/// or another call is under way. Async-signal-safe: takes no lock and allocates nothing.
pub fn find_symbol(pc: usize, tell: impl FnOnce(&str, usize, Option<(&str, usize)>)) {
    symbols::find(pc, tell);
}

impl Worker {
    /// The state that the layer which intercepts system calls keeps for an adopted worker; null if
    /// the worker is none.
    ///
    /// # Safety
    /// The caller has the right to run the worker.
    pub unsafe fn guest(self) -> *mut () {
        match self.0.tp.load(Relaxed) {
            0 => null_mut(),
            // SAFETY: the storage of a worker goes with the right to run it.
            pointer => unsafe { local::Words::of(pointer) }.guest(),
        }
    }
}
