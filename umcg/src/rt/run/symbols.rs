//! Names for the addresses of a dump: function, file and line, from the debug information of the
//! program.
//!
//! The lookup takes a lock that the whole process shares. A worker that was preempted while it held
//! the lock may keep it. So a separate thread does the lookup, and is left behind if it makes no
//! progress.

use crate::rt::base::clock;
use crate::rt::base::sync::Hold;
use std::fmt::Write;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use umcg_core::context::way::nap;
use umcg_core::kernel_thread;

/// How long one address may take. The first lookup in a large program reads all its tables.
const PATIENCE: u64 = 5_000_000_000;

/// The thread's task, and its progress.
struct Lookup {
    stacks: Vec<Vec<usize>>,
    done: AtomicUsize,
    described: OnceLock<Vec<String>>,
}

/// A paragraph for each list of return addresses, with a line or two for each function. None if
/// another thread keeps the lock, or no thread can be made.
pub(super) fn describe(stacks: &[Vec<usize>]) -> Option<Vec<String>> {
    let lookup = Arc::new(Lookup {
        stacks: stacks.to_vec(),
        done: AtomicUsize::new(0),
        described: OnceLock::new(),
    });
    start(&lookup)?;
    let (mut done, mut deadline) = (0, clock::now() + PATIENCE);
    while lookup.described.get().is_none() {
        let now = lookup.done.load(Relaxed);
        if now != done {
            (done, deadline) = (now, clock::now() + PATIENCE);
        } else if clock::now() >= deadline {
            return None;
        }
        nap(100_000);
    }
    lookup.described.get().cloned()
}

/// If the debug information cannot be read, the lookup is not done.
fn start(lookup: &Arc<Lookup>) -> Option<()> {
    let lookup = Arc::clone(lookup);
    let _hold = Hold::begin();
    umcg_core::signal::without(|| kernel_thread::spawn("umcg-symbols", move || lookup.work()))
        .map(drop)
        .ok()
}

impl Lookup {
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

/// For each function at the address, a line: there may be inlined ones. One line more where its
/// place in the source is known. `number` is the count of functions described before.
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
