//! A library to preload: it leads all system calls to a hook that changes nothing.
//!
//! `PASS_WAY` says how the hook answers: `native`, `again`, `return` (it makes the call itself),
//! `none` (nothing is hooked, but all sites are patched), and `PASS_REPORT` names a file that the
//! report is appended to at the end.

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
        let config = Config {
            hook,
            is_hooked: &ALL,
            except: |_| false,
        };
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
