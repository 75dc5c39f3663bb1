//! Handlers of the program's, however they were installed: a tick before each of their instructions
//! takes no worker off, and the interrupted code goes on as it was.

use super::KINDS;
use super::flag;
use super::scene::steps_after;
use crate::storm::{handle, is_blocked, raise};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::*};

/// Flags that handlers are installed with.
const ALL: [i32; 4] = [
    0,
    libc::SA_NODEFER,
    libc::SA_ONSTACK,
    libc::SA_ONSTACK | libc::SA_NODEFER,
];

/// The flags and masks with which the handlers of the process are installed.
static FLAGS: AtomicI32 = AtomicI32::new(0);
/// How many handlers have run to their ends, and how many saw that something was wrong.
static HANDLED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

fn named(flags: i32) -> String {
    let name = |flag, name: &str| {
        if flags & flag != 0 {
            format!(" {name}")
        } else {
            String::new()
        }
    };
    format!(
        "handlers{}{}",
        name(libc::SA_ONSTACK, "SA_ONSTACK"),
        name(libc::SA_NODEFER, "SA_NODEFER")
    )
}

fn install(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    FLAGS.store(flags, Relaxed);
    handle(signal, handler, flags);
}

/// The body of a handler of `signal`: runs `body`, and sees whether it is left alone. In a function
/// of its own, so that all of it is stepped.
#[inline(never)]
fn handled(signal: i32, body: impl FnOnce()) {
    flag::resume();
    let turn = flag::turn();
    let mine = black_box([signal; 16]);
    let is_deferred = FLAGS.load(Relaxed) & libc::SA_NODEFER == 0;
    let is_as_asked = is_blocked(signal) == is_deferred;
    body();
    let is_alone = turn == flag::turn() && mine == [signal; 16];
    if !(is_as_asked && is_alone) {
        WRONG.fetch_add(1, Relaxed);
    }
    HANDLED.fetch_add(1, Relaxed);
}

/// Has `cause` handled so often.
fn expect(times: u64, cause: impl Fn()) {
    let before = HANDLED.load(Relaxed);
    let mine = black_box([7u32; 16]);
    cause();
    assert_eq!(HANDLED.load(Relaxed), before + times);
    assert_eq!(
        WRONG.load(Relaxed),
        0,
        "a handler was not left alone, or blocks other signals than it is to"
    );
    assert_eq!(mine, [7; 16]);
    assert!(!is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGUSR2) && !is_blocked(libc::SIGSEGV));
}

#[test]
fn one() {
    extern "C" fn handler(signal: i32) {
        handled(signal, || (0..4u64).for_each(|n| _ = black_box(n)));
    }
    for (flags, kind) in ALL
        .into_iter()
        .flat_map(|flags| KINDS.map(|kind| (flags, kind)))
    {
        let install = || install(libc::SIGUSR1, handler, flags);
        steps_after(
            "stepped::handlers::one",
            &named(flags),
            kind,
            install,
            || expect(1, || raise(libc::SIGUSR1)),
        );
    }
}

/// Another signal comes in a handler, and the same one where that is not deferred.
#[test]
fn nested() {
    extern "C" fn outer(signal: i32) {
        static DEPTH: AtomicU64 = AtomicU64::new(0);
        handled(signal, || {
            raise(libc::SIGUSR2);
            if FLAGS.load(Relaxed) & libc::SA_NODEFER != 0 && DEPTH.fetch_xor(1, Relaxed) == 0 {
                raise(signal);
            }
        });
    }
    extern "C" fn inner(signal: i32) {
        handled(signal, || _ = black_box(signal));
    }
    for (flags, kind) in ALL
        .into_iter()
        .flat_map(|flags| KINDS.map(|kind| (flags, kind)))
    {
        let first = || {
            install(libc::SIGUSR1, outer, flags);
            install(libc::SIGUSR2, inner, flags);
        };
        let sequence = || {
            let times = if FLAGS.load(Relaxed) & libc::SA_NODEFER != 0 {
                4
            } else {
                2
            };
            expect(times, || raise(libc::SIGUSR1));
        };
        steps_after(
            "stepped::handlers::nested",
            &named(flags),
            kind,
            first,
            sequence,
        );
    }
}

/// The program's own handler of SIGSEGV, to which the library's passes on faults that are not its
/// own: it commits memory on its first use.
#[test]
fn of_faults() {
    const PAGE: usize = 4096;
    static MEMORY: AtomicPtr<u64> = AtomicPtr::new(null_mut());
    fn allow(access: i32) {
        // SAFETY: a page that no other thread uses.
        let done = unsafe { libc::mprotect(MEMORY.load(Relaxed).cast(), PAGE, access) };
        assert_eq!(done, 0);
    }
    extern "C" fn handler(signal: i32) {
        handled(signal, || allow(libc::PROT_READ | libc::PROT_WRITE));
    }
    for (flags, kind) in ALL
        .into_iter()
        .flat_map(|flags| KINDS.map(|kind| (flags, kind)))
    {
        let first = || {
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping at an address of the kernel's choice.
            let memory = unsafe { libc::mmap(null_mut(), PAGE, libc::PROT_NONE, private, -1, 0) };
            assert_ne!(memory, libc::MAP_FAILED);
            MEMORY.store(memory.cast(), Relaxed);
            install(libc::SIGSEGV, handler, flags);
        };
        let touch = || {
            let memory = MEMORY.load(Relaxed);
            // SAFETY: the handler makes it a page that can be written.
            unsafe { memory.write_volatile(11) };
            // SAFETY: as above.
            assert_eq!(unsafe { memory.read_volatile() }, 11);
        };
        let sequence = move || {
            expect(1, touch);
            allow(libc::PROT_NONE);
        };
        steps_after(
            "stepped::handlers::of_faults",
            &named(flags),
            kind,
            first,
            sequence,
        );
    }
}
