//! Memory that a guest names in a system call: it is read and written as the kernel does it, with
//! EFAULT where nothing is mapped.

use std::mem::MaybeUninit;
use std::ptr::{from_ref, with_exposed_provenance_mut};
use umcg_core::guarded;
use umcg_core::reach::{copy, must_not_fault};

/// Data that a guest and the kernel exchange: any bits are a value.
///
/// # Safety
/// Each pattern of bits is a value of the type, and the type has no padding.
pub(super) unsafe trait KernelData: Copy {}

// SAFETY: a number.
unsafe impl KernelData for u64 {}
// SAFETY: numbers.
unsafe impl KernelData for [u64; 2] {}
// SAFETY: numbers.
unsafe impl KernelData for [u64; 4] {}
// SAFETY: numbers.
unsafe impl KernelData for [u64; 8] {}
// SAFETY: numbers.
unsafe impl KernelData for [u64; 9] {}
// SAFETY: numbers.
unsafe impl KernelData for [u64; 11] {}

/// EFAULT, as the kernel returns it.
pub(super) const FAULT: isize = -(libc::EFAULT as isize);

/// The value at this address, if all of it can be read.
pub(super) fn read<T: KernelData>(from: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let words = size_of::<T>() / size_of::<u32>();
    if from % size_of::<u32>() == 0 && !must_not_fault() {
        let to = value.as_mut_ptr().cast::<u32>();
        for index in 0..words {
            let word = guarded::load(from.wrapping_add(index * size_of::<u32>()))?;
            // SAFETY: within the value.
            unsafe { to.wrapping_add(index).write(word) };
        }
    } else if !copy(
        libc::SYS_process_vm_readv,
        value.as_mut_ptr().addr(),
        from,
        size_of::<T>(),
    ) {
        return None;
    }
    // SAFETY: all of it was written, and any bits are a value.
    Some(unsafe { value.assume_init() })
}

/// Reads words of any thread's memory, which may be gone. By [`copy`]: the caller may be a thread
/// that must not fault. False if not all of them could be read.
pub(super) fn fetch(from: usize, to: &mut [usize]) -> bool {
    let own = to.as_mut_ptr().expose_provenance();
    copy(libc::SYS_process_vm_readv, own, from, size_of_val(to))
}

/// Stores a value. Returns false if not all of it could be stored.
pub(super) fn write<T: KernelData>(to: usize, value: T) -> bool {
    const WORD: usize = size_of::<u64>();
    if to % WORD != 0 || size_of::<T>() % WORD != 0 || must_not_fault() {
        let from = from_ref(&value).expose_provenance();
        return copy(libc::SYS_process_vm_writev, from, to, size_of::<T>());
    }
    (0..size_of::<T>() / WORD).all(|index| {
        let from = from_ref(&value).cast::<u64>().wrapping_add(index);
        // SAFETY: within the value, in which any bits are a number.
        let word = unsafe { from.read_unaligned() };
        let to = with_exposed_provenance_mut::<u64>(to.wrapping_add(index * WORD));
        // SAFETY: the guest gave the address for the result.
        unsafe { guarded::store(to, word) }
    })
}
