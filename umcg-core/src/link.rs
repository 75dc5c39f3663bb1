//! A pointer to something that lives for ever, or to nothing: what intrusive lists are made of.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// Read and written by whoever holds the list's lock; the atomic only makes it shareable, so all accesses are relaxed.
pub(crate) struct Link<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Link<T> {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: only ever made from a `&'static T`.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    #[inline]
    pub(crate) fn set(&self, to: Option<&'static T>) {
        self.0.store(to.map_or(null_mut(), |to| (to as *const T).cast_mut()), Relaxed);
    }

    pub(crate) fn take(&self) -> Option<&'static T> {
        let now = self.get();
        self.set(None);
        now
    }

    pub(crate) fn is(&self, other: &T) -> bool {
        std::ptr::eq(self.0.load(Relaxed), other)
    }
}
