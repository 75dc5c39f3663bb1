//! A table of shared references by number. It grows and is read without a lock.
//!
//! Chunk `k` holds the numbers from `2^k` to `2^(k+1) - 1` (counted from [`FIRST`]), so an entry
//! never moves. A chunk is a zeroed allocation: the kernel gives memory only to the pages that are
//! used, even for a number in the millions.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

const FIRST_BITS: u32 = 6;
const FIRST: u64 = 1 << FIRST_BITS;
const CHUNKS: usize = 33 - FIRST_BITS as usize;

/// Numbers (any `u32`) to references that live for ever.
pub(crate) struct RefTable<T: 'static> {
    chunks: [AtomicPtr<AtomicPtr<T>>; CHUNKS],
}

fn locate(number: u32) -> (usize, usize, usize) {
    let shifted = u64::from(number) + FIRST;
    let top = shifted.ilog2();
    (
        (top - FIRST_BITS) as usize,
        (shifted - (1 << top)) as usize,
        1usize << top,
    )
}

fn layout<T>(len: usize) -> Option<Layout> {
    Layout::array::<AtomicPtr<T>>(len).ok()
}

impl<T: Sync> RefTable<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
        }
    }

    /// The entry of `number`, if it has one.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&'static T> {
        let (chunk, index, _) = locate(number);
        // ORDERING(table.2): Acquire, pairs with table.1.
        let chunk = self.chunks[chunk].load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: `locate` keeps the index inside the chunk; chunks are never freed and are valid
        // when zero.
        let entry = unsafe { &*chunk.wrapping_add(index) };
        // ORDERING(table.4): Acquire, pairs with table.3.
        let value = entry.load(Acquire);
        // SAFETY: entries are only ever made from `&'static T`.
        unsafe { value.as_ref() }
    }

    /// Replaces the entry of `number`. Returns false when there is no memory for it.
    pub(crate) fn set(&self, number: u32, value: Option<&'static T>) -> bool {
        let Some(entry) = self.entry(number) else {
            return false;
        };
        // ORDERING(table.3): Release, pairs with table.4. A thread that finds the value sees its
        // target.
        entry.store(
            value.map_or(null_mut(), |value| (value as *const T).cast_mut()),
            Release,
        );
        true
    }

    /// Makes `value` the entry of `number` if it has none. Returns false when it has one, or when
    /// there is no memory.
    pub(crate) fn claim(&self, number: u32, value: &'static T) -> bool {
        let Some(entry) = self.entry(number) else {
            return false;
        };
        // ORDERING(table.3)
        entry
            .compare_exchange(null_mut(), (value as *const T).cast_mut(), Release, Relaxed)
            .is_ok()
    }

    /// Takes out all entries. Call it only in a process with one thread.
    pub(crate) fn clear(&self) {
        for chunk in &self.chunks {
            chunk.store(null_mut(), Relaxed);
        }
    }

    /// Takes out all entries except those for which `f` is true. The same condition as for
    /// [`RefTable::clear`]. Takes time in proportion to the highest number ever used.
    pub(crate) fn retain(&self, f: impl Fn(&T) -> bool) {
        for (slot, chunk) in self.chunks.iter().enumerate() {
            let chunk = chunk.load(Relaxed);
            let len = if chunk.is_null() {
                0
            } else {
                (FIRST as usize) << slot
            };
            for index in 0..len {
                // SAFETY: a chunk has that many entries; they are never freed and are valid when
                // zero.
                let entry = unsafe { &*chunk.wrapping_add(index) };
                // SAFETY: entries are only ever made from `&'static T`.
                let value = unsafe { entry.load(Relaxed).as_ref() };
                if value.is_some_and(|value| !f(value)) {
                    entry.store(null_mut(), Relaxed);
                }
            }
        }
    }

    fn entry(&self, number: u32) -> Option<&'static AtomicPtr<T>> {
        let (slot, index, len) = locate(number);
        // ORDERING(table.2)
        let mut chunk = self.chunks[slot].load(Acquire);
        if chunk.is_null() {
            let layout = layout::<T>(len)?;
            // SAFETY: the layout has at least 64 entries, so its size is not zero.
            let new = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<T>>();
            if new.is_null() {
                return None;
            }
            // ORDERING(table.1): Release, pairs with table.2. A thread that finds the chunk sees
            // its zeros.
            match self.chunks[slot].compare_exchange(null_mut(), new, AcqRel, Acquire) {
                Ok(_) => chunk = new,
                Err(other) => {
                    // SAFETY: allocated above with this layout, and no other thread saw it.
                    unsafe { dealloc(new.cast(), layout) };
                    chunk = other;
                }
            }
        }
        // SAFETY: as in `get`.
        Some(unsafe { &*chunk.wrapping_add(index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: u32 = 1;
    static TWO: u32 = 2;

    #[test]
    fn holds_numbers_of_every_size() {
        static TABLE: RefTable<u32> = RefTable::new();
        for number in [0, 1, 63, 64, 191, 192, 4_194_304, 5_000_000] {
            assert!(TABLE.get(number).is_none());
            assert!(TABLE.set(number, Some(&ONE)));
            assert_eq!(TABLE.get(number), Some(&1));
            assert!(!TABLE.claim(number, &TWO));
            assert!(TABLE.set(number, None));
            assert!(TABLE.claim(number, &TWO));
            assert_eq!(TABLE.get(number), Some(&2));
        }
        assert!(TABLE.get(u32::MAX).is_none());
    }

    #[test]
    fn retains_what_is_asked_for() {
        static TABLE: RefTable<u32> = RefTable::new();
        for number in [0, 1, 63, 64, 191, 192, 5000] {
            assert!(TABLE.set(number, Some(if number % 2 == 0 { &TWO } else { &ONE })));
        }
        TABLE.retain(|value| *value == TWO);
        for number in [0, 1, 63, 64, 191, 192, 5000] {
            assert_eq!(TABLE.get(number), (number % 2 == 0).then_some(&TWO));
        }
    }
}
