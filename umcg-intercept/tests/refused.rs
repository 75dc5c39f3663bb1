//! Calls that a filter answers by SIGSYS go to the hook.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use umcg_intercept::{Call, Config, Next, raw_syscall};

const HOOKED_NUMBER: usize = 500;
const MAGIC: isize = 0x1234_5678_9abc;
const ENOSYS: isize = -38;
/// The filter refuses these.
const REFUSED: usize = libc::SYS_getppid as usize;
const ALSO: usize = libc::SYS_getpgrp as usize;

static HOOKED: [u8; 512] = common::hooked(HOOKED_NUMBER, HOOKED_NUMBER);
static ASKED: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

global_asm!(
    "test_call:", // number; the third argument is the result, too
    ".cfi_startproc",
    "mov eax, edi",
    "mov rdx, rsi",
    "syscall",
    "ret",
    ".cfi_endproc",
);

unsafe extern "C" {
    fn test_call(number: usize, third: usize) -> isize;
}

fn call(number: usize) -> isize {
    // SAFETY: calls without effects.
    unsafe { test_call(number, 7) }
}

/// Makes the refused call in place of its own, and answers when it is asked again.
unsafe extern "C" fn hook(call: &mut Call) -> Next {
    assert_eq!((call.step, call.arguments[2]), (0, 7));
    let is_again = call.number != HOOKED_NUMBER;
    ASKED.fetch_add(1, Relaxed);
    call.number = REFUSED;
    call.result = MAGIC;
    if is_again { Next::Return } else { Next::Native }
}

extern "C" fn on_signal(_: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SIGNALS.fetch_add(1, Relaxed);
    // SAFETY: the kernel's argument.
    assert!(unsafe { umcg_intercept::is_refusal(information) });
    // SAFETY: the kernel's arguments.
    assert!(!unsafe { umcg_intercept::on_sigsys(information, context) });
    // SAFETY: likewise.
    if !unsafe { umcg_intercept::ask_hook_again(context) } {
        // SAFETY: likewise.
        unsafe { umcg_intercept::fail(context, libc::ENOSYS) };
    }
}

/// Refuses both calls in the calling thread. False if that is impossible.
fn refuse() -> bool {
    let statement = |code, k| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let if_equal = |k, jt| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt,
        jf: 0,
        k,
    };
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut filter = [
        statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0),
        if_equal(REFUSED as u32, 2),
        if_equal(ALSO as u32, 1),
        statement(answer, libc::SECCOMP_RET_ALLOW),
        statement(answer, libc::SECCOMP_RET_TRAP),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: sets a mark of the thread.
    let is_marked = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: a whole program.
    is_marked && unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &program) } == 0
}

#[test]
fn calls_are_asked_for_again() {
    common::take_traps();
    let config = Config::new(hook, &HOOKED);
    // SAFETY: the hook keeps to the rules.
    unsafe { umcg_intercept::install(config) }.unwrap();
    common::handle(libc::SIGSYS, on_signal, 0);
    if !refuse() {
        println!("skipped: no filter can be installed");
        return;
    }
    let counts = || (ASKED.load(Relaxed), SIGNALS.load(Relaxed));
    // Made for the hook: it is asked once more.
    assert_eq!(call(HOOKED_NUMBER), MAGIC);
    assert_eq!(counts(), (2, 1));
    // Passed: the hook is asked after all.
    assert_eq!(call(ALSO), MAGIC);
    assert_eq!(counts(), (3, 2));
    // The engine's own.
    // SAFETY: no arguments.
    assert_eq!(unsafe { raw_syscall(REFUSED, [0; 6]) }, ENOSYS);
    assert_eq!(counts(), (3, 3));
}
