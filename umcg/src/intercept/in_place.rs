//! Of calls that are made in place, on a server: which errors are the call's own, what kind of file
//! it is, and signals for the kernel thread that made it.

use std::os::fd::BorrowedFd;
use umcg_core::signal::take_pending;

/// Whether this error of a try is that of the call. A socket tells an error once, and a message
/// that could not be stored is gone, so the call at home would not meet them again. The others say
/// that it would wait, or may be due to the newer call or to a signal of the server's, and cost
/// nothing.
pub(super) fn is_answer(error: isize) -> bool {
    let others = [
        libc::EAGAIN,
        libc::EOPNOTSUPP,
        libc::ENOSYS,
        libc::EPERM,
        libc::EINVAL,
        libc::EINTR,
    ];
    !others.contains(&(-error as i32))
}

/// Whether it is a file of a disk. A try then ends where its data is not in memory, and a read does
/// not. Asks no daemon of a file system, which might let the server wait; but where statx(2) is
/// missing or refused.
pub(super) fn is_on_disk(fd: usize) -> bool {
    use rustix::fs::{AtFlags, FileType, StatxFlags, fstat, statx};
    // SAFETY: a read had data, so it is open; if it has been closed since, the kernel says so.
    let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let from_memory = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let kind = statx(fd, c"", from_memory, StatxFlags::TYPE)
        .map(|known| known.stx_mode.into())
        .or_else(|_| fstat(fd).map(|known| known.st_mode))
        .map(FileType::from_raw_mode);
    matches!(kind, Ok(FileType::RegularFile | FileType::BlockDevice))
}

/// This signal of a write came to the server's kernel thread, which blocks it.
pub(super) fn take_back(signal: libc::c_int) {
    take_pending(1 << (signal - 1), None);
}
