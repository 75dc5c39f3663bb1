//! Memory that may be refused, for callers that have an error to give: `Box::new` ends the process.

use std::alloc::{Layout, alloc};

/// Puts the value on the heap. None if there is no memory.
pub fn try_box<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: the layout is not empty.
    let place = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
    if place.is_null() {
        return None;
    }
    // SAFETY: allocated with the value's layout, and ours.
    unsafe { place.write(value) };
    // SAFETY: allocated with the layout that a box of the value has, and written.
    Some(unsafe { Box::from_raw(place) })
}

/// Descriptors of a kind that are not in use. To give one back takes no memory.
#[derive(Debug)]
pub struct SpareList<T: 'static> {
    /// Has room for all that were made.
    free: Vec<&'static T>,
    made: usize,
}

impl<T> SpareList<T> {
    /// None was made yet.
    pub const fn new() -> Self {
        SpareList {
            free: Vec::new(),
            made: 0,
        }
    }

    /// One that is not in use, or a new one. None if there is no memory.
    pub fn take_or(&mut self, make: impl FnOnce() -> Option<&'static T>) -> Option<&'static T> {
        if let Some(spare) = self.free.pop() {
            return Some(spare);
        }
        self.free.try_reserve(self.made + 1).ok()?;
        let new = make()?;
        self.made += 1;
        Some(new)
    }

    /// Takes back one that [`take_or`](SpareList::take_or) has given.
    pub fn give_back(&mut self, unused: &'static T) {
        self.free.push(unused);
    }
}

impl<T> Default for SpareList<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_holds_its_value() {
        assert_eq!(try_box([7u64; 9]).as_deref(), Some(&[7; 9]));
    }

    #[test]
    fn there_is_room_for_all_that_were_made() {
        let mut spares = SpareList::new();
        let make = || try_box(5u32).map(|one| &*Box::leak(one));
        let all: [_; 40] = std::array::from_fn(|_| spares.take_or(make));
        let room = spares.free.capacity();
        assert!(spares.made == 40 && room >= 40);
        all.into_iter()
            .flatten()
            .for_each(|one| spares.give_back(one));
        assert!(spares.free.len() == 40 && spares.free.capacity() == room);
        for _ in 0..40 {
            assert!(spares.take_or(|| None).is_some());
        }
        assert!(spares.take_or(|| None).is_none());
    }
}
