//! The names of the library's `sync`, with the checker's implementations.

use rustix::io::Errno;
use shuttle::sync::{Condvar, Mutex};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    crate::kernel::sleep(word, expected, deadline)
}

pub(crate) fn futex_sleep(word: &AtomicU32, expected: u32) {
    let _ = crate::kernel::sleep(word, expected, u64::MAX);
}

/// There is one clock.
pub(crate) fn futex_wait_until(
    word: &AtomicU32,
    expected: u32,
    deadline: u64,
) -> Result<(), Errno> {
    crate::kernel::sleep(word, expected, deadline)
}

pub(crate) fn monotonic() -> u64 {
    crate::kernel::now()
}

pub(crate) fn futex_wake_at(word: *const AtomicU32) {
    crate::kernel::wake(word, 1);
}

pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    crate::kernel::wake(word, count);
}

pub(crate) struct Lock<T> {
    held: Mutex<bool>,
    freed: Condvar,
    value: UnsafeCell<T>,
}

// SAFETY: as for the library's lock.
unsafe impl<T: Send> Sync for Lock<T> {}

/// There is no preemption here.
pub(crate) use Lock as HoldLock;

pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            held: Mutex::new(false),
            freed: Condvar::new(),
            value: UnsafeCell::new(value),
        }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let mut held = self.held.lock().unwrap();
        while *held {
            held = self.freed.wait(held).unwrap();
        }
        *held = true;
        Guard(self)
    }

    pub(crate) fn take(&self) {
        std::mem::forget(self.lock());
    }

    /// # Safety
    /// As for the library's lock.
    pub(crate) unsafe fn adopt(&self) -> Guard<'_, T> {
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        *self.0.held.lock().unwrap() = false;
        self.0.freed.notify_one();
    }
}
