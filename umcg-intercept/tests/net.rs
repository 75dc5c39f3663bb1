//! The net catches what could not be patched.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use umcg_intercept::{Call, Config, Next};

const RETURNS: usize = 500;
const TAIL: usize = 501;
const MAGIC: isize = 0x1234_5678_9abc;
const ENOSYS: isize = -38;

static HOOKED: [u8; 512] = {
    let mut hooked = [0; 512];
    hooked[RETURNS] = 1;
    hooked[TAIL] = 1;
    hooked[libc::SYS_rt_sigprocmask as usize] = 1;
    hooked
};
static CAUGHT: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);

global_asm!(
    // Something jumps before and behind the site: no window.
    "test_closed:", // number, first argument
    ".cfi_startproc",
    "mov eax, edi",
    "mov rdi, rsi",
    "xor ecx, ecx",
    "1:",
    "syscall",
    "2:",
    "inc ecx",
    "cmp ecx, 1",
    "je 2b",
    "cmp ecx, 100",
    "je 1b",
    "ret",
    ".cfi_endproc",
);

unsafe extern "C" {
    fn test_closed(number: usize, argument: usize) -> isize;
}

fn closed(number: usize, argument: usize) -> isize {
    // SAFETY: calls without effects on memory.
    unsafe { test_closed(number, argument) }
}

unsafe extern "C" fn hook(call: &mut Call) -> Next {
    call.result = MAGIC;
    if call.number as i64 == libc::SYS_rt_sigprocmask {
        if call.arguments[1] != 0 && call.arguments[0] as i32 != libc::SIG_UNBLOCK {
            // SAFETY: the program's mask.
            let mask = unsafe { (call.arguments[1] as *const usize).read() };
            // The signal is fatal while it is blocked.
            call.notes[0] = mask & !(1 << (libc::SIGSYS - 1));
            call.arguments[1] = call.notes.as_ptr() as usize;
        }
        return Next::Native;
    }
    if call.number == TAIL {
        call.number = libc::SYS_getpid as usize;
        return Next::Tail;
    }
    Next::Return
}

extern "C" fn caught(_: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CAUGHT.fetch_add(1, Relaxed);
    // SAFETY: the kernel's arguments.
    if !unsafe { umcg_intercept::on_sigsys(information, context) } {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

extern "C" fn other(_: i32) {
    OTHERS.fetch_add(1, Relaxed);
}

fn begin() {
    common::take_traps();
    let config = Config::new(hook, &HOOKED);
    // SAFETY: the hook keeps to the rules.
    unsafe { umcg_intercept::install(config) }.unwrap();
}

#[test]
fn all_kinds_of_calls() {
    begin();
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGUSR1, other as *const () as usize) };

    assert_eq!(closed(RETURNS, 0), ENOSYS);
    if !common::arm(caught) {
        return;
    }
    assert_eq!(closed(RETURNS, 0), MAGIC);
    let pid = std::process::id() as isize;
    assert_eq!(closed(libc::SYS_getpid as usize, 0), pid);
    assert_eq!(closed(TAIL, 0), pid);
    assert!(CAUGHT.load(Relaxed) >= 3);
    // A site whose number is not hooked, an ordinary handler and its restorer.
    for at in 1..=10 {
        // SAFETY: the handler is there.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        assert_eq!(OTHERS.load(Relaxed), at);
    }
    let before = CAUGHT.load(Relaxed);
    assert_eq!(closed(RETURNS, 0), MAGIC);
    assert_eq!(CAUGHT.load(Relaxed), before + 1);
    // A child is not armed, but its parent still is. `vfork` inside takes the net away.
    let status = std::process::Command::new("/bin/true").status().unwrap();
    assert!(status.success());
    // SAFETY: as above.
    unsafe { umcg_intercept::arm_thread() }.unwrap();
    assert_eq!(closed(RETURNS, 0), MAGIC);
    umcg_intercept::disarm_thread();
    assert_eq!(closed(RETURNS, 0), ENOSYS);
}
