//! Reads and writes at addresses that the caller of the library gave, where nothing may be mapped:
//! a bad pointer becomes an error.
//!
//! Each access is one instruction, the first of a small function. If it faults, the handler of
//! `fault` continues behind it, at the place that the function gives (`after_fault`). So a good
//! pointer costs a call, and no system call. Rejected: asking the kernel (process_vm_readv, or a
//! futex call that does nothing). It takes some hundred nanoseconds each time, where a wait takes
//! tens.
//!
//! The handler cannot run if SIGSEGV is blocked, or if the program has replaced it by one that does
//! not pass the signal on. There a bad pointer ends the process.
//! Guests may block it: see `umcg::reach`.

use crate::os::fault;

unsafe extern "C" {
    /// 0, or 1 where the value could not be stored.
    fn umcg_store(to: *mut u64, value: u64) -> usize;
    fn umcg_store_failed();
    /// The same for a word of 32 bits.
    fn umcg_store_word(to: usize, value: u32) -> usize;
    fn umcg_store_word_failed();
    /// The word, or all bits set where it could not be read.
    fn umcg_load(from: usize) -> u64;
    fn umcg_load_failed();
}

/// Where the function continues whose access, at this program counter, has faulted. None if that is
/// no access of this module. Async-signal-safe.
pub(crate) fn after_fault(pc: usize) -> Option<usize> {
    let accesses: [(*const (), *const ()); 3] = [
        (umcg_store as _, umcg_store_failed as _),
        (umcg_store_word as _, umcg_store_word_failed as _),
        (umcg_load as _, umcg_load_failed as _),
    ];
    accesses
        .iter()
        .find(|(access, _)| access.addr() == pc)
        .map(|(_, failed)| failed.addr())
}

/// Stores `value` at an address that the caller of the library gave, which is aligned. Returns
/// false if nothing can be written there.
///
/// # Safety
/// Either nothing is mapped writable at `to`, or the word there is the caller's to write.
pub unsafe fn store(to: *mut u64, value: u64) -> bool {
    fault::install();
    // SAFETY: by the contract. A fault in it is caught.
    unsafe { umcg_store(to, value) == 0 }
}

/// Stores a word at an address that the caller of the library gave, as by a relaxed atomic
/// operation. False if nothing can be written there, or the address is not aligned.
///
/// # Safety
/// As [`store`].
pub unsafe fn store_word(to: usize, value: u32) -> bool {
    if to % size_of::<u32>() != 0 {
        return false;
    }
    fault::install();
    // SAFETY: by the contract. A fault in it is caught.
    unsafe { umcg_store_word(to, value) == 0 }
}

/// Reads the word at an address that the caller of the library gave, as by a relaxed atomic
/// operation. None if nothing can be read there, or the address is not aligned.
///
/// The address may be any number: reading changes nothing.
#[inline]
pub fn load(from: usize) -> Option<u32> {
    if from % size_of::<u32>() != 0 {
        return None;
    }
    fault::install();
    // SAFETY: a fault in it is caught. It is one aligned instruction, so a write meanwhile does not
    // tear the value.
    let word = unsafe { umcg_load(from) };
    u32::try_from(word).ok()
}

/// Whether these bytes can be read.
pub fn is_readable(from: usize, len: usize) -> bool {
    /// The smallest page size that exists: between two probes there is no page border.
    const PAGE: usize = 4096;
    let end = from.saturating_add(len);
    let mut at = from & !(size_of::<u32>() - 1);
    while at < end {
        if load(at).is_none() {
            return false;
        }
        at = (at | (PAGE - 1)).saturating_add(1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn pages(count: usize, protection: i32) -> *mut u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, wherever the kernel likes.
        let at = unsafe { libc::mmap(null_mut(), count * 4096, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at.cast()
    }

    #[test]
    fn what_is_there_is_read() {
        let words = [7u32, u32::MAX];
        let at = words.as_ptr().expose_provenance();
        assert_eq!((load(at), load(at + 4)), (Some(7), Some(u32::MAX)));
        assert!(is_readable(at, 8) && is_readable(at + 1, 1) && is_readable(0, 0));
    }

    #[test]
    fn a_word_is_stored_where_it_can_be() {
        let mut words = [1u32, 2];
        let at = words.as_mut_ptr().expose_provenance();
        // SAFETY: the first word is ours.
        assert!(unsafe { store_word(at, 7) });
        assert_eq!(words, [7, 2]);
        let read_only = pages(1, libc::PROT_READ).expose_provenance();
        for at in [0, at + 2, read_only, pages(1, libc::PROT_NONE).addr()] {
            // SAFETY: nothing can be written there.
            assert!(!unsafe { store_word(at, 7) });
        }
        assert_eq!(load(read_only), Some(0));
    }

    #[test]
    fn what_is_not_there_is_none() {
        for at in [
            0,
            pages(1, libc::PROT_NONE).addr(),
            1 << 63,
            usize::MAX & !3,
            2,
        ] {
            assert_eq!(load(at), None);
            assert!(!is_readable(at, 1));
        }
    }

    #[test]
    fn the_second_page_is_looked_at() {
        let two = pages(2, libc::PROT_READ);
        let at = two.expose_provenance();
        assert!(is_readable(at, 8192));
        let second = two.wrapping_add(4096);
        assert_eq!(
            // SAFETY: ours, and used nowhere else.
            unsafe { libc::mprotect(second.cast(), 4096, libc::PROT_NONE) },
            0
        );
        assert!(is_readable(at, 4096));
        assert!(!is_readable(at, 4097));
        assert!(!is_readable(second.addr() - 4, 8));
    }
}
