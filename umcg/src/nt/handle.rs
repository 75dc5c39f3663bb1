//! Handles: references to objects, which count them.

use super::clock::{self, Alarm};
use super::object::{Object, ObjectKind};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A reference to an object of any kind, which lives as long as it has a handle; a mutex also as
/// long as its owner, a worker or thread, holds it and lives. The types of objects are handles that
/// know their kind.
#[repr(transparent)]
pub struct Handle(NonNull<Object>);

// SAFETY: the object is shared between threads in any case.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn new(object: Object) -> Handle {
        Handle(NonNull::from(Box::leak(Box::new(object))))
    }

    pub(super) fn of_timer(is_manual: bool) -> Handle {
        let mut room = Box::<Object>::new_uninit();
        let address = room.as_mut_ptr().expose_provenance();
        room.write(Object::timer(is_manual, Alarm::of(address)));
        // SAFETY: written just now.
        Handle(NonNull::from(Box::leak(unsafe { room.assume_init() })))
    }

    pub(super) fn object(&self) -> &Object {
        // SAFETY: the object lives as long as it has a handle.
        unsafe { self.0.as_ref() }
    }

    /// The same, to be waited for.
    #[inline]
    pub fn as_handle(&self) -> BorrowedHandle<'_> {
        BorrowedHandle(self.0, PhantomData)
    }

    /// As a word, for structures that hold one.
    pub fn into_raw(self) -> *const () {
        std::mem::ManuallyDrop::new(self)
            .0
            .as_ptr()
            .cast_const()
            .cast()
    }

    /// The handle again.
    ///
    /// # Safety
    /// The word came from [`Handle::into_raw`], and stands for one handle only.
    pub unsafe fn from_raw(word: *const ()) -> Handle {
        // SAFETY: by the contract it is not null.
        Handle(unsafe { NonNull::new_unchecked(word.cast_mut().cast()) })
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        self.object().retain();
        Handle(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.object().release() {
            return;
        }
        if matches!(self.object().kind(), ObjectKind::Timer { .. }) {
            clock::disarm(self.object());
        }
        // SAFETY: it came from a box, and this was the last handle.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl PartialEq for Handle {
    /// Whether it is the same object.
    fn eq(&self, other: &Handle) -> bool {
        self.0 == other.0
    }
}

impl Eq for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(f)
    }
}

/// A handle that is borrowed from its holder.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct BorrowedHandle<'a>(NonNull<Object>, PhantomData<&'a Handle>);

// SAFETY: as for handles.
unsafe impl Send for BorrowedHandle<'_> {}
// SAFETY: as for handles.
unsafe impl Sync for BorrowedHandle<'_> {}

impl<'a> BorrowedHandle<'a> {
    /// The handle of a word.
    ///
    /// # Safety
    /// The word came from [`Handle::into_raw`], and the object has a handle as long as this is
    /// used.
    pub unsafe fn from_raw(word: *const ()) -> BorrowedHandle<'a> {
        // SAFETY: by the contract it is not null.
        BorrowedHandle(
            unsafe { NonNull::new_unchecked(word.cast_mut().cast()) },
            PhantomData,
        )
    }

    pub(super) fn object(self) -> &'a Object {
        // SAFETY: the object lives as long as it has a handle.
        unsafe { self.0.as_ref() }
    }

    /// A handle of one's own.
    pub fn to_handle(self) -> Handle {
        self.object().retain();
        Handle(self.0)
    }

    /// Whether it is an event, as an alert has to be.
    pub fn is_event(self) -> bool {
        matches!(self.object().kind(), ObjectKind::Event { .. })
    }

    pub(super) fn is_mutex(self) -> bool {
        matches!(self.object().kind(), ObjectKind::Mutex)
    }
}

impl fmt::Debug for BorrowedHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(f)
    }
}
