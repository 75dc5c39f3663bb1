//! The list of robust locks that a guest still has when it ends: each is marked, and a waiter of it
//! woken, as the kernel does at the end of a thread (`exit_robust_list`).
//!
//! A thread that ends blocks all signals, so no access here may fault: the kernel makes those at
//! addresses that the program has set.

use super::memory;
use super::words::wake_in_kernel;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg_core::reach::can_write;

/// The most locks that are looked at.
const MOST: usize = 2048;
/// The bit of a pointer that names a lock with priority inheritance.
const INHERITS: usize = 1;
const TID: u32 = 0x3fff_ffff;
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;

/// Walks the list with this head, for the thread with this id and storage, the caller. True if it
/// has a lock with priority inheritance, which the kernel hands over when the kernel thread ends.
pub(super) fn walk(head: usize, tid: u32, storage: usize) -> bool {
    let head_words = if is_of_library(head, storage) {
        let at = with_exposed_provenance::<[usize; 3]>(head);
        // SAFETY: the C library's own head, in the storage of the calling thread.
        Some(unsafe { at.read() })
    } else {
        (head != 0).then(|| read_head(head)).flatten()
    };
    let Some([first, offset, pending]) = head_words else {
        return false;
    };
    let mut inherits = pending & INHERITS != 0;
    let mut entry = first;
    for _ in 0..MOST {
        if entry & !INHERITS == head {
            break;
        }
        inherits |= entry & INHERITS != 0;
        let next = fetch(entry & !INHERITS);
        let is_pending = entry & !INHERITS == pending & !INHERITS;
        if !is_pending && !mark((entry & !INHERITS).wrapping_add(offset), entry, tid, false) {
            return inherits;
        }
        let Some(next) = next else { return inherits };
        entry = next;
    }
    if pending & !INHERITS != 0 {
        mark(
            (pending & !INHERITS).wrapping_add(offset),
            pending,
            tid,
            true,
        );
    }
    inherits
}

/// Whether the head is the one that the C library has in the storage of each thread.
fn is_of_library(head: usize, storage: usize) -> bool {
    /// Less than the control block of a thread has.
    const LENGTH: usize = 2048;
    storage != 0 && head % size_of::<usize>() == 0 && head.wrapping_sub(storage) < LENGTH
}

fn read_head(head: usize) -> Option<[usize; 3]> {
    let mut words = [0; 3];
    memory::fetch(head, &mut words).then_some(words)
}

fn fetch(from: usize) -> Option<usize> {
    let mut word = [0; 1];
    memory::fetch(from, &mut word).then_some(word[0])
}

/// Marks the lock that has this word. False if it cannot be accessed.
fn mark(word: usize, entry: usize, tid: u32, is_pending: bool) -> bool {
    if word % size_of::<u32>() != 0 || !can_write(word) {
        return false;
    }
    // SAFETY: it can be written; others access it by atomic operations.
    let lock = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(word)) };
    let inherits = entry & INHERITS != 0;
    let mut value = lock.load(Relaxed);
    if is_pending && !inherits && value == 0 {
        // It was freed, but a waiter may not have been woken.
        wake_in_kernel(word);
        return true;
    }
    while value & TID == tid {
        let next = value & WAITERS | OWNER_DIED;
        // ORDERING(robust): SeqCst, pairs with itself, and with the program's own operations on
        // the lock: the kernel's is a full barrier.
        match lock.compare_exchange(value, next, SeqCst, Relaxed) {
            Ok(_) => {
                if !inherits && value & WAITERS != 0 {
                    wake_in_kernel(word);
                }
                break;
            }
            Err(now) => value = now,
        }
    }
    true
}
