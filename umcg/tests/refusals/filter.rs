//! Filters of system calls that the process puts on all its own threads.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::time::{Duration, Instant};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Whether the kernel knows such filters.
pub(crate) fn are_possible() -> bool {
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: asks whether there is an action.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        ) == 0
    }
}

/// How long a call is refused "for a moment".
pub(crate) const MOMENT: Duration = Duration::from_millis(60);

/// Refuses these calls with `errno` from now on, in all threads.
pub(crate) fn refuse(calls: &[i64], errno: i32) {
    try_install(calls, libc::SECCOMP_RET_ERRNO | errno as u32, 0).unwrap();
}

/// Refuses these calls with `errno` for a moment that begins with the first of them, again and
/// again if `times` says so, with as long a time between in which they are allowed.
pub(crate) fn refuse_for_a_moment(calls: &[i64], errno: i32, times: u32) {
    let mut began: Option<Instant> = None;
    refuse_if(calls, errno, move |_, _| {
        let moment =
            began.get_or_insert_with(Instant::now).elapsed().as_millis() / MOMENT.as_millis();
        moment % 2 == 0 && moment / 2 < u128::from(times)
    });
}

/// Refuses the first ones of these calls with `errno`.
pub(crate) fn refuse_some(calls: &[i64], errno: i32, mut count: u32) {
    refuse_if(calls, errno, move |_, _| {
        let is_refused = count > 0;
        count -= u32::from(is_refused);
        is_refused
    });
}

/// A value that this process shares with those that judge for it; zero at first.
pub(crate) fn shared<T: zero::IsValid>() -> &'static T {
    const { assert!(size_of::<T>() <= PAGE) };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: as large as a page, zero, and never unmapped; zero is valid.
    unsafe { &*place.cast() }
}

const PAGE: usize = 4096;

/// Values that may be shared so.
mod zero {
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

    /// # Safety
    /// Zeros are one, and it names no memory.
    pub(crate) unsafe trait IsValid: Sync {}
    // SAFETY: 0.
    unsafe impl IsValid for AtomicI32 {}
    // SAFETY: 0.
    unsafe impl IsValid for AtomicU32 {}
    // SAFETY: false.
    unsafe impl IsValid for AtomicBool {}
    // SAFETY: as each of them.
    unsafe impl<T: IsValid, const N: usize> IsValid for [T; N] {}
}

/// Has another process decide for each of these calls whether it is refused with `errno`: by its
/// number and the kernel thread that makes it.
///
/// That is a process of its own, for which no filter holds, and to which the C library sends no
/// signals. It has the descriptors of this one, and a copy of the memory except for the values that
/// are [`shared`]; it must not allocate.
pub(crate) fn refuse_if(calls: &[i64], errno: i32, is_refused: impl FnMut(i64, i32) -> bool) {
    let listener: &AtomicI32 = shared();
    listener.store(-1, Relaxed);
    // SAFETY: a process that makes system calls alone, with a copy of this stack.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0, 0, 0, 0) };
    assert!(
        child >= 0,
        "nobody to judge: {}",
        std::io::Error::last_os_error()
    );
    if child == 0 {
        // It ends with the thread that asked for it. It has no timers, but the handlers.
        // SAFETY: sets a number of the calling thread's.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        while listener.load(Acquire) < 0 {
            std::thread::yield_now();
        }
        judge(listener.load(Acquire), errno, is_refused);
    }
    // A signal does not interrupt a call that is being judged: not every kernel can do that.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let install = |flags| try_install(calls, libc::SECCOMP_RET_USER_NOTIF, flags);
    let installed =
        install(flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(|_| install(flags));
    listener.store(installed.unwrap(), Release);
}

fn judge(listener: RawFd, errno: i32, mut is_refused: impl FnMut(i64, i32) -> bool) -> ! {
    loop {
        // SAFETY: zero is valid, and the kernel asks for it.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: a listener, and room for a notification.
        if unsafe { libc::ioctl(listener, RECEIVE, &raw mut asked) } != 0 {
            continue; // the thread that asked has been interrupted
        }
        let is_refused = is_refused(i64::from(asked.data.nr), asked.pid as i32);
        let (error, flags) = if is_refused {
            (-errno, 0)
        } else {
            (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
        };
        let mut answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error,
            flags,
        };
        // SAFETY: a listener, and an answer.
        unsafe { libc::ioctl(listener, SEND, &raw mut answer) };
    }
}

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)`.
const RECEIVE: libc::Ioctl = request(0, size_of::<libc::seccomp_notif>());
const SEND: libc::Ioctl = request(1, size_of::<libc::seccomp_notif_resp>());

const fn request(number: usize, size: usize) -> libc::Ioctl {
    (3 << 30 | size << 16 | (b'!' as usize) << 8 | number) as libc::Ioctl
}

/// The listener, if the flags ask for one.
fn try_install(calls: &[i64], verdict: u32, flags: u64) -> std::io::Result<i32> {
    let step = |code, jump_false, k| libc::sock_filter {
        code,
        jt: 0,
        jf: jump_false,
        k,
    };
    let mut program = vec![step(LOAD, 0, 0)];
    for &call in calls {
        program.push(step(IS, 1, call as u32));
        program.push(step(RETURN, 0, verdict));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    assert_eq!(
        // SAFETY: sets a bit of the calling thread, which the filter's other threads get too.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
        0
    );
    let flags = flags | libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    // SAFETY: a program that is valid and outlives the call.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if installed >= 0 {
        Ok(installed as i32)
    } else {
        Err(std::io::Error::last_os_error())
    }
}
