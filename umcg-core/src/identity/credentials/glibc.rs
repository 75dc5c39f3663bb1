//! The handler in front of glibc's, and how a home thread takes over the credentials of its
//! worker's server.

use super::super::{own_thread_pointer, threaded, tid, with_thread_pointer};
use super::{StorageOwners, Takeover};
use crate::base::call::call as make;
use crate::base::sync::{futex_wait_until, futex_wake, monotonic};
use crate::os::signal::{self, Action, HandlerFn};
use rustix::io::Errno;
use std::ffi::{c_int, c_long, c_void};
use std::ptr::{from_ref, null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

/// glibc's second signal of its own.
const SIGSETXID: c_int = 33;
/// Groups that a handler's frame has room for; more get a mapping.
const FEW: usize = 32;
/// Nanoseconds between two attempts at a call that the system has no memory for, and how long it is
/// tried.
const PAUSE: u64 = 1_000_000;
const PATIENCE: u64 = 2_000_000_000;

/// glibc's handler.
static GLIBCS: AtomicUsize = AtomicUsize::new(0);
/// Null until it is set.
static OWNERS: AtomicPtr<StorageOwners> = AtomicPtr::new(null_mut());

/// Sets the functions by which the handler asks which thread worker's storage it runs with.
pub(crate) fn ask_of(owners: &'static StorageOwners) {
    OWNERS.store(from_ref(owners).cast_mut(), Relaxed);
}

fn owners() -> Option<&'static StorageOwners> {
    // SAFETY: null, or a reference for ever.
    unsafe { OWNERS.load(Relaxed).as_ref() }
}

/// Makes sure that our handler is in front of glibc's. Called before a kernel thread runs with
/// another storage than its own. If this fails, no kernel thread does.
pub(crate) fn install() -> Result<(), Errno> {
    // If no thread can be made, glibc has installed its handler anyway, or there is no thread to
    // send the signal.
    threaded::ensure();
    let glibcs = Action::ask(SIGSETXID)?;
    let ours: HandlerFn = on_setxid;
    if glibcs.handler == ours as usize || !glibcs.is_function() {
        return Ok(());
    }
    GLIBCS.store(glibcs.handler, Relaxed);
    // It runs on the kernel thread's own signal stack, if it has one: a worker's stack may be
    // small. It blocks all signals, so no other handler sees the wrong storage.
    // SAFETY: the handler is async-signal-safe, and calls the one before.
    unsafe {
        signal::install(
            SIGSETXID,
            on_setxid,
            libc::SA_ONSTACK | libc::SA_RESTART,
            u64::MAX,
        )
    }
}

extern "C" fn on_setxid(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo_t.
    let code = unsafe { (*information).si_code };
    if code == libc::SI_QUEUE {
        // If this thread is no worker's home, or no thread waits for it, the signal is a
        // stranger's.
        if let Some((_, takeover)) = away().filter(|(home, _)| *home == tid()) {
            takeover.perform();
        }
        return;
    }
    // SAFETY: null or glibc's handler of this type; `Option<fn>` represents null as None.
    let glibcs = unsafe { std::mem::transmute::<usize, Option<HandlerFn>>(GLIBCS.load(Relaxed)) };
    let Some(glibcs) = glibcs else { return };
    let own = own_thread_pointer();
    let away = away();
    if own == umcg_context::thread_pointer() {
        if let Some((_, takeover)) = away.filter(|_| code == libc::SI_TKILL) {
            takeover.commands.fetch_add(1, Relaxed);
        }
        let mut call = || glibcs(signal, information, context);
        return match owners() {
            Some(owners) => (owners.beside)(&mut call),
            None => call(),
        };
    }
    // No ordering is needed: by glibc's own count of answers, the home had finished each earlier
    // command of glibc's before this signal was sent.
    let before = away.map(|(_, takeover)| takeover.commands.load(Relaxed));
    // SAFETY: the kernel thread's own storage, which no flow runs with while the kernel thread runs
    // with another. All signals are blocked.
    unsafe { with_thread_pointer(own, &mut || glibcs(signal, information, context)) };
    if let (libc::SI_TKILL, Some((home, takeover)), Some(before)) = (code, away, before) {
        takeover.ask(home, before);
    }
}

fn away() -> Option<(u32, &'static Takeover)> {
    (owners()?.away)()
}

/// Users and groups of a kernel thread, as the system calls name them. It is read in place and not
/// copied, as a signal stack may have 8 KiB.
struct Credentials {
    /// How many of glibc's commands the home had carried out before the one that caused this
    /// takeover.
    commands: u32,
    users: [u32; 3],
    groups: [u32; 3],
    also: Groups,
}

/// The supplementary groups.
struct Groups {
    few: [u32; FEW],
    many: *mut u32,
    len: usize,
    room: usize,
}

/// A refused system call, and its error.
struct SyscallError(&'static str, c_int);

/// Makes a system call. While the system is short of resources it tries again, for a limited time.
fn call(name: &'static str, number: c_long, arguments: [usize; 4]) -> Result<usize, SyscallError> {
    match try_once(number, arguments) {
        Err(libc::EAGAIN | libc::ENOMEM) => try_again(name, number, arguments),
        result => result.map_err(|error| SyscallError(name, error)),
    }
}

#[cold]
#[inline(never)]
fn try_again(
    name: &'static str,
    number: c_long,
    arguments: [usize; 4],
) -> Result<usize, SyscallError> {
    let limit = monotonic() + PATIENCE;
    loop {
        let _ = futex_wait_until(&AtomicU32::new(0), 0, monotonic() + PAUSE);
        match try_once(number, arguments) {
            Err(libc::EAGAIN | libc::ENOMEM) if monotonic() < limit => {}
            result => return result.map_err(|error| SyscallError(name, error)),
        }
    }
}

/// A system call that leaves errno alone, and that no layer intercepts: the storage may be that of
/// a worker that runs elsewhere.
fn try_once(number: c_long, arguments: [usize; 4]) -> Result<usize, c_int> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: the callers pass the arguments that the call needs.
    let result = unsafe { make(number, [first, second, third, fourth, 0, 0]) };
    usize::try_from(result).map_err(|_| -result as c_int)
}

impl Groups {
    const fn none() -> Groups {
        Groups {
            few: [0; FEW],
            many: null_mut(),
            len: 0,
            room: FEW,
        }
    }

    fn ask(&mut self) -> Result<usize, SyscallError> {
        call(
            "getgroups",
            libc::SYS_getgroups,
            [self.room, self.place().expose_provenance(), 0, 0],
        )
    }

    /// Reads those of the calling kernel thread.
    fn look(&mut self) -> Result<(), SyscallError> {
        let mut result = self.ask();
        if let Err(SyscallError(_, libc::EINVAL)) = result {
            self.grow()?; // there are more
            result = self.ask();
        }
        self.len = result?;
        Ok(())
    }

    fn place(&mut self) -> *mut u32 {
        if self.many.is_null() {
            self.few.as_mut_ptr()
        } else {
            self.many
        }
    }

    fn list(&self) -> &[u32] {
        if self.many.is_null() {
            return &self.few[..self.len];
        }
        // SAFETY: the mapping has room for `len` of them, and the kernel wrote those.
        unsafe { std::slice::from_raw_parts(self.many, self.len) }
    }

    /// Room for all that the kernel may have (NGROUPS_MAX).
    fn grow(&mut self) -> Result<(), SyscallError> {
        const MOST: usize = 65536;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (bytes, access, kind) = (MOST * size_of::<u32>(), access as usize, kind as usize);
        // Not by the C library's function: a layer may intercept that.
        // SAFETY: a new mapping at an address of the kernel's choice.
        let place = unsafe { make(libc::SYS_mmap, [0, bytes, access, kind, usize::MAX, 0]) };
        let place = usize::try_from(place).map_err(|_| SyscallError("mmap", -place as c_int))?;
        (self.many, self.room) = (with_exposed_provenance_mut(place), MOST);
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if !self.many.is_null() {
            let place = self.many.expose_provenance();
            let bytes = self.room * size_of::<u32>();
            // SAFETY: `grow` mapped it.
            unsafe { make(libc::SYS_munmap, [place, bytes, 0, 0, 0, 0]) };
        }
    }
}

/// The three ids that such a call returns: real, effective, saved.
fn look_at_three(
    name: &'static str,
    number: c_long,
    ids: &mut [u32; 3],
) -> Result<usize, SyscallError> {
    let place = ids.as_mut_ptr();
    let [real, effective, saved] =
        [0, 1, 2].map(|index| place.wrapping_add(index).expose_provenance());
    call(name, number, [real, effective, saved, 0])
}

fn set_three(
    name: &'static str,
    number: c_long,
    [real, effective, saved]: [u32; 3],
) -> Result<usize, SyscallError> {
    call(
        name,
        number,
        [real as usize, effective as usize, saved as usize, 0],
    )
}

impl Credentials {
    const fn none() -> Credentials {
        Credentials {
            commands: 0,
            users: [0; 3],
            groups: [0; 3],
            also: Groups::none(),
        }
    }

    /// Reads those of the calling kernel thread.
    fn look(&mut self) -> Result<(), SyscallError> {
        look_at_three("getresuid", libc::SYS_getresuid, &mut self.users)?;
        look_at_three("getresgid", libc::SYS_getresgid, &mut self.groups)?;
        self.also.look()
    }

    /// Gives the calling kernel thread these credentials. Values that are already correct are not
    /// set, as that may not be permitted. Users come last: setting them may take away the right to
    /// set the rest.
    fn adopt(&self) -> Result<(), SyscallError> {
        let mut now = Credentials::none();
        now.look()?;
        if now.also.list() != self.also.list() {
            let list = self.also.list();
            call(
                "setgroups",
                libc::SYS_setgroups,
                [list.len(), list.as_ptr().expose_provenance(), 0, 0],
            )?;
        }
        if now.groups != self.groups {
            set_three("setresgid", libc::SYS_setresgid, self.groups)?;
        }
        if now.users != self.users {
            set_three("setresuid", libc::SYS_setresuid, self.users)?;
        }
        Ok(())
    }
}

impl Takeover {
    /// Makes the home thread of this tid take over the credentials of the calling kernel thread,
    /// unless it has carried out more commands by then. Returns when that is settled. Called in a
    /// signal handler.
    fn ask(&self, home: u32, commands: u32) {
        let mut wanted = Credentials::none();
        wanted.commands = commands;
        if let Err(refused) = wanted.look() {
            give_up(refused);
        }
        let done = self.done.load(Relaxed);
        // ORDERING(takeover.1): Release, pairs with takeover.2. The home sees the credentials.
        self.wanted
            .store((&raw const wanted).cast_mut().cast(), Release);
        if let Err(refused) = signal(home) {
            give_up(refused); // the home lives as long as its worker is a worker
        }
        // ORDERING(takeover.4): Acquire, pairs with takeover.3. The home no longer reads the
        // credentials.
        while self.done.load(Acquire) == done {
            let _ = futex_wait_until(&self.done, done, u64::MAX);
        }
    }

    /// The home thread's part of [`ask`](Takeover::ask).
    fn perform(&self) {
        // ORDERING(takeover.2): Acquire, pairs with takeover.1.
        let wanted = self.wanted.swap(null_mut(), Acquire).cast::<Credentials>();
        // SAFETY: null, or credentials that `ask` keeps until `done` has changed.
        let Some(wanted) = (unsafe { wanted.as_ref() }) else {
            return;
        };
        if wanted.commands == self.commands.load(Relaxed) {
            if let Err(refused) = wanted.adopt() {
                give_up(refused);
            }
        }
        // ORDERING(takeover.3): Release, pairs with takeover.4.
        self.done.fetch_add(1, Release);
        futex_wake(&self.done, 1);
    }
}

/// Sends a home thread the signal, with the code that means a takeover.
fn signal(home: u32) -> Result<(), SyscallError> {
    // SAFETY: zero is a valid siginfo_t.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    information.si_signo = SIGSETXID;
    information.si_code = libc::SI_QUEUE;
    let process = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let place = (&raw const information).expose_provenance();
    call(
        "rt_tgsigqueueinfo",
        libc::SYS_rt_tgsigqueueinfo,
        [process, home as usize, SIGSETXID as usize, place],
    )?;
    Ok(())
}

/// Ends the process: a kernel thread has other credentials than the rest, and cannot change them.
#[cold]
#[inline(never)]
fn give_up(SyscallError(call, error): SyscallError) -> ! {
    let digits = [100, 10, 1].map(|unit| b'0' + (error / unit % 10) as u8);
    let zeros = digits[..2]
        .iter()
        .take_while(|digit| **digit == b'0')
        .count();
    let error = std::str::from_utf8(&digits[zeros..]).unwrap_or_default();
    let why = "a worker's home thread cannot take over the credentials of the process: ";
    crate::os::fatal::in_handler([why, call, " is refused (error ", error, ")"])
}
