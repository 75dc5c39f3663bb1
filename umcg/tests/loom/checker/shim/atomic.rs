//! The atomics of the standard library, as the checker has them.

use super::pool::Slot;
use super::turns;
use Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::AtomicU64 as AtomicOfLoom;
pub(crate) use loom::sync::atomic::{Ordering, fence};
use real::marker::PhantomData;
// A hint of a lock, the expected value of its word: nothing depends on it, so it is left out of the
// exploration.
pub(crate) use real::sync::atomic::AtomicU8;

/// A value that has room in 64 bits.
pub(crate) trait Value: Copy {
    fn into_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

/// The atomic behind it holds the difference to the initial value, so that it begins with 0.
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
        Atomic {
            slot: Slot::new(),
            initial,
            _value: PhantomData,
        }
    }

    fn inner(&self, value: T) -> u64 {
        value.into_bits().wrapping_sub(self.initial)
    }

    fn outer(&self, bits: u64) -> T {
        T::from_bits(bits.wrapping_add(self.initial))
    }

    pub(crate) fn load(&self, order: Ordering) -> T {
        self.slot.atomic(|atomic, last| {
            let bits = atomic.load(order);
            turns::loaded(bits != last.get());
            self.outer(bits)
        })
    }

    /// The checker does not know that nothing comes between the read and the store of one
    /// operation: a plain store could. A store that is in the way of such operations of others, as
    /// a lock's is not, is therefore made to come after all earlier stores.
    pub(crate) fn store(&self, value: T, order: Ordering) {
        if order == Relaxed {
            self.newest();
        }
        self.slot.atomic(|atomic, last| {
            atomic.store(self.inner(value), order);
            last.set(self.inner(value));
        });
        turns::stored();
    }

    pub(crate) fn swap(&self, value: T, order: Ordering) -> T {
        self.change(
            |_| self.inner(value),
            |atomic| atomic.swap(self.inner(value), order),
        )
    }

    pub(crate) fn fetch_add(&self, value: T, order: Ordering) -> T {
        let value = value.into_bits();
        self.change(
            |bits| bits.wrapping_add(value),
            |atomic| atomic.fetch_add(value, order),
        )
    }

    pub(crate) fn fetch_sub(&self, value: T, order: Ordering) -> T {
        let value = value.into_bits();
        self.change(
            |bits| bits.wrapping_sub(value),
            |atomic| atomic.fetch_sub(value, order),
        )
    }

    pub(crate) fn fetch_and(&self, value: T, order: Ordering) -> T {
        let value = value.into_bits();
        self.change(|bits| bits & value, |atomic| atomic.fetch_and(value, order))
    }

    pub(crate) fn fetch_min(&self, value: T, order: Ordering) -> T {
        self.fetch_one_of(|before| before.min(value.into_bits()), order)
    }

    pub(crate) fn fetch_max(&self, value: T, order: Ordering) -> T {
        self.fetch_one_of(|before| before.max(value.into_bits()), order)
    }

    fn fetch_one_of(&self, next: impl Fn(u64) -> u64, order: Ordering) -> T {
        let mut before = self.newest();
        loop {
            match self.compare_exchange(
                before,
                T::from_bits(next(before.into_bits())),
                order,
                Relaxed,
            ) {
                Ok(before) => return before,
                Err(newer) => before = newer,
            }
        }
    }

    fn change(
        &self,
        next: impl FnOnce(u64) -> u64,
        change: impl FnOnce(&AtomicOfLoom) -> u64,
    ) -> T {
        let before = self.slot.atomic(|atomic, last| {
            let before = change(atomic);
            last.set(next(before));
            before
        });
        turns::stored();
        self.outer(before)
    }

    pub(crate) fn compare_exchange(
        &self,
        from: T,
        to: T,
        order: Ordering,
        or: Ordering,
    ) -> Result<T, T> {
        let exchanged = self.slot.atomic(|atomic, last| {
            let exchanged = atomic.compare_exchange(self.inner(from), self.inner(to), order, or);
            if exchanged.is_ok() {
                last.set(self.inner(to));
            }
            exchanged
        });
        match exchanged {
            Ok(_) => turns::stored(),
            Err(_) => turns::loaded(false),
        }
        exchanged
            .map(|bits| self.outer(bits))
            .map_err(|bits| self.outer(bits))
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        from: T,
        to: T,
        order: Ordering,
        or: Ordering,
    ) -> Result<T, T> {
        self.compare_exchange(from, to, order, or)
    }

    /// The newest value there is, which a load does not always see. It synchronises with no thread,
    /// and is no store, either: the checker would take that for one that others may come before.
    pub(crate) fn newest(&self) -> T {
        let none = !self.initial;
        let newest = self
            .slot
            .atomic(|atomic, _| atomic.compare_exchange(none, none, Relaxed, Relaxed));
        self.outer(newest.unwrap_or_else(|newest| newest))
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

impl<T> Default for AtomicPtr<T> {
    fn default() -> AtomicPtr<T> {
        Atomic::of_bits(0)
    }
}
