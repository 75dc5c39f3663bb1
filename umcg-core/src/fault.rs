//! Faults: a stack overflow gets its name, a bad pointer from the caller becomes an error.
//!
//! One handler for SIGSEGV and SIGBUS, on the alternate signal stack of the kernel thread:
//!
//! 1. A fault inside a guarded access ([`guarded`]) becomes its result. This is how EFAULT is
//!    answered without a system call.
//! 2. A fault in the guard of a stack of ours prints which uth or worker overflowed which stack, and the process dies by the signal.
//! 3. Everything else goes to the handler that the program had before.

use crate::guarded;
use crate::uth::record::Record;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Once;
use umcg_context::stack;

static INSTALL: Once = Once::new();
static PREVIOUS: [Previous; 2] = [const { Previous(UnsafeCell::new(MaybeUninit::uninit())) }; 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What the program did with a signal before.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Previous {}

/// Installs the handler, once a process.
pub(crate) fn install() {
    INSTALL.call_once(|| {
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
            // SAFETY: zero is a valid sigaction.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            // SAFETY: both point to sigactions; the handler is async-signal-safe, and `call_once` keeps other writers out.
            unsafe { libc::sigaction(signal, &action, PREVIOUS[index].0.get().cast()) };
        }
    });
}

/// Gives the calling kernel thread an alternate signal stack if it has none: a handler cannot run on a stack that has overflowed.
pub(crate) fn ensure_signal_stack() {
    // SAFETY: zero is a valid stack_t.
    let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the setting.
    if unsafe { libc::sigaltstack(null(), &mut now) } != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
        return;
    }
    // One of our own stacks, so a handler that overflows it hits a guard. It is kept for as long as the kernel thread lives.
    let Some(class) = stack::Class::for_size(signal_stack_size()) else { return };
    let Ok(signal_stack) = stack::allocate(class) else { return };
    let setting = libc::stack_t { ss_sp: signal_stack.base().cast(), ss_flags: 0, ss_size: class.size() };
    // SAFETY: the memory stays mapped for ever.
    if unsafe { libc::sigaltstack(&setting, null_mut()) } == 0 {
        thread_local!(static SIGNAL_STACK: SignalStack = const { SignalStack(Cell::new(None)) });
        SIGNAL_STACK.with(|kept| kept.0.set(Some(signal_stack)));
    } else {
        stack::release(signal_stack);
    }
}

fn signal_stack_size() -> usize {
    // SAFETY: reads a vector that the kernel gave the process.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    (least + (16 << 10)).max(32 << 10)
}

/// The signal stack that this thread was given.
struct SignalStack(Cell<Option<stack::Stack>>);

impl Drop for SignalStack {
    fn drop(&mut self) {
        let Some(signal_stack) = self.0.take() else { return };
        // SAFETY: zero is a valid stack_t.
        let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: only reads the setting.
        let failed = unsafe { libc::sigaltstack(null(), &mut now) } != 0;
        // A thread worker may end while it is on a server's kernel thread, whose signal stack is another.
        if failed || now.ss_sp.cast() != signal_stack.base() {
            return;
        }
        now.ss_flags = libc::SS_DISABLE;
        // SAFETY: switches the signal stack off; we are not on it.
        if unsafe { libc::sigaltstack(&now, null_mut()) } == 0 {
            stack::release(signal_stack);
        }
    }
}

/// Where a signal frame keeps the program counter.
pub(crate) fn program_counter(context: &mut libc::ucontext_t) -> &mut ProgramCounter {
    cfg_if::cfg_if! {
        if #[cfg(target_arch = "x86_64")] {
            &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
        } else if #[cfg(target_arch = "aarch64")] {
            &mut context.uc_mcontext.pc
        } else if #[cfg(target_arch = "riscv64")] {
            &mut context.uc_mcontext.__gregs[libc::REG_PC]
        }
    }
}

cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        pub(crate) type ProgramCounter = i64;
    } else if #[cfg(target_arch = "aarch64")] {
        pub(crate) type ProgramCounter = u64;
    } else if #[cfg(target_arch = "riscv64")] {
        pub(crate) type ProgramCounter = libc::c_ulong;
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext_t.
    let ucontext = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let pc = program_counter(ucontext);
    if let Some(failed) = guarded::after_fault(*pc as usize) {
        *pc = failed as ProgramCounter;
        return;
    }
    // SAFETY: the kernel passes a siginfo_t.
    let information = unsafe { &*info };
    // SAFETY: both signals carry an address, if the kernel sent them.
    let address = unsafe { information.si_addr() } as usize;
    if let Some(place) = stack::find(address).filter(|place| place.in_guard) {
        report(&place);
        let index = usize::from(signal != libc::SIGSEGV);
        // The program dies by the same signal when the instruction is repeated.
        // SAFETY: zero is a valid sigaction: the default action.
        let default: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as in `install`.
        unsafe { libc::sigaction(SIGNALS[index], &default, null_mut()) };
        return;
    }
    chain(signal, info, context);
}

/// Says on standard error whose stack has overflowed. Async-signal-safe: no allocation, one write.
fn report(place: &stack::Place) {
    let stack = stack::top_of(place.base, place.class);
    // SAFETY: the top of a stack is readable for ever, and a Record is valid whatever it holds.
    let record = unsafe { &*stack.wrapping_sub(size_of::<Record>()).cast::<Record>() };
    let (name, len) = record.name();
    let mut text = [0u8; 160];
    let mut rest = &mut text[..];
    let name = std::str::from_utf8(&name[..len]).unwrap_or("?");
    let kind = record.kind();
    let kib = place.class.size() >> 10;
    let _ = match name {
        "" => writeln!(rest, "umcg: {kind} {:p} overflowed its {kib} KiB stack", record as *const Record),
        name => writeln!(rest, "umcg: {kind} `{name}` overflowed its {kib} KiB stack"),
    };
    let unused = rest.len();
    let used = text.len() - unused;
    // SAFETY: writes from a buffer of our own.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), used) };
}

/// Hands a fault that is not ours to the handler that was there before.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = usize::from(signal != libc::SIGSEGV);
    // SAFETY: written by the call that installed this handler.
    let previous = unsafe { *PREVIOUS[index].0.get().cast::<libc::sigaction>() };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the program's own earlier setting; the instruction is repeated under it.
            unsafe { libc::sigaction(signal, &previous, null_mut()) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: SA_SIGINFO says that the handler has this type.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO it has this type.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
