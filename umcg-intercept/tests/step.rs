//! A handler sees a call in progress as if it were made at its site.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod common;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod step {
    use super::common;
    use core::arch::global_asm;
    use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
    use umcg_intercept::{Call, Config, Next};

    const NATIVE: usize = 500;
    const AGAIN: usize = 501;
    const TAIL: usize = 502;
    const READ: usize = libc::SYS_read as usize;

    static HOOKED: [u8; 512] = common::hooked(NATIVE, TAIL);
    static SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);
    static PIPE: AtomicI32 = AtomicI32::new(0);

    global_asm!(
        "test_read:", // number, descriptor, buffer, length, where to note the stack pointer
        ".cfi_startproc",
        "mov eax, edi",
        "mov edi, esi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov [r8], rsp",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, 0x123456789",
        "lea rcx, [rsp + 8]",
        "syscall",
        ".globl test_read_next",
        "test_read_next:",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    );

    unsafe extern "C" {
        fn test_read(
            number: usize,
            descriptor: i32,
            buffer: *mut u8,
            length: usize,
            stack: *mut usize,
        ) -> isize;
        fn test_read_next();
    }

    unsafe extern "C" fn hook(call: &mut Call) -> Next {
        if call.step == 1 {
            return Next::Return;
        }
        match std::mem::replace(&mut call.number, READ) {
            NATIVE => Next::Native,
            AGAIN => Next::Again,
            _ => Next::Tail,
        }
    }

    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's context.
        let inside = unsafe { umcg_intercept::step_out(context) };
        let registers = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP];
        // SAFETY: the kernel's context.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        for (seen, register) in SEEN.iter().zip(registers) {
            seen.store(machine.gregs[register as usize] as usize, Relaxed);
        }
        if let Some(inside) = inside {
            // SAFETY: the same context.
            unsafe { umcg_intercept::step_in(context, inside) };
        }
        if SIGNALS.fetch_add(1, Relaxed) == 2 {
            // SAFETY: one byte.
            unsafe { libc::write(PIPE.load(Relaxed), c"x".as_ptr().cast(), 1) };
        }
    }

    fn on_alarm(flags: i32, microseconds: i64) {
        common::handle(libc::SIGALRM, handler, flags);
        let interval = libc::timeval {
            tv_sec: 0,
            tv_usec: microseconds,
        };
        let timer = libc::itimerval {
            it_interval: interval,
            it_value: interval,
        };
        // SAFETY: the timer lives.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, core::ptr::null_mut()) };
    }

    /// Reads until the third signal writes, or the first one interrupts; returns the result and the
    /// stack pointer at the site.
    fn read(number: usize, flags: i32, from: i32) -> (isize, usize) {
        SIGNALS.store(0, Relaxed);
        on_alarm(flags, 20_000);
        let (mut byte, mut stack) = (0_u8, 0_usize);
        // SAFETY: one byte.
        let result = unsafe { test_read(number, from, &raw mut byte, 1, &raw mut stack) };
        on_alarm(flags, 0);
        (result, stack - 8)
    }

    // The timer's signal goes to the main thread, so this test has no harness.
    pub(crate) fn main() {
        let config = Config::new(hook, &HOOKED);
        // SAFETY: the hook keeps to the rules.
        unsafe { umcg_intercept::install(config) }.unwrap();
        let mut ends = [0; 2];
        // SAFETY: two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        PIPE.store(ends[1], Relaxed);
        let next = test_read_next as *const () as usize;
        for number in [READ, NATIVE, AGAIN, TAIL] {
            for (flags, expected, pc) in [
                (libc::SA_RESTART, 1, next - 2),
                (0, -(libc::EINTR as isize), next),
            ] {
                let (result, stack) = read(number, flags, ends[0]);
                assert_eq!(result, expected, "number {number}");
                let seen = SEEN.each_ref().map(|one| one.load(Relaxed));
                assert_eq!(
                    seen,
                    [pc, stack, 0x1_2345_6789],
                    "number {number}, flags {flags}"
                );
            }
        }
        println!("ok");
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    step::main();
}
