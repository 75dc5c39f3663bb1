//! The engine's own system calls. They never go through functions of libc, whose sites are hooked.

use super::stub::raw_syscall;
use core::ops::Range;

/// The kernel's error number.
pub(crate) type Errno = i32;

pub(crate) const PAGE: usize = 4096;

fn call(number: i64, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: each caller below passes buffers that live, or addresses that it owns.
    let result = unsafe { raw_syscall(number as usize, arguments) };
    if (-4095..0).contains(&result) {
        Err(-result as Errno)
    } else {
        Ok(result as usize)
    }
}

/// A descriptor, closed when dropped.
pub(crate) struct File(usize);

impl File {
    /// Opens for reading. `path` ends in a zero byte.
    pub(crate) fn open(path: &[u8]) -> Result<File, Errno> {
        debug_assert_eq!(path.last(), Some(&0));
        let here = libc::AT_FDCWD as usize;
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        call(
            libc::SYS_openat,
            [here, path.as_ptr() as usize, flags, 0, 0, 0],
        )
        .map(File)
    }

    /// Fills the buffer from the offset on, as far as the file goes, and returns the count.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: usize) -> Result<usize, Errno> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let arguments = [
                self.0,
                rest.as_mut_ptr() as usize,
                rest.len(),
                offset + done,
                0,
                0,
            ];
            match call(libc::SYS_pread64, arguments) {
                Ok(0) => break,
                // A handler of a filter's has made it up.
                Ok(count) if count > buffer.len() - done => return Err(libc::EIO),
                Ok(count) => done += count,
                Err(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The inode number.
    pub(crate) fn inode(&self) -> Result<u64, Errno> {
        // SAFETY: plain integers, for which zero is a value.
        let mut status: libc::stat = unsafe { core::mem::zeroed() };
        call(
            libc::SYS_fstat,
            [self.0, (&raw mut status) as usize, 0, 0, 0, 0],
        )?;
        Ok(status.st_ino)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = call(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]);
    }
}

/// Maps zeroed private memory, writable, exactly at the address, over nothing.
pub(crate) fn map_at(address: usize, length: usize) -> Result<(), Errno> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let arguments = [address, length, protection, flags as usize, usize::MAX, 0];
    let got = call(libc::SYS_mmap, arguments)?;
    if got == address {
        return Ok(());
    }
    // A kernel that does not know the flag takes the address for a hint.
    unmap(got, length);
    Err(libc::EEXIST)
}

/// Maps zeroed private memory, writable, anywhere.
pub(crate) fn map(length: usize) -> Result<usize, Errno> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    call(
        libc::SYS_mmap,
        [0, length, protection, flags, usize::MAX, 0],
    )
}

pub(crate) fn unmap(address: usize, length: usize) {
    let _ = call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]);
}

/// Changes the protection of all pages that the range touches.
pub(crate) fn protect(range: Range<usize>, protection: i32) -> Result<(), Errno> {
    let start = range.start & !(PAGE - 1);
    let length = (range.end - start).next_multiple_of(PAGE);
    call(
        libc::SYS_mprotect,
        [start, length, protection as usize, 0, 0, 0],
    )
    .map(drop)
}

/// Copies memory of this process that another thread may be unmapping. Returns whether all of it
/// could be read.
pub(crate) fn read_memory(address: usize, buffer: &mut [u8]) -> bool {
    let from = libc::iovec {
        iov_base: address as *mut _,
        iov_len: buffer.len(),
    };
    let to = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // Not by the process's id, which names its first thread: if that has ended, it has no memory.
    let arguments = [
        thread(),
        (&raw const to) as usize,
        1,
        (&raw const from) as usize,
        1,
        0,
    ];
    match call(libc::SYS_process_vm_readv, arguments) {
        Ok(count) => count == buffer.len(),
        Err(libc::EFAULT) => false,
        // A sandbox that forbids the call.
        Err(_) if is_readable(address, buffer.len()) => {
            // SAFETY: as far as anything can be known of it: it was there a moment ago.
            unsafe { (address as *const u8).copy_to(buffer.as_mut_ptr(), buffer.len()) };
            true
        }
        Err(_) => false,
    }
}

/// Whether the kernel can read all pages of this memory: it takes a part of each for a set of
/// signals, with which it can do nothing of this kind. That part is not at 0, which is no set.
fn is_readable(address: usize, length: usize) -> bool {
    const NOTHING: usize = usize::MAX;
    const SET: usize = size_of::<u64>();
    let first = address & !(PAGE - 1);
    let mut pages = (first..address.saturating_add(length)).step_by(PAGE);
    pages.all(|page| {
        call(
            libc::SYS_rt_sigprocmask,
            [NOTHING, page + SET, 0, SET, 0, 0],
        ) != Err(libc::EFAULT)
    })
}

/// The kernel thread.
pub(crate) fn thread() -> usize {
    call(libc::SYS_gettid, [0; 6]).unwrap_or(0)
}

/// Whether this is a thread of the process.
pub(crate) fn is_thread(thread: usize) -> bool {
    let process = call(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    call(libc::SYS_tgkill, [process, thread, 0, 0, 0, 0]) != Err(libc::ESRCH)
}

/// Lets other threads run.
pub(crate) fn give_way() {
    let _ = call(libc::SYS_sched_yield, [0; 6]);
}

pub(crate) fn membarrier(command: i32) -> Result<(), Errno> {
    call(libc::SYS_membarrier, [command as usize, 0, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn prctl(option: i32, arguments: [usize; 4]) -> Result<(), Errno> {
    let [a, b, c, d] = arguments;
    call(libc::SYS_prctl, [option as usize, a, b, c, d, 0]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a child whose first thread has ended, as a program's may.
    #[test]
    fn memory_is_read_once_the_first_thread_has_ended() {
        /// The child's status says whether its other thread could read.
        extern "C" fn look(leader: *mut libc::c_void) -> *mut libc::c_void {
            let tid = leader as usize;
            // Until the kernel has taken its memory away: its state is that of a zombie.
            let is_gone = || {
                let mut name = [0u8; 64];
                let mut state = [0u8; 256];
                // SAFETY: the buffer's own length.
                unsafe {
                    let form = c"/proc/self/task/%d/stat".as_ptr();
                    libc::snprintf(
                        name.as_mut_ptr().cast(),
                        name.len(),
                        form,
                        tid as libc::c_int,
                    )
                };
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
                let file = File::open(&name[..=end]);
                let count = file
                    .and_then(|file| file.read_at(&mut state, 0))
                    .unwrap_or(0);
                state[..count].windows(4).any(|part| part == b") Z ")
            };
            while !is_gone() {
                give_way();
            }
            let (text, mut found) = (*b"here", [0; 4]);
            let is_read = read_memory(text.as_ptr().addr(), &mut found) && found == text;
            // SAFETY: the child has no other business.
            unsafe { libc::_exit(if is_read { 0 } else { 1 }) }
        }

        // SAFETY: the child makes one thread, and uses nothing that the parent's threads may have.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut other = 0;
            // SAFETY: no arguments.
            let leader = unsafe { libc::getpid() } as usize as *mut libc::c_void;
            // SAFETY: as above.
            unsafe { libc::pthread_create(&raw mut other, core::ptr::null(), look, leader) };
            // SAFETY: the first thread ends, without the C library.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let mut status = 0;
        // SAFETY: the child above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{status:#x}"
        );
    }

    #[test]
    fn memory_that_is_not_there_is_not_readable() {
        let page = map(2 * PAGE).unwrap();
        protect(page + PAGE..page + 2 * PAGE, libc::PROT_NONE).unwrap();
        assert!(is_readable(page, PAGE) && is_readable(page + PAGE - 1, 1));
        assert!(!is_readable(page, PAGE + 1) && !is_readable(page + PAGE, 1));
        assert!(!is_readable(0, 1) && !is_readable(usize::MAX, 1));
        unmap(page, 2 * PAGE);
    }
}
