//! The shape of a message for a tube: so many bytes.

use std::alloc;
use std::marker::PhantomData;

/// Larger messages are not copied under the lock. Up to this size the copy costs less than taking
/// the lock twice: above all between two processors, where the lock and the numbers of places would
/// have to be transferred twice as well.
pub(super) const LARGE: usize = 1024;
/// Nor are messages that are aligned to more than a cache line: the guards of small messages have
/// these inside (`guards`).
const WIDE: usize = 64;

/// The shape of a tube's messages.
///
/// # Safety
/// `copy` copies as many bytes as `memory(1)` has.
pub(crate) unsafe trait Layout: Copy {
    /// The memory of so many messages; none if there is no such thing.
    fn memory(self, count: usize) -> Option<alloc::Layout>;

    /// The bytes from one message to the next.
    fn size(self) -> usize;

    /// Whether a message is copied outside of the lock.
    fn is_large(self) -> bool;

    /// Copies a message.
    ///
    /// # Safety
    /// `from` and `to` are different places of such a message, aligned as the layout asks.
    unsafe fn copy(self, from: *const u8, to: *mut u8);
}

/// Messages of a type.
pub(crate) struct Typed<T>(PhantomData<fn(T) -> T>);

impl<T> Typed<T> {
    pub(crate) const IS_LARGE: bool = size_of::<T>() > LARGE || align_of::<T>() > WIDE;

    pub(crate) const fn new() -> Typed<T> {
        Typed(PhantomData)
    }
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Typed<T> {
        *self
    }
}

impl<T> Copy for Typed<T> {}

// SAFETY: one T is copied, of which `memory` has so many.
unsafe impl<T> Layout for Typed<T> {
    fn memory(self, count: usize) -> Option<alloc::Layout> {
        alloc::Layout::array::<T>(count).ok()
    }

    #[inline(always)]
    fn size(self) -> usize {
        size_of::<T>()
    }

    #[inline(always)]
    fn is_large(self) -> bool {
        Self::IS_LARGE
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: passed on.
        unsafe { from.cast::<T>().copy_to_nonoverlapping(to.cast::<T>(), 1) };
    }
}
