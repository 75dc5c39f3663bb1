//! Values that may lie in memory that other processes write.

use std::mem::MaybeUninit;

/// A type whose values are plain data: any bytes that another process writes in the place of a
/// value are a value.
///
/// # Safety
/// Any bits are a value of the type. It has no padding between or behind its parts. It contains
/// nothing, such as an address, that has a meaning in one process only.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty)*) => {
        $(
            // SAFETY: a number.
            unsafe impl Plain for $type {}
        )*
    };
}

plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: an array holds elements of this kind, one after the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A value as bytes.
pub(super) trait AsBytes: Plain {
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: all of its bytes have a value, as there is no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value whose bytes `fill` writes.
    fn filled<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut value = MaybeUninit::<Self>::zeroed();
        // SAFETY: that many bytes, which have the value 0.
        fill(unsafe {
            std::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<Self>())
        })?;
        // SAFETY: any bits are a value.
        Ok(unsafe { value.assume_init() })
    }
}

impl<T: Plain> AsBytes for T {}
