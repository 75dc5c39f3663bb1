//! A pointer to something that lives for ever, or to nothing. Intrusive lists are made of these.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// The holder of the list's lock reads and writes it. The atomic only makes it shareable, so
/// accesses are relaxed. A link that other threads follow without the lock goes through `publish`
/// and `see`.
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
        self.0.store(
            to.map_or(null_mut(), |to| (to as *const T).cast_mut()),
            Relaxed,
        );
    }

    /// Sets it for the threads that [`see`](Link::see) it.
    #[inline]
    pub(crate) fn publish(&self, to: &'static T) {
        // ORDERING(link.1): Release, pairs with link.2. A thread that follows the link finds the
        // target complete.
        self.0.store((to as *const T).cast_mut(), Release);
    }

    /// The target, as a thread without the list's lock reads it.
    #[inline]
    pub(crate) fn see(&self) -> Option<&'static T> {
        // ORDERING(link.2): Acquire, pairs with link.1.
        // SAFETY: as in `get`.
        unsafe { self.0.load(Acquire).as_ref() }
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
