//! C's objects: in its own memory, or in boxes whose addresses it has.

use crate::answer::{Answer, CValue, Errno, answer, errno_of};
use libc::{EINVAL, c_int};

/// The object that C named.
///
/// # Safety
/// `object` is null, or an object that stays where it is as long as the caller uses it.
#[inline]
pub(crate) unsafe fn named<'a, T>(object: *const T) -> Result<&'a T, c_int> {
    // SAFETY: by the contract.
    unsafe { object.as_ref() }.ok_or(EINVAL)
}

/// The answer to a call on an object: that of `f`.
///
/// # Safety
/// As `named`, until `f` returns.
#[inline]
pub(crate) unsafe fn with<'a, T: 'a, R: Answer<C>, C: CValue>(
    object: *const T,
    f: impl FnOnce(&'a T) -> R,
) -> C {
    // SAFETY: passed on.
    answer(unsafe { named(object) }.map(f))
}

/// Makes an object in C's memory.
///
/// # Safety
/// `object` is null, or room for one that no thread uses.
pub(crate) unsafe fn init<T>(object: *mut T, made: Result<T, c_int>) -> c_int {
    answer(made.and_then(|made| {
        if object.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: by the contract.
        unsafe { object.write(made) };
        Ok(())
    }))
}

/// Gives C the address of a new box.
pub(crate) fn boxed<T>(made: Result<T, impl Errno>) -> *mut T {
    answer(
        made.map(|made| Box::into_raw(Box::new(made)))
            .map_err(errno_of),
    )
}

/// Frees the box.
///
/// # Safety
/// `object` is null, or came from `boxed` and is not used any more.
pub(crate) unsafe fn unboxed<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// Stores a further result, if C has asked for it.
///
/// # Safety
/// `to` is null, or room for a value.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by the contract.
        unsafe { to.write(value) };
    }
}

/// Declares functions of C's that call a method, or a closure, with the object that C named, and
/// answer with its result.
macro_rules! methods {
    ($(
        $object:ty { $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $method:expr;)* }
    )*) => {$($(
        /// # Safety
        /// The object is as for `named`, until the call returns.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(object: *const $object $(, $argument: $type)*) -> $result {
            // SAFETY: passed on.
            unsafe { $crate::object::with(object, $method) }
        }
    )*)*};
}

pub(crate) use methods;
