//! The program's memory, as guests reach it.
//!
//! A guarded access needs the handler of its fault. If the kernel thread blocks SIGSEGV or SIGBUS,
//! such a fault ends the process. Servers never block the two. At home a guest has the program's
//! own mask, or is closed: there [`must_not_fault`] says whether the kernel has to copy.
//!
//! The program's mask is noted where it changes ([`GuestHead::note_mask`]), as asking the kernel
//! costs more than the access. The note may say that the two are blocked when they are not. It
//! never says the opposite.
//!
//! Rejected: *to leave the two unblocked at all times*. One that was sent to a program that blocks
//! it would be delivered. A program that blocks it and faults itself would get its handler in place
//! of its end.
//!
//! The test is `faults_blocked` among the programs of `cli/tests/run`.

use super::guest::{GuestHead, head};
use super::{adopted, worker_of_storage};
use crate::base::call::call;
use crate::os::guarded;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// EFAULT, as the kernel returns it.
const FAULT: isize = -(libc::EFAULT as isize);

/// Whether the caller is a guest whose kernel thread may block signals of faults: a guarded access
/// to a bad address would end the process. The kernel can copy in place of that.
#[inline]
pub fn must_not_fault() -> bool {
    head().is_some_and(is_shut) && kernel_copies()
}

fn is_shut(head: &GuestHead) -> bool {
    match worker_of_storage().filter(|worker| adopted::is_adopted(worker)) {
        Some(worker) if !worker.is_blocked() => false,
        Some(worker) => head.blocks_faults() || adopted::is_closed(worker),
        None => head.blocks_faults(),
    }
}

/// Reads a word of the program's, as [`guarded::load`].
#[inline]
pub fn load(from: usize) -> Option<u32> {
    if !must_not_fault() {
        return guarded::load(from);
    }
    let mut word = 0u32;
    let own = (&raw mut word).expose_provenance();
    let is_aligned = from % size_of::<u32>() == 0;
    (is_aligned && copy(libc::SYS_process_vm_readv, own, from, size_of::<u32>())).then_some(word)
}

/// Stores a word of the program's, as [`guarded::store_word`].
///
/// # Safety
/// Either nothing is mapped writable at `to`, or the word there is the caller's to write.
pub unsafe fn store_word(to: usize, value: u32) -> bool {
    if !must_not_fault() {
        // SAFETY: passed on.
        return unsafe { guarded::store_word(to, value) };
    }
    let own = (&raw const value).expose_provenance();
    let is_aligned = to % size_of::<u32>() == 0;
    is_aligned && copy(libc::SYS_process_vm_writev, own, to, size_of::<u32>())
}

/// Copies by the kernel, which may refuse that: between `own`, which is the library's, and an
/// address of the program's.
pub fn copy(number: libc::c_long, own: usize, program: usize, bytes: usize) -> bool {
    let (own, program) = ([own, bytes], [program, bytes]);
    // The process's id names its first thread, which may have ended: then it has no memory.
    // SAFETY: no arguments.
    let thread = unsafe { call(libc::SYS_gettid, [0; 6]) } as usize;
    let (own, program) = (
        own.as_ptr().expose_provenance(),
        program.as_ptr().expose_provenance(),
    );
    // SAFETY: the library's side is the caller's; the kernel checks the other.
    unsafe { call(number, [thread, own, 1, program, 1, 0]) == bytes as isize }
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

/// Whether the kernel lets the process copy: a filter of system calls may forbid it.
fn kernel_copies() -> bool {
    /// 0 not asked yet, 1 yes, 2 no.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    if ANSWER.load(Relaxed) == 0 {
        let (from, mut to) = (1u32, 0u32);
        let from = (&raw const from).expose_provenance();
        let own = (&raw mut to).expose_provenance();
        let is_allowed = copy(libc::SYS_process_vm_readv, own, from, size_of::<u32>());
        ANSWER.store(if is_allowed { 1 } else { 2 }, Relaxed);
    }
    ANSWER.load(Relaxed) == 1
}
