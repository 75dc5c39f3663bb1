//! Installs handlers: all of the library's go through here.

use crate::base::call::call;
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// The function that is called for a signal.
pub type HandlerFn = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
/// The same for one that calls a handler of the program's, which may throw an exception.
pub type UnwindingHandlerFn = extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The function as one to be installed.
pub fn unwinding(function: UnwindingHandlerFn) -> HandlerFn {
    // SAFETY: the kernel calls it, by the same convention. An exception that leaves it goes on in
    // the code that the signal has interrupted.
    unsafe { std::mem::transmute::<UnwindingHandlerFn, HandlerFn>(function) }
}

/// The process's action for a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    /// A function, or `SIG_DFL`, or `SIG_IGN`.
    pub(crate) handler: usize,
    pub(crate) flags: c_int,
    /// The signals that it additionally blocks.
    pub(crate) blocks: u64,
}

/// The kernel's layout.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    handler: usize,
    flags: libc::c_ulong,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    restorer: usize,
    mask: u64,
}

impl Action {
    /// The current action, or the default one if the kernel does not tell.
    pub(crate) fn of(signal: c_int) -> Action {
        const DEFAULT: Action = Action {
            handler: libc::SIG_DFL,
            flags: 0,
            blocks: 0,
        };
        Action::ask(signal).unwrap_or(DEFAULT)
    }

    /// The current action.
    pub(crate) fn ask(signal: c_int) -> Result<Action, Errno> {
        if is_the_c_librarys(signal) {
            let raw = raw_action(signal)?;
            return Ok(Action {
                handler: raw.handler,
                flags: raw.flags as c_int,
                blocks: raw.mask,
            });
        }
        // SAFETY: zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only asks.
        granted(unsafe { libc::sigaction(signal, null(), &mut action) }.into())?;
        // SAFETY: the kernel's signal set is the first word of the C library's.
        let blocks = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
        Ok(Action {
            handler: action.sa_sigaction,
            flags: action.sa_flags,
            blocks,
        })
    }

    /// The handler as the kernel has it, without a look at thread-local storage; `SIG_DFL` if the
    /// kernel does not tell.
    pub(crate) fn ask_raw(signal: c_int) -> usize {
        let mut raw = MaybeUninit::<Raw>::zeroed();
        let arguments = [
            signal as usize,
            0,
            raw.as_mut_ptr().expose_provenance(),
            size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: reads the action into a `Raw`.
        unsafe { call(libc::SYS_rt_sigaction, arguments) };
        // SAFETY: written, or zeros, which are valid.
        unsafe { raw.assume_init() }.handler
    }

    /// Whether the signal has a function.
    pub(crate) fn is_function(&self) -> bool {
        !matches!(self.handler, libc::SIG_DFL | libc::SIG_IGN)
    }
}

/// Installs `function` for `signal`, in place of the current handler; always with `SA_SIGINFO`. If
/// the old handler is to be called too, ask for it before (`Action::of`): a signal may come at
/// once.
///
/// # Errors
/// The kernel refuses.
///
/// # Safety
/// The function is async-signal-safe.
pub unsafe fn install(
    signal: c_int,
    function: HandlerFn,
    flags: c_int,
    blocks: u64,
) -> Result<(), Errno> {
    let flags = flags | libc::SA_SIGINFO;
    if is_the_c_librarys(signal) {
        return set_beside(signal, function, flags, blocks);
    }
    // SAFETY: zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = function as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: the kernel's signal set is the first word of the C library's.
    unsafe { (&raw mut action.sa_mask).cast::<u64>().write(blocks) };
    // SAFETY: the pointers are valid for the call; the function is async-signal-safe.
    granted(unsafe { libc::sigaction(signal, &action, null_mut()) }.into())
}

/// Gives the signal its default action. Async-signal-safe.
pub(crate) fn reset(signal: c_int) {
    // SAFETY: zero is a valid sigaction: the default action.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: valid for the call.
    unsafe { libc::sigaction(signal, &default, null_mut()) };
}

/// Signals that the C library keeps to itself: its own function refuses them.
fn is_the_c_librarys(signal: c_int) -> bool {
    (32..libc::SIGRTMIN()).contains(&signal)
}

/// Installs it by the kernel's call. The C library's other settings stay, above all the return path
/// from the handler.
fn set_beside(signal: c_int, function: HandlerFn, flags: c_int, mask: u64) -> Result<(), Errno> {
    let before = raw_action(signal)?;
    let new = Raw {
        handler: function as usize,
        flags: before.flags | flags as libc::c_ulong,
        mask,
        ..before
    };
    // SAFETY: by the contract of `install`; the handler returns as the one before did.
    granted(unsafe { sigaction(signal, &new, null_mut()) })
}

fn raw_action(signal: c_int) -> Result<Raw, Errno> {
    let mut raw = MaybeUninit::<Raw>::zeroed();
    // SAFETY: reads the action into a `Raw`.
    granted(unsafe { sigaction(signal, null(), raw.as_mut_ptr()) })?;
    // SAFETY: written, or zeros, which are valid.
    Ok(unsafe { raw.assume_init() })
}

/// # Safety
/// As for the system call.
unsafe fn sigaction(signal: c_int, new: *const Raw, old: *mut Raw) -> libc::c_long {
    // SAFETY: passed on.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>()) }
}

fn granted(result: libc::c_long) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::INVAL, Errno::from_raw_os_error)),
    }
}
