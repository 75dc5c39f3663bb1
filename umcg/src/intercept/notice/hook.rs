//! The hook of a program that uses the library.

use super::super::class::{self, Class, Made, Trial, User, Watched};
use super::super::outsider::{self, WordCall, word_call};
use super::super::state::preserved_among_calls;
use super::super::{code, memory, sleep};
use super::{attempt, locks, others, partial, ready};
use crate::futex::kernel::{self, Outcome};
use crate::rt;
use crate::rt::engine::server;
use crate::rt::wait::cut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use umcg_core::call as make;
use umcg_core::raw::{self, CallOrigin};
use umcg_intercept::{Call, Next, forget};

/// What follows when the stub has made the call, as bits of this note. None for a call of the
/// library's own.
const FORM: usize = 12;
const _: () = assert!(FORM >= Call::FRESH);
/// A blocking scope ends.
const IN_SCOPE: usize = 1;
/// A counted wait in the kernel ends.
const IS_COUNTED: usize = 2;
/// Code was mapped.
const IS_MAPPED: usize = 4;
/// A descriptor was closed.
const IS_CLOSED: usize = 8;
/// A process may have been forked.
const IS_FORK: usize = 16;
/// The rest of a call was made, of which a part was done before.
const IS_REST: usize = 32;

/// The process that the library is in.
static PROCESS: OnceLock<isize> = OnceLock::new();

/// Called before the hook is installed.
pub(super) fn prepare() {
    locks::prepare();
    PROCESS.get_or_init(process);
}

fn process() -> isize {
    // SAFETY: no arguments.
    unsafe { make(libc::SYS_getpid, [0; 6]) }
}

/// # Safety
/// The engine calls it, at a site.
pub(super) unsafe extern "C" fn hook(call: &mut Call) -> Next {
    if call.step > 0 {
        return after(call);
    }
    watch_files(call);
    match CallOrigin::of_caller(|| PROCESS.get() != Some(&process())) {
        CallOrigin::Worker(worker) => {
            look_at_code(call);
            of_worker(worker, call)
        }
        CallOrigin::Thread => {
            look_at_code(call);
            of_thread(call)
        }
        CallOrigin::Library => outsider::pass(call).unwrap_or_else(|| in_place(call)),
        CallOrigin::Child => in_place(call),
    }
}

/// The kernel makes the call, on the caller's kernel thread.
fn in_place(call: &Call) -> Next {
    match call.number as libc::c_long {
        // The child has another stack, or the frame's stack goes.
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork | libc::SYS_munmap => Next::Tail,
        _ => Next::Native,
    }
}

/// The same, with this to follow.
fn then(call: &mut Call, form: usize) -> Next {
    call.notes[FORM] = form;
    Next::Again
}

/// Code that was mapped, and not seen whole yet, is looked at. That takes memory, so not in calls
/// that malloc makes.
fn look_at_code(call: &Call) {
    let is_of_malloc = || {
        matches!(
            call.number as libc::c_long,
            libc::SYS_futex
                | libc::SYS_mmap
                | libc::SYS_munmap
                | libc::SYS_mremap
                | libc::SYS_mprotect
                | libc::SYS_madvise
                | libc::SYS_brk
                | libc::SYS_prctl
        )
    };
    if code::is_unseen() && !is_of_malloc() {
        raw::within(|| preserved_among_calls(call.keeps_vectors(), code::look));
    }
}

/// By this call a file may become non-blocking, or get a time limit, also one with another number;
/// or a number may come to name another file.
fn watch_files(call: &Call) {
    let [first, second, option, ..] = call.arguments;
    let changes = match call.number as libc::c_long {
        libc::SYS_close => return ready::forget(first),
        libc::SYS_dup2 | libc::SYS_dup3 => return ready::forget(second),
        libc::SYS_close_range => true,
        libc::SYS_fcntl => second as i32 == libc::F_SETFL,
        libc::SYS_ioctl => second as libc::c_ulong & 0xffff_ffff == libc::FIONBIO as libc::c_ulong,
        libc::SYS_setsockopt => matches!(
            (second as i32, option as i32),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
        ),
        _ => false,
    };
    if changes {
        ready::changes();
    }
}

fn of_thread(call: &mut Call) -> Next {
    match word_call(call) {
        Some(WordCall::Wake) => wake(call),
        Some(which) => {
            outsider::begin_wait(which, call.arguments[0]);
            then(call, IS_COUNTED)
        }
        None => watch(call),
    }
}

/// Calls that change what the library knows: of a thread or a worker.
fn watch(call: &mut Call) -> Next {
    match class::of(call.number, &call.arguments) {
        Class::Watch(watched) => watch_memory(call, watched),
        Class::Thread(made) => make_flow(call, made),
        _ => in_place(call),
    }
}

fn watch_memory(call: &mut Call, watched: Watched) -> Next {
    const PROTECTION: usize = 2;
    let [first, second, ..] = call.arguments;
    match watched {
        Watched::Map | Watched::MapFile | Watched::Protect
            if call.arguments[PROTECTION] as i32 & libc::PROT_EXEC != 0 =>
        {
            then(call, IS_MAPPED)
        }
        Watched::Unmap => {
            forget(first..first.saturating_add(second));
            Next::Tail
        }
        Watched::Close | Watched::Replace => then(call, IS_CLOSED),
        _ => in_place(call),
    }
}

fn make_flow(call: &mut Call, made: Made) -> Next {
    let made = match made {
        Made::Clone3 => {
            let flags = memory::read::<u64>(call.arguments[0]);
            flags.map_or(Made::Thread, Made::by_flags)
        }
        made => made,
    };
    match made {
        Made::Vfork | Made::Sharing => raw::share_with_child(),
        Made::Fork if keeps_stack(call) => return then(call, IS_FORK),
        _ => {}
    }
    in_place(call)
}

/// Whether the child goes on with a copy of the caller's stack.
fn keeps_stack(call: &Call) -> bool {
    const STACK: usize = 1;
    match call.number as libc::c_long {
        libc::SYS_fork => true,
        libc::SYS_clone => call.arguments[STACK] == 0,
        _ => false,
    }
}

/// Wakes in the table, and outsiders in the kernel.
fn wake(call: &mut Call) -> Next {
    let arguments = &call.arguments;
    let wake = || {
        // SAFETY: the arguments of a system call.
        match unsafe { kernel::futex_with(arguments, outsider::wake) } {
            Outcome::Done(result) => Some(result),
            _ => None,
        }
    };
    match raw::within(|| preserved_among_calls(call.keeps_vectors(), wake)) {
        Some(result) => answer(call, result),
        None => Next::Native,
    }
}

fn answer(call: &mut Call, result: isize) -> Next {
    call.result = result;
    Next::Return
}

fn of_worker(worker: raw::Worker, call: &mut Call) -> Next {
    match word_call(call) {
        Some(WordCall::Wake) => {
            let next = wake(call);
            if call.result > 0 && !locks::is_wake(call) && is_turn() {
                give_way(call);
            }
            return next;
        }
        Some(which) => return wait(worker, call, which),
        None => {}
    }
    match class::of(call.number, &call.arguments) {
        Class::User(User::Sleep) => doze(worker, call),
        Class::User(User::Yield) if give_way(call) => answer(call, 0),
        Class::User(User::SharedWait) => block(worker, call, 0),
        // Seen where it stands still: there is no try.
        Class::Try(Trial::WriteAt) => in_place(call),
        Class::Try(trial) => attempt(worker, call, trial),
        Class::Home | Class::Change(_) if others::are_waited_for(call) => block(worker, call, 0),
        Class::Watch(_) | Class::Thread(_) => watch(call),
        _ => in_place(call),
    }
}

/// Whether those that were woken just now are to run at once: one time in some, so that a worker
/// which takes a lock again and again does not keep it from them (`intercept::futex`).
fn is_turn() -> bool {
    const TURN: u32 = 32;
    static WAKES: AtomicU32 = AtomicU32::new(0);
    WAKES.fetch_add(1, Relaxed) % TURN == 0
}

/// Lets other workers of the runtime run. False if the caller is in none.
fn give_way(call: &Call) -> bool {
    raw::within(|| match server::running() {
        Some(running) => {
            preserved_among_calls(call.keeps_vectors(), || running.give_way());
            true
        }
        None => false,
    })
}

/// Whether the caller is a worker of a runtime. Called within.
fn is_in_runtime() -> bool {
    server::running().is_some()
}

/// Begins a blocking scope, in which the kernel makes the call. In place where the C library has
/// blocked all signals of the kernel thread, and will free them on the one that it is on then: for
/// the end of a child that could not begin its program, which has ended by then.
fn block(worker: raw::Worker, call: &mut Call, form: usize) -> Next {
    if has_blocked_all() {
        return if form == 0 {
            in_place(call)
        } else {
            then(call, form)
        };
    }
    // SAFETY: the caller is this worker.
    let begin = || unsafe { worker.begin_blocking() };
    raw::within(|| preserved_among_calls(call.keeps_vectors(), begin));
    then(call, form | IN_SCOPE)
}

/// Whether the kernel thread blocks a signal that only the C library can block.
fn has_blocked_all() -> bool {
    const SIGSETXID: u32 = 33;
    let mut mask = 0u64;
    let at = (&raw mut mask).expose_provenance();
    let arguments = [libc::SIG_BLOCK as usize, 0, at, size_of::<u64>(), 0, 0];
    // SAFETY: room for a set of signals.
    let result = unsafe { make(libc::SYS_rt_sigprocmask, arguments) };
    result == 0 && mask & 1 << (SIGSETXID - 1) != 0
}

fn wait(worker: raw::Worker, call: &mut Call, which: WordCall) -> Next {
    let arguments = &call.arguments;
    let wait = || {
        if !is_in_runtime() {
            return None;
        }
        let outcome = preserved_among_calls(call.keeps_vectors(), || match which {
            // SAFETY: the arguments of a system call.
            WordCall::WaitForList => unsafe { kernel::waitv(arguments) },
            // SAFETY: likewise.
            _ => unsafe { kernel::futex(arguments) },
        });
        match outcome {
            Outcome::Done(result) => Some(result),
            // No signal of the program's cuts it: the cut is an old one.
            Outcome::Cut(_) => {
                cut::take_cut(rt::Handle::current().task());
                Some(-(libc::EINTR as isize))
            }
            Outcome::Kernel | Outcome::Home => None,
        }
    };
    if locks::is_wait(call) && !locks::is_of_file(call.arguments[0]) {
        outsider::begin_wait(which, call.arguments[0]);
        return then(call, IS_COUNTED);
    }
    let result = if locks::is_wait(call) {
        None
    } else {
        raw::within(wait)
    };
    match result {
        Some(result) => answer(call, result),
        None => {
            outsider::begin_wait(which, call.arguments[0]);
            block(worker, call, IS_COUNTED)
        }
    }
}

fn doze(worker: raw::Worker, call: &mut Call) -> Next {
    let doze = |deadline: Option<Result<u64, isize>>| match deadline? {
        Ok(deadline) if is_in_runtime() => {
            // No signal of the program's cuts it: a cut is an old one.
            while !preserved_among_calls(call.keeps_vectors(), || {
                cut::sleep_cuttable(&"sleep", deadline)
            }) {
                cut::take_cut(rt::Handle::current().task());
            }
            Some(0)
        }
        Ok(_) => None,
        Err(error) => Some(error),
    };
    match raw::within(|| doze(sleep::deadline(call))) {
        Some(result) => answer(call, result),
        None => block(worker, call, 0),
    }
}

fn attempt(worker: raw::Worker, call: &mut Call, trial: Trial) -> Next {
    let end = raw::within(|| {
        let in_runtime = is_in_runtime();
        preserved_among_calls(call.keeps_vectors(), || {
            attempt::make(call, trial, in_runtime)
        })
    });
    match end {
        attempt::End::Answer(result) => answer(call, result),
        attempt::End::InPlace if partial::done(call) > 0 => then(call, IS_REST),
        attempt::End::InPlace => in_place(call),
        attempt::End::Scope => block(worker, call, 0),
    }
}

/// The stub has made the call.
fn after(call: &mut Call) -> Next {
    let form = call.notes[FORM];
    if form == 0 {
        // The library's own.
        return outsider::pass(call).unwrap_or(Next::Return);
    }
    if let (true, Some(which)) = (form & IS_COUNTED != 0, word_call(call)) {
        outsider::end_wait(which, call.arguments[0]);
    }
    if form & (IN_SCOPE | IS_REST) != 0 && partial::settle(call) {
        return Next::Again;
    }
    let worker = (form & IN_SCOPE != 0).then(raw::Worker::current);
    if let Some(worker) = worker.flatten() {
        // SAFETY: the caller is this worker, which has begun the scope.
        let end = || unsafe { worker.end_blocking() };
        raw::within(|| preserved_among_calls(call.keeps_vectors(), end));
    }
    match form {
        IS_MAPPED => raw::within(|| preserved_among_calls(call.keeps_vectors(), code::mapped)),
        IS_CLOSED => {
            let which = match call.number as libc::c_long {
                libc::SYS_close => call.arguments[0],
                _ => call.arguments[1],
            };
            // Not asked before the call: until now a worker may have armed the driver for the
            // former file.
            if ready::is_known(which) {
                ready::forget(which);
                raw::within(|| preserved_among_calls(call.keeps_vectors(), || ready::rouse(which)));
            }
        }
        IS_FORK if call.result == 0 => super::end_in_child(),
        _ => {}
    }
    Next::Return
}
