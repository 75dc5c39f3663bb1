//! The cells of the standard library, which fail where two threads are at one without an order
//! between them.

use super::pool::Slot;
pub(crate) use real::cell::{OnceCell, RefCell};

pub(crate) struct Cell<T> {
    slot: Slot,
    value: real::cell::Cell<T>,
}

impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Cell<T> {
        Cell {
            slot: Slot::new(),
            value: real::cell::Cell::new(value),
        }
    }

    #[track_caller]
    pub(crate) fn set(&self, value: T) {
        self.slot.access(true);
        self.value.set(value);
    }

    #[track_caller]
    pub(crate) fn replace(&self, value: T) -> T {
        self.slot.access(true);
        self.value.replace(value)
    }
}

impl<T: Copy> Cell<T> {
    #[track_caller]
    pub(crate) fn get(&self) -> T {
        self.slot.access(false);
        self.value.get()
    }
}

impl<T: Default> Cell<T> {
    #[track_caller]
    pub(crate) fn take(&self) -> T {
        self.slot.access(true);
        self.value.take()
    }
}

impl<T: Copy + real::fmt::Debug> real::fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut real::fmt::Formatter<'_>) -> real::fmt::Result {
        self.get().fmt(f)
    }
}

/// A thread that still uses it when it ends has come too late.
impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        if !real::thread::panicking() && self.slot.is_used() {
            self.slot.access(true);
        }
    }
}

/// A thread that asks for the pointer is taken to write, then: for cells whose users exclude each
/// other.
pub(crate) struct UnsafeCell<T> {
    slot: Slot,
    value: real::cell::UnsafeCell<T>,
}

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell {
            slot: Slot::new(),
            value: real::cell::UnsafeCell::new(value),
        }
    }

    #[track_caller]
    pub(crate) fn get(&self) -> *mut T {
        self.slot.access(true);
        self.value.get()
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for UnsafeCell<T> {
    fn default() -> UnsafeCell<T> {
        UnsafeCell::new(T::default())
    }
}
