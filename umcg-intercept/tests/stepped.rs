//! A handler that interrupts a call at any instruction can unwind the thread's stack to its end:
//! without further help if the trampoline lies in the engine's own arena, else by `step_out`.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod common;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod stepped {
    use super::common;
    use core::arch::global_asm;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use umcg_intercept::{Call, Config, Next, Quick, step_in, step_out};

    const NATIVE: usize = 500;
    const AGAIN: usize = 501;
    const TAIL: usize = 502;
    const RETURN: usize = 503;
    /// Answered by the quick code.
    const QUICK: usize = 504;
    const GETPID: usize = libc::SYS_getpid as usize;

    static HOOKED: [u8; 512] = common::hooked(NATIVE, QUICK);
    /// Where the stack of the test ends, as an unwinder sees it.
    static END: AtomicUsize = AtomicUsize::new(0);
    /// Instructions that were seen: in trampolines, and in all.
    static SEEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    /// Whether the site is [`far`].
    static IS_FAR: AtomicBool = AtomicBool::new(false);

    // Two sites: behind other instructions, and with instructions behind it.
    global_asm!(
        ".macro test_site name, after",
        r"\name:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "mov eax, edi",
        r".ifc \after, yes",
        "test eax, eax",
        "jne 2f",
        "xor eax, eax",
        "2:",
        "syscall",
        "lea rcx, [rsp + 16]",
        "mov edx, 7",
        ".else",
        "lea rdx, [rsp + 16]",
        "mov ecx, 7",
        "syscall",
        ".endif",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        ".endm",
        "test_site test_before, no",
        "test_site test_after, yes",
        ".purgem test_site",
        // Calls a function with a trap after each instruction.
        "test_step:", // function, its argument
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "pushfq",
        "or dword ptr [rsp], 0x100",
        "popfq",
        "call rax",
        "pushfq",
        "and dword ptr [rsp], 0xfffffeff",
        "popfq",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        "test_quick:",
        ".cfi_startproc",
        "mov rax, [rip + {pid}]",
        "xor ecx, ecx",
        "ret",
        ".cfi_endproc",
        pid = sym PID,
    );

    static PID: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" {
        fn test_before(number: usize) -> usize;
        fn test_after(number: usize) -> usize;
        fn test_step(f: unsafe extern "C" fn(usize) -> usize, number: usize) -> usize;
        fn test_quick();
        fn umcg_intercept_trampolines();
        fn backtrace(frames: *mut usize, count: i32) -> i32;
    }

    unsafe extern "C" fn hook(call: &mut Call) -> Next {
        let number = std::mem::replace(&mut call.number, GETPID);
        match number {
            _ if call.step == 1 => Next::Return,
            NATIVE => Next::Native,
            AGAIN => Next::Again,
            TAIL => Next::Tail,
            _ => {
                // SAFETY: no arguments.
                call.result = unsafe { libc::getpid() } as isize;
                Next::Return
            }
        }
    }

    /// The outermost frame.
    fn end_of_stack() -> usize {
        let mut frames = [0; 64];
        // SAFETY: room for the frames.
        let count = unsafe { backtrace(frames.as_mut_ptr(), 64) };
        frames[count as usize - 1]
    }

    /// What an unwinder finds as the caller of the code at `pc`.
    fn caller_of(pc: usize) -> Option<usize> {
        let mut frames = [0; 64];
        // SAFETY: room for the frames.
        let count = unsafe { backtrace(frames.as_mut_ptr(), 64) };
        let mut frames = frames[..count as usize].iter().copied();
        frames.find(|&frame| frame == pc)?;
        frames.next()
    }

    /// Whether the engine's own arena is there, to which unwinders find a table.
    fn is_near(pc: usize) -> bool {
        let start = umcg_intercept_trampolines as *const () as usize;
        (start..start + (512 << 10)).contains(&pc)
    }

    /// Whether another arena is there.
    fn is_far(pc: usize) -> bool {
        // SAFETY: zero is a value.
        let mut known: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: room for the answer.
        unsafe { libc::dladdr(pc as *const libc::c_void, &raw mut known) == 0 }
    }

    /// A site in the C library, out of the own arena's reach.
    unsafe extern "C" fn far(number: usize) -> usize {
        // SAFETY: what the hook makes of these numbers.
        unsafe { libc::syscall(number as libc::c_long) as usize }
    }

    fn pc_of(context: *mut libc::c_void) -> usize {
        // SAFETY: the kernel's context.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        machine.gregs[libc::REG_RIP as usize] as usize
    }

    extern "C" fn on_step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let pc = pc_of(context);
        let is_added = is_near(pc) || is_far(pc);
        if !IS_FAR.load(Relaxed) {
            assert_eq!(end_of_stack(), END.load(Relaxed), "from {pc:#x} itself");
        }
        let caller = is_near(pc).then(|| caller_of(pc));
        // SAFETY: the kernel's context.
        let inside = unsafe { step_out(context) };
        if let Some(caller) = caller {
            let shown = pc_of(context);
            assert_eq!(caller, Some(shown + 1), "from {pc:#x}, shown as {shown:#x}");
        }
        assert!(!is_added || inside.is_some(), "{pc:#x} is not shown");
        assert_eq!(end_of_stack(), END.load(Relaxed), "from {pc:#x}");
        SEEN[0].fetch_add(is_added.into(), Relaxed);
        SEEN[1].fetch_add(1, Relaxed);
        if let Some(inside) = inside {
            // SAFETY: the same context.
            unsafe { step_in(context, inside) };
        }
    }

    pub(crate) fn main() {
        PID.store(std::process::id() as usize, Relaxed);
        let quick = Quick {
            number: QUICK,
            code: test_quick,
        };
        let config = Config {
            quick: Some(quick),
            ..Config::new(hook, &HOOKED)
        };
        // SAFETY: the hook keeps to the rules.
        unsafe { umcg_intercept::install(config) }.unwrap();
        common::handle(libc::SIGTRAP, on_step, 0);
        END.store(end_of_stack(), Relaxed);
        for (name, site) in [
            (
                "before",
                test_before as unsafe extern "C" fn(usize) -> usize,
            ),
            ("after", test_after),
            ("far", far),
        ] {
            IS_FAR.store(name == "far", Relaxed);
            for number in [GETPID, NATIVE, AGAIN, TAIL, RETURN, QUICK] {
                SEEN.iter().for_each(|count| count.store(0, Relaxed));
                // SAFETY: a function of the test's.
                let result = unsafe { test_step(site, number) };
                assert_eq!(result, std::process::id() as usize);
                let [added, all] = SEEN.each_ref().map(|count| count.load(Relaxed));
                assert!(
                    added >= 4 && all > added + 10,
                    "{name} {number}: {added} of {all}"
                );
            }
        }
        println!("ok");
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    stepped::main();
}
