//! The program's memory, as guests reach it.
//!
//! A guarded access needs the handler of its fault. If the kernel thread blocks SIGSEGV or SIGBUS,
//! such a fault ends the process. Servers never block the two. At home a guest has the program's
//! own mask, or is closed: there [`must_not_fault`] says that the kernel has to copy. If it refuses
//! that, it is `asked` first.
//!
//! The program's mask is noted where it changes ([`GuestHead::note_mask`]), as asking the kernel
//! costs more than the access. The note may say that the two are blocked when they are not. It
//! never says the opposite.
//!
//! Rejected: *to leave the two unblocked at all times*. One that was sent to a program that blocks
//! it would be delivered. A program that blocks it and faults itself would get its handler in place
//! of its end.
//!
//! The tests are `faults_blocked` and `no_copies` among the programs of `cli/tests/run`.

use super::guest::{GuestHead, head};
use super::{adopted, asked};
use crate::base::call::call;
use crate::os::guarded;

pub use super::asked::can_write;

/// Whether the caller is a guest whose kernel thread may block signals of faults: a guarded access
/// to a bad address would end the process. [`copy`] does not.
#[inline]
pub fn must_not_fault() -> bool {
    head().is_some_and(is_shut)
}

#[inline]
fn is_shut(head: &GuestHead) -> bool {
    match adopted::current() {
        Some(worker) if !worker.is_blocked() => false,
        Some(worker) => head.blocks_faults() || adopted::is_closed(worker),
        None => head.blocks_faults(),
    }
}

/// Reads of the program's memory by one caller, which does not switch in between. On a server the
/// caller is asked for once: there no signal closes it.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    may_be_shut: bool,
}

impl Reader {
    /// For the caller.
    #[inline]
    pub fn here() -> Reader {
        let is_away = || adopted::current().is_some_and(|worker| !worker.is_blocked());
        Reader {
            may_be_shut: head().is_some() && !is_away(),
        }
    }

    /// Reads a word of the program's, as [`guarded::load`].
    #[inline(always)]
    pub fn load(self, from: usize) -> Option<u32> {
        if self.may_be_shut && must_not_fault() {
            load_by_kernel(from)
        } else {
            guarded::load(from)
        }
    }
}

/// Reads a word of the program's, as [`guarded::load`].
#[inline]
pub fn load(from: usize) -> Option<u32> {
    Reader::here().load(from)
}

#[cold]
fn load_by_kernel(from: usize) -> Option<u32> {
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

/// Copies between `own`, which is the library's, and an address of the program's: by the kernel,
/// or by accesses where the kernel refuses that. False if not all of it could be copied.
///
/// `process_vm_writev` is for bytes that are the caller's to write, or that cannot be written.
pub fn copy(number: libc::c_long, own: usize, program: usize, bytes: usize) -> bool {
    /// Part of the memory is not there.
    const FAULT: isize = -(libc::EFAULT as isize);
    match copied(number, own, program, bytes) {
        FAULT => false,
        count @ 0.. => count == bytes as isize,
        _ if number == libc::SYS_process_vm_readv => asked::read(own, program, bytes),
        // SAFETY: as above.
        _ => unsafe { asked::write(own, program, bytes) },
    }
}

fn copied(number: libc::c_long, own: usize, program: usize, bytes: usize) -> isize {
    let (own, program) = ([own, bytes], [program, bytes]);
    // The process's id names its first thread, which may have ended: then it has no memory.
    // SAFETY: no arguments.
    let thread = unsafe { call(libc::SYS_gettid, [0; 6]) } as usize;
    let (own, program) = (
        own.as_ptr().expose_provenance(),
        program.as_ptr().expose_provenance(),
    );
    // SAFETY: the library's side is the caller's; the kernel checks the other.
    unsafe { call(number, [thread, own, 1, program, 1, 0]) }
}
