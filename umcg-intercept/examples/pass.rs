//! A library to preload: it leads all system calls to a hook that changes nothing.
//!
//! `PASS_WAY` says how the hook answers: `native`, `again`, `return` (it makes the call itself),
//! `none` (nothing is hooked, but all sites are patched), and `PASS_REPORT` names a file that the
//! report is appended to at the end.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

/// Memory for the hook. The C library's allocator may itself be making the call.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod heap {
    use core::alloc::{GlobalAlloc, Layout};
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const BLOCK: usize = 1 << 20;

    /// Blocks from the kernel, cut into powers of two; free ones are linked by size.
    struct Heap {
        taken: AtomicBool,
        free: [AtomicUsize; 64],
        rest: [AtomicUsize; 2],
    }

    #[global_allocator]
    static HEAP: Heap = Heap {
        taken: AtomicBool::new(false),
        free: [const { AtomicUsize::new(0) }; 64],
        rest: [const { AtomicUsize::new(0) }; 2],
    };

    fn map(size: usize) -> usize {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let arguments = [0, size, protection, flags, usize::MAX, 0];
        // SAFETY: new memory.
        let got = unsafe { umcg_intercept::raw_syscall(libc::SYS_mmap as usize, arguments) };
        if got < 0 { 0 } else { got as usize }
    }

    impl Heap {
        fn cut(&self, size: usize) -> usize {
            let [at, end] = [0, 1].map(|one| self.rest[one].load(Ordering::Relaxed));
            let start = at.next_multiple_of(size.min(4096));
            if at != 0 && start + size <= end {
                self.rest[0].store(start + size, Ordering::Relaxed);
                return start;
            }
            let new = map(size.max(BLOCK));
            if new != 0 && size < BLOCK {
                self.rest[0].store(new + size, Ordering::Relaxed);
                self.rest[1].store(new + BLOCK, Ordering::Relaxed);
            }
            new
        }

        fn locked<T>(&self, action: impl FnOnce() -> T) -> T {
            while self.taken.swap(true, Ordering::Acquire) {
                core::hint::spin_loop();
            }
            let result = action();
            self.taken.store(false, Ordering::Release);
            result
        }
    }

    // SAFETY: blocks are powers of two, as large and aligned as asked (up to a page), and each has
    // one user.
    unsafe impl GlobalAlloc for Heap {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let size = layout
                .size()
                .max(layout.align())
                .max(16)
                .next_power_of_two();
            let free = &self.free[size.trailing_zeros() as usize];
            let address = self.locked(|| match free.load(Ordering::Relaxed) {
                0 => self.cut(size),
                first => {
                    // SAFETY: a free block holds the next one's address.
                    free.store(unsafe { *(first as *const usize) }, Ordering::Relaxed);
                    first
                }
            });
            address as *mut u8
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            let size = layout
                .size()
                .max(layout.align())
                .max(16)
                .next_power_of_two();
            let free = &self.free[size.trailing_zeros() as usize];
            self.locked(|| {
                // SAFETY: the block is free, and has room for an address.
                unsafe { *block.cast::<usize>() = free.load(Ordering::Relaxed) };
                free.store(block as usize, Ordering::Relaxed);
            });
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod pass {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::io::Write;
    use umcg_intercept::{Call, Config, Next, raw_syscall};

    static WAY: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static ALL: [u8; 512] = [1; 512];

    const AGAIN: usize = 1;
    const RETURN: usize = 2;

    /// Calls that return twice, on a new stack, or never.
    fn is_special(call: &Call) -> bool {
        matches!(
            call.number as i64,
            libc::SYS_clone
                | libc::SYS_clone3
                | libc::SYS_vfork
                | libc::SYS_fork
                | libc::SYS_exit
                | libc::SYS_exit_group
                | libc::SYS_munmap
        )
    }

    /// Whether the loader may have mapped code by this call.
    fn maps_code(call: &Call) -> bool {
        let protection = match call.number as i64 {
            libc::SYS_mmap => call.arguments[2],
            libc::SYS_mprotect => return true,
            _ => return false,
        };
        protection & libc::PROT_EXEC as usize != 0
    }

    unsafe extern "C" fn hook(call: &mut Call) -> Next {
        if call.step == 0 {
            CALLS.fetch_add(1, Relaxed);
        }
        if is_special(call) {
            if call.number as i64 == libc::SYS_munmap {
                let [start, length, ..] = call.arguments;
                umcg_intercept::forget(start..start.saturating_add(length));
            }
            return Next::Tail;
        }
        if maps_code(call) && call.step == 0 {
            return Next::Again;
        }
        if call.step == 1 {
            if maps_code(call) {
                umcg_intercept::look_again();
            }
            return Next::Return;
        }
        match WAY.load(Relaxed) {
            AGAIN => Next::Again,
            RETURN => {
                // SAFETY: the program wanted to make this call.
                call.result = unsafe { raw_syscall(call.number, call.arguments) };
                Next::Return
            }
            _ => Next::Native,
        }
    }

    extern "C" fn trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's context.
        if !unsafe { umcg_intercept::on_trap(context) } {
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
    }

    extern "C" fn start() {
        let way = std::env::var("PASS_WAY").unwrap_or_default();
        let way = match way.as_str() {
            "again" => AGAIN,
            "return" => RETURN,
            _ => 0,
        };
        WAY.store(way, Relaxed);
        // SAFETY: zero is a value.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: a handler that is safe in signal handlers.
        unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()) };
        let config = Config::new(hook, &ALL);
        // SAFETY: the hook keeps to the rules.
        if let Err(error) = unsafe { umcg_intercept::install(config) } {
            eprintln!("{error}");
        }
        if std::env::var("PASS_WAY").as_deref() == Ok("none") {
            umcg_intercept::stand_aside(true);
        }
    }

    extern "C" fn end() {
        let Some(path) = std::env::var_os("PASS_REPORT") else {
            return;
        };
        let report = umcg_intercept::report();
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let text = format!("{report}calls={}\n", CALLS.load(Relaxed));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: extern "C" fn() = start;
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static END: extern "C" fn() = end;
}
