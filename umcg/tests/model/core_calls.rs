//! What the sources of the layer of interception call of `umcg_core`, on the checker's kernel.

use crate::kernel;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::ptr::with_exposed_provenance;

/// For `umcg_core::context`.
pub mod context {
    pub use crate::static_lock as lock;

    /// A nap lets the others go on.
    pub mod way {
        pub fn nap(_: u32) {
            shuttle::thread::yield_now();
        }
    }
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

/// System calls: wake-ups of words, and yields.
///
/// # Safety
/// None.
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    if number == libc::SYS_sched_yield {
        shuttle::thread::yield_now();
        return 0;
    }
    assert_eq!(number, libc::SYS_futex);
    let [word, operation, count, _, _, bits] = arguments;
    let bits = match operation as i32 & !libc::FUTEX_PRIVATE_FLAG {
        libc::FUTEX_WAKE => u32::MAX,
        libc::FUTEX_WAKE_BITSET => bits as u32,
        other => unreachable!("operation {other}"),
    };
    // As the kernel, which takes 0 for 1.
    kernel::wake_for(with_exposed_provenance(word), (count as u32).max(1), bits) as isize
}
