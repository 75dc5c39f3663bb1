//! Values that are made once.

use super::once::Once;
use crate::rt::time::Elapsed;
use crate::rt::timed;
use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made once, by the first caller, and then read by all.
///
/// If making it unwinds, by a panic or because the worker was aborted, it was not made, and the
/// next caller or waiter makes it. To use it from within its own making waits for ever. Reading it
/// is a load. Not for signal handlers.
///
/// ```
/// use umcg::sync::OnceLock;
///
/// static TABLE: OnceLock<Vec<u32>> = OnceLock::new();
///
/// fn table() -> &'static [u32] {
///     TABLE.get_or_init(|| (0..10).map(|n| n * n).collect())
/// }
///
/// assert_eq!(table()[3], 9);
/// assert!(TABLE.set(Vec::new()).is_err());
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// Written by the one caller that makes it; after that it is only read.
    value: UnsafeCell<MaybeUninit<T>>,
    /// It owns one.
    marker: PhantomData<T>,
}

// SAFETY: `&OnceLock` gives `&T` to many threads, and moves a T from the one that makes it to the
// one that drops it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: as a T.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Without a value.
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            once: Once::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            marker: PhantomData,
        }
    }

    /// The value, if it was made. Never waits.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it was made, and is not written any more.
        self.once.is_completed().then(|| unsafe { self.assume() })
    }

    /// The same for a caller that has the lock to itself.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if !self.once.is_completed() {
            return None;
        }
        // SAFETY: as in `get`, and there is no other reference.
        Some(unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Makes `value` its value; waits if another caller is making one. A point of cancellation if
    /// it has to wait. Switches.
    ///
    /// # Errors
    /// `value`, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.try_insert(value)
            .map(|_| ())
            .map_err(|(_, value)| value)
    }

    /// As [`OnceLock::set`], and the value that is there.
    ///
    /// # Errors
    /// The value that is there, and `value`.
    pub fn try_insert(&self, value: T) -> Result<&T, (&T, T)> {
        let mut value = Some(value);
        let made = self.get_or_init(|| value.take().unwrap_or_else(|| unreachable!("called once")));
        match value {
            None => Ok(made),
            Some(value) => Err((made, value)),
        }
    }

    /// The value, which `f` makes if it was not made before. Waits if another caller is making it.
    /// A point of cancellation if it has to wait. Switches.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<T, Infallible>(f())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// As [`OnceLock::get_or_init`], with an `f` that may fail: then there is no value, and the
    /// next caller or waiter makes it.
    ///
    /// # Errors
    /// Those of `f`.
    #[inline]
    pub fn get_or_try_init<E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if !self.once.is_completed() {
            self.once.try_call_once(|| {
                let value = f()?;
                // SAFETY: the caller is the only one that does this, and there is no value yet.
                unsafe { &mut *self.value.get() }.write(value);
                Ok(())
            })?;
        }
        // SAFETY: it is there by now, as in `get`.
        Ok(unsafe { self.assume() })
    }

    /// Waits until the value was made. A point of cancellation if it has to wait. Switches.
    pub fn wait(&self) -> &T {
        self.once.wait();
        // SAFETY: as in `get`.
        unsafe { self.assume() }
    }

    timed! {
        "OnceLock::wait";
        /// # Errors
        /// [`Elapsed`].
        pub fn wait_deadline, wait_timeout(&self) -> Result<&T, Elapsed>;
        |deadline| {
            self.once.wait_until(deadline)?;
            // SAFETY: as in `get`.
            Ok(unsafe { self.assume() })
        }
    }

    /// Takes the value out; another can be made then.
    pub fn take(&mut self) -> Option<T> {
        if !self.once.is_completed() {
            return None;
        }
        self.once = Once::new();
        // SAFETY: it was made; there is no other reference, and it does not count as made any more.
        Some(unsafe { self.value.get_mut().assume_init_read() })
    }

    /// The value.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// # Safety
    /// It was made.
    #[inline]
    unsafe fn assume(&self) -> &T {
        // SAFETY: it is not written any more.
        let value = unsafe { &*self.value.get() };
        // SAFETY: as the caller says.
        unsafe { value.assume_init_ref() }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        let made = OnceLock::new();
        let _ = made.set(value);
        made
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get()
            .cloned()
            .map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLock").field(&self.get()).finish()
    }
}

/// A value that is made when it is first used, by a function that it was given.
///
/// If the function unwinds, by a panic or because the worker was aborted, the value was not made,
/// and the function is called again for the next use. So it is an `Fn`, where std's is an `FnOnce`
/// and poisons the value. Otherwise as [`OnceLock`].
///
/// ```
/// use umcg::sync::LazyLock;
///
/// static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| vec!["one".to_owned(), "two".to_owned()]);
///
/// assert_eq!(NAMES.len(), 2);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    make: F,
}

impl<T, F: Fn() -> T> LazyLock<T, F> {
    /// A value that `make` will make.
    pub const fn new(make: F) -> LazyLock<T, F> {
        LazyLock {
            value: OnceLock::new(),
            make,
        }
    }

    /// The value. Waits if another caller is making it. A point of cancellation if it has to wait.
    /// Switches.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(&this.make)
    }

    /// The value, if it was made. Never waits.
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// The value; or its function, if the value was not made.
    ///
    /// # Errors
    /// The function.
    pub fn into_inner(this: LazyLock<T, F>) -> Result<T, F> {
        this.value.into_inner().ok_or(this.make)
    }
}

impl<T, F: Fn() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyLock").field(&self.value.get()).finish()
    }
}
