//! Entries in a ring's queue that have no owner any more.
//!
//! The crate for io_uring writes each entry once, and cannot take one back. As long as no thread
//! enters the kernel with the ring, the kernel does not read the queue. So an entry can be
//! overwritten, through a second mapping of the same pages, which exists only while that is done.

use io_uring::{opcode, squeue};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The place of the entries, for mmap(2) of a ring's descriptor.
const ENTRIES_AT: libc::off_t = 0x1000_0000;

const _: () = assert!(size_of::<squeue::Entry>() == 64);

/// Overwrites entries by ones that do nothing. Their `user_data` says that no party waits for their
/// completion. `numbers` counts all entries that were ever put into the queue, from 0.
///
/// # Errors
/// No memory for a mapping; nothing is changed then.
///
/// # Safety
/// The descriptor is that of a ring whose queue has room for `entries` entries. No other thread
/// uses that queue meanwhile, neither here nor in the kernel.
pub(super) unsafe fn make(
    ring: BorrowedFd<'_>,
    entries: u32,
    numbers: Range<u64>,
    user_data: u64,
) -> io::Result<()> {
    let bytes = entries as usize * size_of::<squeue::Entry>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping of its own.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            access,
            libc::MAP_SHARED,
            ring.as_raw_fd(),
            ENTRIES_AT,
        )
    };
    if pages == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let nothing = opcode::Nop::new().build().user_data(user_data);
    for number in numbers {
        let entry = pages
            .cast::<squeue::Entry>()
            .wrapping_add((number % u64::from(entries)) as usize);
        // SAFETY: within the mapping, and used by no other thread, by the contract.
        unsafe { entry.write(nothing.clone()) };
    }
    // SAFETY: the mapping was made above, and nothing points into it.
    unsafe { libc::munmap(pages, bytes) };
    Ok(())
}
