//! Leads the system calls of a running process to a hook.
//!
//! [`install`] finds the `syscall` instructions in the code of every loaded object, and replaces
//! each by a jump. The jump leads to the hook, a function of the layer above. The engine knows
//! nothing of the meaning of a call.
//!
//! ```text
//!   code of the program            trampoline, near the code        stub
//!
//!   mov $202, %eax    \            mov $202, %eax
//!   syscall           /  jmp --->  rcx = next, r11 = site   --->    number hooked?
//!   next: ...    <---------------------------------------------    no: syscall
//!                                                                  yes: hook, then its answer
//! ```
//!
//! Of the parts, `x86::image` finds objects, `unwind` their functions, `code` the sites, `entries`
//! the jumps around, `window` the instructions to replace; `trampoline` and `patch` replace them.
//! A program waits for that: `scan`, `length` and `zone` make it quick (3 ms for a C library).
//!
//! Invariants:
//!
//! - A site is patched only if nothing that could be found enters its window. All others stay as
//!   they are, and are counted in the [`Report`].
//! - The engine's own calls are [`raw_syscall`]s, and never hooked.
//! - Nothing fails later: after [`install`] has returned, a call is hooked or passes.
//!
//! Rejected: preloaded symbols (they miss the C library's internal calls and inlined ones), and
//! code at address zero, to which `call *%rax` in place of `syscall` leads (it hides null pointers,
//! and overwrites the red zone).

mod call;
mod report;

pub use call::{Call, Hook, Next};
pub use report::{Counts, Error, Object, Report};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use x86::{
    child::{Child, begin_child},
    engine::{forget, install, look_again, report},
    extended::{clear_extended, clear_x87, extended_size, restore_extended, save_extended},
    net::{arm_thread, disarm_thread, is_caught, on_sigsys, signal_restorer},
    refused::{call_again, fail, is_refusal, show_place},
    step::{Inside, step_in, step_out},
    stub::raw_syscall,
    trap::{is_inside, on_trap, restarts},
};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod unsupported;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use unsupported::{
    Inside, arm_thread, call_again, clear_extended, clear_x87, disarm_thread, extended_size, fail,
    forget, install, is_caught, is_inside, is_refusal, look_again, on_sigsys, on_trap, raw_syscall,
    report, restarts, restore_extended, save_extended, show_place, signal_restorer, step_in,
    step_out,
};

/// What to hook, and where.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The function that decides on calls.
    pub hook: Hook,
    /// For each number whether it is hooked: all but zero. Sites whose number is known not to be
    /// are left as they are. `rt_sigreturn` never is.
    pub is_hooked: &'static [u8; 512],
    /// Other threads may be in a site's system call while it is replaced. A site is left as it is
    /// if they would return into the midst of the jump. Objects that are found later always count
    /// so.
    pub has_threads: bool,
    /// Numbers that need the hook at times only.
    pub permit: Option<Permit>,
    /// Code that answers some of the calls with a hooked number before the hook.
    pub quick: Option<Quick>,
    /// Objects to leave alone. The library that the engine is part of always is.
    pub except: fn(&Object) -> bool,
}

impl Config {
    /// For a process with one thread: no permits, no quick code, no exceptions.
    #[must_use]
    pub fn new(hook: Hook, is_hooked: &'static [u8; 512]) -> Config {
        Config {
            hook,
            is_hooked,
            has_threads: false,
            permit: None,
            quick: None,
            except: |_| false,
        }
    }
}

/// Code that answers some calls before the stub has saved anything but the flags, in half of the
/// time.
///
/// It is called with the stack as for a function, the number in `rax` with its upper half zero, and
/// all other registers as at the site. It may change the flags, `rcx` and `r11`. It returns
/// with `ecx` = 0 and the result in `rax`; or with another value in `ecx` and `rax` unchanged: then
/// the hook is called. It runs where the hook does, and may be interrupted, be unwound from, and go
/// on later on another kernel thread, at each of its instructions. So it needs unwind tables, and
/// keeps nothing of the thread.
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    /// The number of the calls.
    pub number: usize,
    /// The code. It is no function for Rust to call.
    pub code: unsafe extern "C" fn(),
}

/// Hooked numbers that pass while a byte of the calling thread says so.
#[derive(Clone, Copy, Debug)]
pub struct Permit {
    /// For each number whether it is one of them: all but zero.
    pub numbers: &'static [u8; 512],
    /// The offset from the thread pointer to a word of the thread's storage. The word is null, or
    /// the address of the byte, which is not zero while the calls pass.
    pub word: isize,
}

/// What a look for new objects found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How many sites were patched.
    pub patched: usize,
    /// An object is not mapped completely yet: look again when more has been mapped.
    pub unfinished: bool,
    /// There is code whose calls do not lead to the hook: sites that could not be replaced, or what
    /// a compiler in the process has written. The net catches those of armed threads
    /// ([`arm_thread`]).
    pub misses: bool,
}

/// Lets all calls pass, or leads them to the hook again. Affects the process, and everything that
/// shares its memory.
pub fn stand_aside(aside: bool) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    x86::stub::aside(aside);
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    let _ = aside;
}
