//! The courier's word, as the library has it: a party that rouses the courier counts, and wakes it.

use crate::kernel;
use crate::rt::sync::{AtomicU32, Ordering::SeqCst};

shuttle::lazy_static! {
    /// How often the courier was roused.
    static ref ROUSED: AtomicU32 = AtomicU32::new(0);
}

/// For `umcg_core::raw`.
pub fn rouse_courier() {
    ROUSED.fetch_add(1, SeqCst);
    kernel::wake(&raw const *ROUSED, 1);
}

/// How often the courier has been roused.
pub(crate) fn rouses() -> u32 {
    ROUSED.load(SeqCst)
}

/// The courier sleeps until it has been roused more often than that, or until the deadline.
pub(crate) fn sleep(roused: u32, deadline: u64) {
    let _ = kernel::sleep(&ROUSED, roused, deadline);
}
