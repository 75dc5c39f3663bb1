//! Semaphores of every origin, for the same loops.

use anyhow::{Result, ensure};
use std::cell::UnsafeCell;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Why a system call failed.
pub(super) fn last() -> io::Error {
    io::Error::last_os_error()
}

/// Can be raised and lowered by any thread.
pub(super) trait Semaphore: Sized + Send + Sync + 'static {
    fn new(wakeups: u32) -> Result<Self>;
    fn down(&self);
    fn try_down(&self) -> bool;
    fn up(&self);
}

/// Ours: strong, or barging.
pub(super) struct Ours<const STRONG: bool>(umcg::sync::Semaphore);

impl<const STRONG: bool> Semaphore for Ours<STRONG> {
    fn new(wakeups: u32) -> Result<Self> {
        let new = if STRONG {
            umcg::sync::Semaphore::new
        } else {
            umcg::sync::Semaphore::barging
        };
        Ok(Self(new(wakeups)))
    }

    #[inline(always)]
    fn down(&self) {
        self.0.acquire().expect("it is never closed");
    }

    #[inline(always)]
    fn try_down(&self) -> bool {
        self.0.try_acquire().is_ok()
    }

    #[inline(always)]
    fn up(&self) {
        self.0.release(1).expect("a few wakeups");
    }
}

/// The C library's, unnamed. In a box: it must not move.
pub(super) struct SemT(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: semaphores are made for sharing.
unsafe impl Send for SemT {}
// SAFETY: likewise.
unsafe impl Sync for SemT {}

impl Semaphore for SemT {
    fn new(wakeups: u32) -> Result<Self> {
        // SAFETY: plain bytes, given a meaning by `sem_init` before anything else sees them.
        let semaphore = Box::new(UnsafeCell::new(unsafe { mem::zeroed() }));
        // SAFETY: in a box that is neither moved out of nor freed before `sem_destroy`.
        let rc = unsafe { libc::sem_init(semaphore.get(), 0, wakeups) };
        ensure!(rc == 0, "sem_init: {}", last());
        Ok(Self(semaphore))
    }

    #[inline(always)]
    fn down(&self) {
        // It fails for one reason only: a signal.
        // SAFETY: initialised, and alive as long as `self`.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }

    #[inline(always)]
    fn try_down(&self) -> bool {
        // SAFETY: as above.
        unsafe { libc::sem_trywait(self.0.get()) == 0 }
    }

    #[inline(always)]
    fn up(&self) {
        // SAFETY: as above.
        unsafe { libc::sem_post(self.0.get()) };
    }
}

impl Drop for SemT {
    fn drop(&mut self) {
        // SAFETY: initialised, and no thread uses it any more.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// System V's: a plain semaphore of the kernel, a system call an operation.
pub(super) struct SysV(libc::c_int);

impl SysV {
    #[inline(always)]
    fn change(&self, by: libc::c_short, flags: libc::c_short) -> bool {
        let mut operation = libc::sembuf {
            sem_num: 0,
            sem_op: by,
            sem_flg: flags,
        };
        // SAFETY: one operation on a set of ours.
        unsafe { libc::semop(self.0, &mut operation, 1) == 0 }
    }
}

impl Semaphore for SysV {
    fn new(wakeups: u32) -> Result<Self> {
        // SAFETY: plain system call.
        let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        ensure!(set >= 0, "semget: {}", last());
        let semaphore = Self(set);
        // It begins with none.
        ensure!(
            wakeups == 0 || semaphore.change(wakeups.try_into()?, 0),
            "semop: {}",
            last()
        );
        Ok(semaphore)
    }

    #[inline(always)]
    fn down(&self) {
        // It fails for one reason only: a signal.
        while !self.change(-1, 0) {}
    }

    #[inline(always)]
    fn try_down(&self) -> bool {
        self.change(-1, libc::IPC_NOWAIT as libc::c_short)
    }

    #[inline(always)]
    fn up(&self) {
        self.change(1, 0);
    }
}

impl Drop for SysV {
    fn drop(&mut self) {
        // SAFETY: no thread uses it any more.
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}

/// An eventfd that counts.
pub(super) fn eventfd(wakeups: u32, flags: libc::c_int) -> Result<OwnedFd> {
    // SAFETY: plain system call.
    let fd = unsafe { libc::eventfd(wakeups, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC | flags) };
    ensure!(fd >= 0, "eventfd: {}", last());
    // SAFETY: just opened, and owned by this function only.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A system call an operation, too.
pub(super) struct EventFd(OwnedFd);

impl Semaphore for EventFd {
    fn new(wakeups: u32) -> Result<Self> {
        Ok(Self(eventfd(wakeups, 0)?))
    }

    #[inline(always)]
    fn down(&self) {
        let mut value = 0_u64;
        // It fails for one reason only: a signal.
        // SAFETY: room for eight bytes.
        while unsafe { libc::read(self.0.as_raw_fd(), (&raw mut value).cast(), 8) } != 8 {}
    }

    #[inline(always)]
    fn try_down(&self) -> bool {
        let mut value = 0_u64;
        let room = libc::iovec {
            iov_base: (&raw mut value).cast(),
            iov_len: 8,
        };
        // SAFETY: room for eight bytes.
        unsafe { libc::preadv2(self.0.as_raw_fd(), &room, 1, -1, libc::RWF_NOWAIT) == 8 }
    }

    #[inline(always)]
    fn up(&self) {
        let value = 1_u64;
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const value).cast(), 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn counts<S: Semaphore>() {
        let semaphore = S::new(2).unwrap();
        semaphore.down();
        assert!(semaphore.try_down());
        assert!(!semaphore.try_down(), "none is left");
        semaphore.up();
        assert!(semaphore.try_down());
        let answer = S::new(0).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    semaphore.down();
                    answer.up();
                }
            });
            for _ in 0..100 {
                semaphore.up();
                answer.down();
            }
        });
        assert!(
            !semaphore.try_down() && !answer.try_down(),
            "a wakeup was doubled"
        );
    }

    #[test]
    fn all_of_them_count() {
        counts::<Ours<true>>();
        counts::<Ours<false>>();
        counts::<SemT>();
        counts::<SysV>();
        counts::<EventFd>();
    }
}
