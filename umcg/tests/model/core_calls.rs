//! What the sources of the layer of interception call of `umcg_core`, on the checker's kernel.

use crate::kernel;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::ptr::with_exposed_provenance;

/// For `umcg_core::context`.
pub mod context {
    pub use crate::static_lock as lock;
}

/// For `umcg_core::reach`.
pub mod reach {
    use super::*;

    /// # Safety
    /// The address is that of a word of the model's, which is there.
    pub unsafe fn store_word(to: usize, value: u32) -> bool {
        // SAFETY: passed on.
        let word: &AtomicU32 = unsafe { &*with_exposed_provenance(to) };
        word.store(value, SeqCst);
        true
    }
}

/// System calls: FUTEX_WAKE, and no other one.
///
/// # Safety
/// None.
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [word, operation, count, ..] = arguments;
    assert_eq!(number, libc::SYS_futex);
    assert_eq!(operation as i32, libc::FUTEX_WAKE);
    kernel::wake(with_exposed_provenance(word), count as u32);
    0
}
