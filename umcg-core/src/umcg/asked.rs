//! The program's memory where the kernel does not copy it: it has no `process_vm_readv` and
//! `process_vm_writev`, or a filter of system calls refuses them. By other calls, which no program
//! can do without, it says whether memory is there. Then the memory is accessed.
//!
//! If another thread takes it away between the two, the access faults. That ends the process only
//! if the kernel thread blocks the signal: words are read by guarded accesses.

use crate::base::call::call;
use crate::os::guarded;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::AtomicU32;

/// EFAULT, as the kernel returns it.
const FAULT: isize = -(libc::EFAULT as isize);
/// The smallest page size that exists.
const PAGE: usize = 4096;
/// What is asked for is aligned to this, so that it is in one page.
const BLOCK: usize = size_of::<u64>();

/// Copies so many bytes to `own`, which is the library's. False if not all of them can be read.
pub(super) fn read(own: usize, from: usize, bytes: usize) -> bool {
    const WORD: usize = size_of::<u32>();
    if !all(from, bytes, can_read) {
        return false;
    }
    let mut done = 0;
    while done < bytes {
        let at = from + done;
        let Some(word) = guarded::load(at & !(WORD - 1)) else {
            return false;
        };
        let part = &word.to_ne_bytes()[at % WORD..];
        let count = part.len().min(bytes - done);
        let to = with_exposed_provenance_mut::<u8>(own + done);
        // SAFETY: within the caller's bytes.
        unsafe { part.as_ptr().copy_to_nonoverlapping(to, count) };
        done += count;
    }
    true
}

/// Copies so many bytes from `own`, which is the library's. False if not all of them can be
/// written; then none is.
///
/// # Safety
/// Either they cannot all be written, or the bytes at `to` are the caller's to write.
pub(super) unsafe fn write(own: usize, to: usize, bytes: usize) -> bool {
    if !all(to, bytes, can_write) {
        return false;
    }
    if bytes == size_of::<u32>() && to % size_of::<u32>() == 0 {
        // SAFETY: within the caller's bytes.
        let word = unsafe { with_exposed_provenance::<u32>(own).read_unaligned() };
        // SAFETY: by the contract. One access, as others may look at the word.
        return unsafe { guarded::store_word(to, word) };
    }
    let own = with_exposed_provenance::<u8>(own);
    let to = with_exposed_provenance_mut::<u8>(to);
    // SAFETY: by the contract; the kernel says that they can be written.
    unsafe { own.copy_to(to, bytes) };
    true
}

/// Whether the kernel says so of each page that has some of these bytes.
fn all(from: usize, bytes: usize, can: impl Fn(usize) -> bool) -> bool {
    let Some(end) = from.checked_add(bytes) else {
        return false;
    };
    let mut at = from & !(BLOCK - 1);
    while at < end {
        if !can(at) {
            return false;
        }
        at = (at | (PAGE - 1)).saturating_add(1);
    }
    true
}

/// Whether the page of the aligned block can be read: the kernel takes a part of it for a set of
/// signals, with which it can do nothing of this kind. That part is not at 0, which is no set.
fn can_read(block: usize) -> bool {
    const NOTHING: usize = usize::MAX;
    // SAFETY: no mask is changed, and nothing is written.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [NOTHING, block | BLOCK, 0, BLOCK, 0, 0],
        ) != FAULT
    }
}

/// Whether the aligned word at `address` can be written: the kernel adds 0 to it, which needs a
/// page that can be written, and makes it one.
///
/// If the word has one value, which hardly any word ever has, that wakes a flow that sleeps in the
/// kernel for it. The flow looks at its word, and sleeps again.
pub fn can_write(address: usize) -> bool {
    /// Nobody waits for it.
    static NONE: AtomicU32 = AtomicU32::new(0);
    const OPERATION: libc::c_int = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    /// Adds 0; then, if it was -2048.
    const ADD_NOTHING: usize = (libc::FUTEX_OP_ADD as usize) << 28 | 0x800;
    let own = NONE.as_ptr().expose_provenance();
    let arguments = [own, OPERATION as usize, 1, 1, address, ADD_NOTHING];
    // SAFETY: no word is changed.
    unsafe { call(libc::SYS_futex, arguments) != FAULT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    /// Two pages, the second of which cannot be accessed.
    fn pages(protection: i32) -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, wherever the kernel likes.
        let at = unsafe { libc::mmap(null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: ours, and used nowhere else.
        let result = unsafe { libc::mprotect(at.wrapping_add(PAGE), PAGE, libc::PROT_NONE) };
        assert_eq!(result, 0);
        at.expose_provenance()
    }

    fn read_at<const N: usize>(from: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        read(bytes.as_mut_ptr().expose_provenance(), from, N).then_some(bytes)
    }

    fn write_at<const N: usize>(to: usize, bytes: [u8; N]) -> bool {
        // SAFETY: the test's own pages, or nothing that can be written.
        unsafe { write(bytes.as_ptr().expose_provenance(), to, N) }
    }

    #[test]
    fn bytes_at_any_address_are_written_and_read() {
        let page = pages(libc::PROT_READ | libc::PROT_WRITE);
        for at in (page..page + 9).chain(page + PAGE - 17..=page + PAGE - 9) {
            assert!(write_at(at, *b"012345678"));
            assert_eq!(read_at(at), Some(*b"012345678"), "{}", at - page);
            assert!(write_at(at, *b"abcd"));
            assert_eq!(read_at(at), Some(*b"abcd45678"), "{}", at - page);
        }
    }

    #[test]
    fn memory_that_is_not_there_is_no_fault() {
        let page = pages(libc::PROT_READ | libc::PROT_WRITE);
        let end = page + PAGE;
        assert_eq!(read_at::<8>(end - 8), Some([0; 8]));
        assert_eq!(read_at::<8>(end - 7), None);
        assert!(!write_at(end - 3, *b"abcd"));
        assert_eq!(read_at(end - 3), Some([0; 3]), "nothing was written");
        assert!(can_read(end - BLOCK) && !can_read(0) && !can_read(end));
        for bad in [0, 8, end, usize::MAX - 3, usize::MAX, 1 << 63] {
            assert_eq!(read_at::<4>(bad), None);
            assert!(!write_at(bad, [0; 4]) && !can_write(bad & !3));
        }
    }

    #[test]
    fn memory_that_is_read_only_is_not_written() {
        let page = pages(libc::PROT_READ);
        assert_eq!(read_at(page + 5), Some([0; 9]));
        assert!(!can_write(page) && !write_at(page, [0; 4]) && !write_at(page + 1, [0; 9]));
    }
}
