//! What the addresses of a dump are called: function, file and line, by the debug information of
//! the program.
//!
//! That is looked for under a lock which all of the process have, and which a worker that was
//! preempted with it may keep. So a thread of its own does it, and is left behind if it does not
//! get on.

use crate::rt::base::clock;
use crate::rt::base::sync::Hold;
use std::ffi::c_void;
use std::fmt::Write;
use std::panic::catch_unwind;
use std::ptr::{self, null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use umcg_core::context::way::nap;

/// How long one address may take. The first of a large program makes all its tables be read.
const PATIENCE: u64 = 5_000_000_000;

/// What the thread is to do, and how far it has come.
struct Job {
    stacks: Vec<Vec<usize>>,
    done: AtomicUsize,
    described: OnceLock<Vec<String>>,
}

/// A paragraph for each list of return addresses, with a line or two for each function. None if
/// somebody keeps the lock, or there is no thread.
pub(super) fn describe(stacks: &[Vec<usize>]) -> Option<Vec<String>> {
    let job = Arc::new(Job {
        stacks: stacks.to_vec(),
        done: AtomicUsize::new(0),
        described: OnceLock::new(),
    });
    start(&job)?;
    let (mut done, mut deadline) = (0, clock::now() + PATIENCE);
    while job.described.get().is_none() {
        let now = job.done.load(Relaxed);
        if now != done {
            (done, deadline) = (now, clock::now() + PATIENCE);
        } else if clock::now() >= deadline {
            return None;
        }
        nap(100_000);
    }
    job.described.get().cloned()
}

/// Not one of Rust's threads, which ends the process where it gets no memory for its signal stack.
fn start(job: &Arc<Job>) -> Option<()> {
    extern "C" fn work(job: *mut c_void) -> *mut c_void {
        // SAFETY: the reference was given to this thread.
        let job = unsafe { Arc::from_raw(job.cast_const().cast::<Job>()) };
        // The job is left undone if debug information cannot be digested.
        let _ = catch_unwind(std::panic::AssertUnwindSafe(|| job.work()));
        null_mut()
    }
    let reference = Arc::into_raw(Arc::clone(job));
    let mut thread = 0;
    let hold = Hold::begin();
    // SAFETY: `work` takes the reference that it is given.
    let make = || unsafe {
        libc::pthread_create(&raw mut thread, null(), work, reference.cast_mut().cast())
    };
    let made = umcg_core::signal::without(make);
    drop(hold);
    if made != 0 {
        // SAFETY: nobody has it.
        drop(unsafe { Arc::from_raw(reference) });
        return None;
    }
    // SAFETY: made above, and joined by nobody.
    unsafe { libc::pthread_detach(thread) };
    Some(())
}

impl Job {
    fn work(&self) {
        let describe = |stack: &Vec<usize>| {
            let (mut text, mut number) = (String::new(), 0);
            for address in stack {
                describe_address(&mut text, &mut number, *address);
                self.done.fetch_add(1, Relaxed);
            }
            text
        };
        let _ = self
            .described
            .set(self.stacks.iter().map(describe).collect());
    }
}

/// A line for each function there, as there may be inlined ones, and one more where its place in
/// the source is known. `number` of functions have been described before.
fn describe_address(text: &mut String, number: &mut usize, address: usize) {
    let before = text.len();
    backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
        let Some(name) = symbol.name() else { return };
        let _ = writeln!(text, "{number:4}: {name:#}");
        if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
            let _ = writeln!(text, "             at {}:{line}", file.display());
        }
        *number += 1;
    });
    if text.len() == before {
        let _ = writeln!(text, "{number:4}: {address:#x}");
        *number += 1;
    }
}
