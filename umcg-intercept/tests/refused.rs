//! Calls that a filter answers by SIGSYS, made once more or failed.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use umcg_intercept::{Call, Config, Next, raw_syscall};

const HOOKED_NUMBER: usize = 500;
const EDOM: isize = -33;
/// The filter refuses these.
const REFUSED: usize = libc::SYS_getppid as usize;
const ALSO: usize = libc::SYS_getpgrp as usize;

static HOOKED: [u8; 512] = common::hooked(HOOKED_NUMBER, HOOKED_NUMBER);
static PLACES: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

global_asm!(
    "test_call:", // number; the third argument is the result, too
    ".cfi_startproc",
    "mov eax, edi",
    "mov rdx, rsi",
    "syscall",
    "test_next:",
    "ret",
    ".cfi_endproc",
);

unsafe extern "C" {
    fn test_call(number: usize, third: usize) -> isize;
    fn test_next();
}

fn call(number: usize) -> isize {
    // SAFETY: calls without effects.
    unsafe { test_call(number, 7) }
}

/// Makes the refused call in place of its own.
unsafe extern "C" fn hook(call: &mut Call) -> Next {
    assert_eq!((call.step, call.arguments[2]), (0, 7));
    call.number = REFUSED;
    Next::Native
}

/// The first signal has the call made again, the next one has it fail.
extern "C" fn on_signal(_: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let count = SIGNALS.fetch_add(1, Relaxed);
    // SAFETY: the kernel's argument.
    assert!(unsafe { umcg_intercept::is_refusal(information) });
    // SAFETY: the kernel's arguments.
    assert!(!unsafe { umcg_intercept::on_sigsys(information, context) });
    // SAFETY: likewise.
    if let Some(inside) = unsafe { umcg_intercept::step_out(context) } {
        PLACES.fetch_add(1, Relaxed);
        // SAFETY: likewise.
        unsafe { umcg_intercept::show_place(information, context) };
        let place = information.wrapping_byte_add(16).cast::<usize>();
        // SAFETY: the address in the record.
        let place = unsafe { place.read() };
        assert_eq!(place, test_next as *const () as usize);
        // SAFETY: likewise.
        unsafe { umcg_intercept::step_in(context, inside) };
    }
    if count % 2 == 0 {
        // SAFETY: likewise.
        unsafe { umcg_intercept::call_again(context) };
    } else {
        // SAFETY: likewise.
        unsafe { umcg_intercept::fail(context, libc::EDOM) };
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
fn calls_are_made_again_or_fail() {
    common::take_traps();
    let config = Config::new(hook, &HOOKED);
    // SAFETY: the hook keeps to the rules.
    unsafe { umcg_intercept::install(config) }.unwrap();
    common::handle(libc::SIGSYS, on_signal, 0);
    if !refuse() {
        println!("skipped: no filter can be installed");
        return;
    }
    let counts = || (SIGNALS.load(Relaxed), PLACES.load(Relaxed));
    // Made for the hook.
    assert_eq!(call(HOOKED_NUMBER), EDOM);
    assert_eq!(counts(), (2, 2));
    // Passed.
    assert_eq!(call(ALSO), EDOM);
    assert_eq!(counts(), (4, 4));
    // The engine's own, which has no site.
    // SAFETY: no arguments.
    assert_eq!(unsafe { raw_syscall(REFUSED, [0; 6]) }, EDOM);
    assert_eq!(counts(), (6, 4));
}
