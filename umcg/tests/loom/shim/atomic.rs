//! The atomics of the standard library, as the checker has them.

use super::pool::Slot;
use Ordering::{Relaxed, SeqCst};
pub(crate) use loom::sync::atomic::{Ordering, fence};
use real::marker::PhantomData;
// A hint of a lock, what its word will be: nothing depends on it, so it is left out of what is explored.
pub(crate) use real::sync::atomic::AtomicU8;

/// A value that has room in 64 bits.
pub(crate) trait Value: Copy {
    fn into_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

/// What the atomic behind it has is the difference to the initial value, so that it begins with 0.
pub(crate) struct Atomic<T> {
    slot: Slot,
    initial: u64,
    _value: PhantomData<T>,
}

// SAFETY: the checker runs one thread at a time, and finds those that do not exclude each other.
unsafe impl<T> Sync for Atomic<T> {}
// SAFETY: likewise.
unsafe impl<T> Send for Atomic<T> {}

impl<T: Value> Atomic<T> {
    const fn of_bits(initial: u64) -> Atomic<T> {
        Atomic { slot: Slot::new(), initial, _value: PhantomData }
    }

    fn inner(&self, value: T) -> u64 {
        value.into_bits().wrapping_sub(self.initial)
    }

    fn outer(&self, bits: u64) -> T {
        T::from_bits(bits.wrapping_add(self.initial))
    }

    pub(crate) fn load(&self, order: Ordering) -> T {
        self.outer(self.slot.atomic(|atomic| atomic.load(order)))
    }

    pub(crate) fn store(&self, value: T, order: Ordering) {
        self.slot.atomic(|atomic| atomic.store(self.inner(value), order));
    }

    pub(crate) fn swap(&self, value: T, order: Ordering) -> T {
        self.outer(self.slot.atomic(|atomic| atomic.swap(self.inner(value), order)))
    }

    pub(crate) fn compare_exchange(&self, from: T, to: T, order: Ordering, or: Ordering) -> Result<T, T> {
        let exchanged = self.slot.atomic(|atomic| atomic.compare_exchange(self.inner(from), self.inner(to), order, or));
        exchanged.map(|bits| self.outer(bits)).map_err(|bits| self.outer(bits))
    }

    pub(crate) fn compare_exchange_weak(&self, from: T, to: T, order: Ordering, or: Ordering) -> Result<T, T> {
        self.compare_exchange(from, to, order, or)
    }

    pub(crate) fn fetch_add(&self, value: T, order: Ordering) -> T {
        self.outer(self.slot.atomic(|atomic| atomic.fetch_add(value.into_bits(), order)))
    }

    pub(crate) fn fetch_sub(&self, value: T, order: Ordering) -> T {
        self.outer(self.slot.atomic(|atomic| atomic.fetch_sub(value.into_bits(), order)))
    }

    /// The newest value there is, which a load does not always see. It synchronises with nobody.
    pub(crate) fn newest(&self) -> T {
        self.outer(self.slot.atomic(|atomic| atomic.fetch_add(0, Relaxed)))
    }
}

impl<T: Value + real::fmt::Debug> real::fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut real::fmt::Formatter<'_>) -> real::fmt::Result {
        self.load(SeqCst).fmt(f)
    }
}

macro_rules! atomics {
    ($($name:ident of $value:ty;)*) => {
        $(
            pub(crate) type $name = Atomic<$value>;

            impl Value for $value {
                fn into_bits(self) -> u64 {
                    self as u64
                }

                fn from_bits(bits: u64) -> $value {
                    bits.try_into().expect("an atomic was counted over its end")
                }
            }

            impl $name {
                pub(crate) const fn new(initial: $value) -> $name {
                    Atomic::of_bits(initial as u64)
                }
            }

            impl Default for $name {
                fn default() -> $name {
                    $name::new(0)
                }
            }
        )*
    };
}

atomics! {
    AtomicU32 of u32;
    AtomicU64 of u64;
    AtomicUsize of usize;
}

pub(crate) type AtomicBool = Atomic<bool>;

impl Value for bool {
    fn into_bits(self) -> u64 {
        self.into()
    }

    fn from_bits(bits: u64) -> bool {
        bits != 0
    }
}

impl AtomicBool {
    pub(crate) const fn new(initial: bool) -> AtomicBool {
        Atomic::of_bits(initial as u64)
    }
}

pub(crate) type AtomicPtr<T> = Atomic<*mut T>;

impl<T> Value for *mut T {
    fn into_bits(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_bits(bits: u64) -> *mut T {
        real::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

impl<T> AtomicPtr<T> {
    /// Null at first.
    pub(crate) const fn null() -> AtomicPtr<T> {
        Atomic::of_bits(0)
    }
}
