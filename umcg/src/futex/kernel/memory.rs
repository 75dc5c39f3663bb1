//! Words and structures in the caller's memory, at addresses where nothing may be mapped.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use umcg_core::reach;
pub(super) use umcg_core::reach::Reader;

/// From here on an address may not be a user's. The kernel knows, by its version and the
/// processor's page tables: it is asked.
#[cfg(target_arch = "riscv64")]
pub(crate) const UNCLEAR: usize = (1 << 38) - 4096;
#[cfg(not(target_arch = "riscv64"))]
pub(crate) const UNCLEAR: usize = (1 << 47) - 4096;

/// The word at an aligned address. None if it cannot be read.
#[inline]
pub(super) fn load(address: usize) -> Option<u32> {
    reach::load(address)
}

/// False if the kernel may say that this is no address of a user's. No party waits there.
pub(super) fn may_be_there(address: usize) -> bool {
    address < UNCLEAR || load(address).is_some()
}

/// The bytes at an address of any alignment, in words. None if they cannot be read.
pub(super) fn read<const WORDS: usize>(address: usize) -> Option<[u32; WORDS]> {
    let (aligned, shift) = (address & !3, (address & 3) * 8);
    let mut words = [0; WORDS];
    // An aligned word lies in one page. So reading the rest of it reads no other page.
    let mut low = load(aligned)?;
    for (index, word) in words.iter_mut().enumerate() {
        let next = aligned.checked_add((index + 1) * 4)?;
        let high = if shift == 0 && index + 1 == WORDS {
            0
        } else {
            load(next)?
        };
        *word = ((u64::from(high) << 32 | u64::from(low)) >> shift) as u32;
        low = high;
    }
    Some(words)
}

/// Two of these words as the kernel's 64-bit number.
pub(super) fn long(low: u32, high: u32) -> u64 {
    #[cfg(target_endian = "little")]
    return u64::from(high) << 32 | u64::from(low);
    #[cfg(target_endian = "big")]
    compile_error!("words in the other order");
}

/// Changes the word at an aligned address by `change`, in one atomic step, and returns the value
/// that it had. None if it cannot be written.
pub(super) fn update(address: usize, change: impl Fn(u32) -> u32) -> Option<u32> {
    load(address)?;
    // There is no guarded access that changes a word in one step.
    if !reach::can_write(address) {
        return None;
    }
    // SAFETY: just asked, so it is there; other threads access it by atomic operations.
    let word = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) };
    // Not guarded: if another thread takes the page away now, the process ends by SIGSEGV. The
    // kernel would say EFAULT. A program that takes away a word while it uses it has no right
    // result in either way, and glibc has not used this operation since 2.25. A guarded
    // compare-and-swap would be several instructions that may fault on most architectures.
    // ORDERING(foreign.1): SeqCst, pairs with foreign.1, and with the program's own operations on
    // its word: the kernel's is a full barrier.
    word.fetch_update(SeqCst, SeqCst, |value| Some(change(value)))
        .ok()
}
