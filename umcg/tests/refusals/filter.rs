//! Filters of system calls that the process puts on all its own threads.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::time::{Duration, Instant};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Whether the kernel knows such filters.
pub(crate) fn are_possible() -> bool {
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: asks whether there is an action.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

/// How long a call is refused "for a moment".
pub(crate) const MOMENT: Duration = Duration::from_millis(60);

/// Refuses these calls with `errno` from now on, in all threads.
pub(crate) fn refuse(calls: &[i64], errno: i32) {
    install(calls, libc::SECCOMP_RET_ERRNO | errno as u32, 0);
}

/// Refuses these calls with `errno` for a moment that begins with the first of them, again and again if `times` says so, with as long a time between in
/// which they are allowed.
pub(crate) fn refuse_for_a_moment(calls: &[i64], errno: i32, times: u32) {
    let mut began: Option<Instant> = None;
    refuse_if(calls, errno, move || {
        let moment = began.get_or_insert_with(Instant::now).elapsed().as_millis() / MOMENT.as_millis();
        moment % 2 == 0 && moment / 2 < u128::from(times)
    });
}

/// Refuses the first ones of these calls with `errno`.
pub(crate) fn refuse_some(calls: &[i64], errno: i32, mut count: u32) {
    refuse_if(calls, errno, move || {
        let is_refused = count > 0;
        count -= u32::from(is_refused);
        is_refused
    });
}

/// Has a thread, which must make none of these calls, say of each whether it is refused with
/// `errno`. Once a process: there is one such thread at most.
pub(crate) fn refuse_if(calls: &[i64], errno: i32, is_refused: impl FnMut() -> bool + Send + 'static) {
    let listener = Arc::new(AtomicI32::new(-1));
    let told = listener.clone();
    let (begun, has_begun) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        begun.send(()).unwrap();
        // It makes no other calls than these from here on, nor any that the runtime's threads are known by.
        while told.load(Acquire) < 0 {
            std::hint::spin_loop();
        }
        judge(told.load(Acquire), errno, is_refused)
    });
    // What a thread does to begin may be what is refused.
    has_begun.recv().unwrap();
    listener.store(install(calls, libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER), Release);
}

fn judge(listener: RawFd, errno: i32, mut is_refused: impl FnMut() -> bool) {
    loop {
        // SAFETY: zero is valid, and what the kernel asks for.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: a listener, and room for a notification.
        if unsafe { libc::ioctl(listener, RECEIVE, &raw mut asked) } != 0 {
            continue; // the thread that asked has been interrupted
        }
        let (error, flags) = if is_refused() { (-errno, 0) } else { (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32) };
        let mut answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags };
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
fn install(calls: &[i64], verdict: u32, flags: u64) -> i32 {
    let step = |code, jump_false, k| libc::sock_filter { code, jt: 0, jf: jump_false, k };
    let mut program = vec![step(LOAD, 0, 0)];
    for &call in calls {
        program.push(step(IS, 1, call as u32));
        program.push(step(RETURN, 0, verdict));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    if verdict == libc::SECCOMP_RET_USER_NOTIF {
        // The thread that judges asks by this.
        program.splice(1..1, [step(IS, 1, libc::SYS_ioctl as u32), step(RETURN, 0, libc::SECCOMP_RET_ALLOW)]);
    }
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: sets a bit of the calling thread, which the filter's other threads get too.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let flags = flags | libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    // SAFETY: a program that is valid and outlives the call.
    let installed = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    assert!(installed >= 0, "no filter: {}", std::io::Error::last_os_error());
    installed as i32
}
