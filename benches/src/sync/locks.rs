//! Locks of every origin: semaphores with one wakeup, and mutexes.

use super::semaphores::Semaphore;
use anyhow::Result;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, PoisonError, TryLockError};

/// One at a time.
pub(super) trait Lock: Sized + Send + Sync + 'static {
    fn new() -> Result<Self>;
    fn with<R>(&self, body: impl FnOnce() -> R) -> R;
    /// None if another thread holds it.
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R>;
}

impl<S: Semaphore> Lock for S {
    fn new() -> Result<Self> {
        S::new(1)
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        self.down();
        let result = body();
        self.up();
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        self.try_down().then(|| {
            let result = body();
            self.up();
            result
        })
    }
}

/// Ours: fair, or barging.
pub(super) struct Mutexes<const FAIR: bool>(umcg::sync::Mutex<()>);

impl<const FAIR: bool> Lock for Mutexes<FAIR> {
    fn new() -> Result<Self> {
        let fair = || umcg::sync::Mutex::from_raw(umcg::sync::RawMutex::fair(), ());
        Ok(Self(if FAIR {
            fair()
        } else {
            umcg::sync::Mutex::new(())
        }))
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        body()
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        self.0.try_lock().map(|_guard| body())
    }
}

/// The standard library's.
pub(super) struct Std(Mutex<()>);

impl Lock for Std {
    fn new() -> Result<Self> {
        Ok(Self(Mutex::new(())))
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body()
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let _guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(body())
    }
}

/// The crate of this name, as it comes or with every unlock a fair one.
pub(super) struct ParkingLot<const FAIR: bool>(parking_lot::Mutex<()>);

impl<const FAIR: bool> Lock for ParkingLot<FAIR> {
    fn new() -> Result<Self> {
        Ok(Self(parking_lot::Mutex::new(())))
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        let guard = self.0.lock();
        let result = body();
        if FAIR {
            parking_lot::MutexGuard::unlock_fair(guard);
        }
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        self.0.try_lock().map(|_guard| body())
    }
}

/// The C library's mutex. In a box: it must not move.
pub(super) struct Pthread(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: mutexes are made for sharing.
unsafe impl Send for Pthread {}
// SAFETY: likewise.
unsafe impl Sync for Pthread {}

impl Lock for Pthread {
    fn new() -> Result<Self> {
        Ok(Self(Box::new(UnsafeCell::new(
            libc::PTHREAD_MUTEX_INITIALIZER,
        ))))
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        // SAFETY: initialised, where it stays.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        let result = body();
        // SAFETY: locked by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: initialised, where it stays.
        let is_mine = unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0;
        is_mine.then(|| {
            let result = body();
            // SAFETY: locked by this thread.
            unsafe { libc::pthread_mutex_unlock(self.0.get()) };
            result
        })
    }
}

impl Drop for Pthread {
    fn drop(&mut self) {
        // SAFETY: no thread uses it any more.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// The paper's test-and-set: a thread that cannot have it looks again, and lets others run now and
/// then.
pub(super) struct Spin(AtomicBool);

/// So often it looks before that.
const LOOKS: u32 = 1000;

impl Lock for Spin {
    fn new() -> Result<Self> {
        Ok(Self(AtomicBool::new(false)))
    }

    #[inline(always)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        let mut looks = 0;
        // ORDERING(bench-spin.1): Acquire, pairs with bench-spin.2: the last holder's changes are
        // seen.
        while self.0.swap(true, Acquire) {
            looks += 1;
            if looks % LOOKS == 0 {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
        let result = body();
        // ORDERING(bench-spin.2): Release, pairs with bench-spin.1.
        self.0.store(false, Release);
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        // ORDERING(bench-spin.1): as above.
        (!self.0.swap(true, Acquire)).then(|| {
            let result = body();
            // ORDERING(bench-spin.2): as above.
            self.0.store(false, Release);
            result
        })
    }
}

/// A number that only a lock keeps right: increments that overlap get lost.
#[derive(Default)]
pub(super) struct Counter(UnsafeCell<u64>);

// SAFETY: a number; a thread that changes it has the lock that it belongs to.
unsafe impl Sync for Counter {}

impl Counter {
    /// By the holder of the lock.
    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        // SAFETY: alive, and no other thread changes it now.
        unsafe { self.0.get().read_volatile() }
    }

    /// By the holder of the lock.
    #[inline(always)]
    pub(super) fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::semaphores::{EventFd, Ours, SemT, SysV};
    use super::*;
    use std::thread;

    fn excludes<L: Lock>() {
        let (lock, counter) = (L::new().unwrap(), Counter::default());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..200 {
                        let add = || {
                            let value = counter.get();
                            thread::yield_now();
                            counter.set(value + 1);
                        };
                        if turn % 2 == 0 {
                            lock.with(add);
                        } else {
                            while lock.try_with(add).is_none() {
                                thread::yield_now();
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(counter.get(), 600);
        assert_eq!(lock.with(|| lock.try_with(|| ())), None);
    }

    #[test]
    fn all_of_them_exclude() {
        excludes::<Ours<true>>();
        excludes::<Ours<false>>();
        excludes::<SemT>();
        excludes::<SysV>();
        excludes::<EventFd>();
        excludes::<Mutexes<true>>();
        excludes::<Mutexes<false>>();
        excludes::<Std>();
        excludes::<ParkingLot<true>>();
        excludes::<ParkingLot<false>>();
        excludes::<Pthread>();
        excludes::<Spin>();
    }
}
