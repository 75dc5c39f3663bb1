//! All runtimes of the process: for dumps, for trimming, and for forks.

use crate::rt::base::sync::HoldLock;
use crate::rt::engine::runtime::RuntimeState;
use std::sync::{Arc, Weak};
use umcg_core::Uncancelled;
use umcg_core::fork::Part;

/// All runtimes of the process.
static RUNTIMES: HoldLock<Vec<Weak<RuntimeState>>> = HoldLock::new(Vec::new());

static FORKS: Part = Part::new(Part::ABOVE, || RUNTIMES.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let runtimes = unsafe { RUNTIMES.adopt() };
    if in_child {
        // None of them is freed here: a holder in the parent keeps its reference in the child for
        // good.
        runtimes
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|runtime| runtime.leave_behind());
    }
}

/// Adds a runtime that begins.
pub(crate) fn note(runtime: &Arc<RuntimeState>) {
    // A forked child without memory for that goes on without it.
    let _ = FORKS.enter();
    let mut runtimes = RUNTIMES.lock();
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(Arc::downgrade(runtime));
}

/// The live runtimes.
pub(super) fn runtimes() -> Vec<Arc<RuntimeState>> {
    let mut runtimes: Vec<_> = RUNTIMES.lock().iter().filter_map(Weak::upgrade).collect();
    runtimes.retain(|runtime| !runtime.is_over());
    runtimes
}

/// Calls `f` with each live runtime.
pub(super) fn each_runtime(f: impl FnMut(&Arc<RuntimeState>)) {
    // A runtime whose owner lets go of it meanwhile ends here, and closes its descriptors.
    let _uncancelled = Uncancelled::begin();
    runtimes().iter().for_each(f);
}
