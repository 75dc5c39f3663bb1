//! The first and the last frame of a uth: it runs the uth's function, and when that has returned,
//! the virtual processor's own flow continues.

use super::dispatch;
use super::failure::{bounded, caught, die};
use super::record::{UthRecord, state};
use std::sync::atomic::Ordering::*;
use umcg_context::annotate::Flow;

/// Runs the function of a uth, and ends the uth.
///
/// # Safety
/// Called as the first frame on the stack of the uth, with its [record](UthRecord).
pub(super) unsafe extern "C" fn driver(record: *mut ()) -> ! {
    // SAFETY: by the contract.
    let record = unsafe { &*record.cast::<UthRecord>() };
    // SAFETY: first thing on the new stack.
    unsafe { Flow::arrive(record.flow.get()) };
    if let Some(entry) = record.entry() {
        let arg = record.arg.load(Relaxed);
        caught(record, || bounded(record, || entry(arg)));
    }
    finish(record)
}

/// Ends the running uth: the processor's own flow continues.
fn finish(record: &UthRecord) -> ! {
    // SAFETY: set when the uth was switched to; descriptors are never freed.
    let vp = unsafe { &*record.vp.load(Relaxed) };
    if vp.native.state.load(Relaxed) != vp.ready.load(Relaxed) {
        die(
            record,
            "returned, and its virtual processor's own flow was not saved, so nothing is left to \
             run",
        );
    }
    record.retire(state::FINISHED);
    vp.current.store((&raw const vp.native).cast_mut(), Relaxed);
    // SAFETY: the native flow is suspended on this processor, as its state says.
    unsafe { dispatch::resume(record, &vp.native) }
}
