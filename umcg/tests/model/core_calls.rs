//! What the sources of the layer of interception call of `umcg_core`, on the checker's kernel.

use crate::kernel;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::ptr::with_exposed_provenance;

/// For `umcg_core::context`.
pub mod context {
    /// Locks of statics. A static outlives an execution, and what lies in it must not be the
    /// checker's. So one test has each such lock.
    pub mod lock {
        use shuttle::thread::yield_now;
        use std::ops::Deref;
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

        /// As the library's.
        pub struct Lock<T> {
            is_held: AtomicBool,
            value: T,
        }

        impl<T> Lock<T> {
            pub const fn new(value: T) -> Lock<T> {
                Lock {
                    is_held: AtomicBool::new(false),
                    value,
                }
            }

            pub fn lock(&self) -> Guard<'_, T> {
                // Another thread may come first.
                yield_now();
                while self.is_held.swap(true, SeqCst) {
                    yield_now();
                }
                Guard(self)
            }
        }

        /// As the library's.
        pub struct Guard<'a, T>(&'a Lock<T>);

        impl<T> Deref for Guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0.value
            }
        }

        impl<T> Drop for Guard<'_, T> {
            fn drop(&mut self) {
                self.0.is_held.store(false, SeqCst);
            }
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
