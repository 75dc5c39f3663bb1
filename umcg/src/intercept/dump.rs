//! Requests for the list of threads: by `umcg dump`, from another process, and by SIGQUIT.
//!
//! ```text
//!   umcg dump                                   the process
//!   finds the file of memory in /proc/PID/fd,   made with the runtime, near the limit of
//!   reads the courier's thread id there         descriptors; nothing else is there unless asked
//!   queues SIGURG for the courier,   ------->   the handler of the tick notes the number and
//!   with a number of its own                    rouses the courier
//!   looks at the file until it has   <-------   the courier writes the list, and the number last
//!   that number
//! ```
//!
//! Both need the same user and no more: neither attaches to the process. The signal goes to the
//! courier, which sleeps for nothing but such tasks: no call of the program is cut short by it.
//!
//! Rejected: a socket (the courier would have to wait for it beside its futex, and a namespace of
//! networks may lie between), a descriptor that is made when asked for (a thread of the program may
//! rely on the number that comes next; files of `/proc` that the list is made of take one for
//! microseconds, all the same), and real-time signals (all of them are the program's).

use super::out;
use crate::io::driver::place;
use rustix::fd::IntoRawFd;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ptr::from_ref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use umcg_core::{call, raw};

// The head of the file, as `cli/src/dump` knows it. In bytes:
//    0 the magic bytes, 8 the version
//   12 the process that answers (a child of a fork has the same file), 16 the courier
//   24 the number of the request that is answered, 32 the length of the answer
//   64 the answer
const MAGIC: [u8; 8] = *b"umcgdump";
const VERSION: u32 = 1;
const ANSWERED: usize = 24;
const TEXT: usize = 64;

/// The file; -1 for none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The courier takes requests.
static HAS_COURIER: AtomicBool = AtomicBool::new(false);
/// The last request from outside; 0 for none.
static REQUEST: AtomicU64 = AtomicU64::new(0);
/// How many lists were asked for by SIGQUIT, and how many are printed.
static QUITS: AtomicU32 = AtomicU32::new(0);
static PRINTED: AtomicU32 = AtomicU32::new(0);

/// Makes the file, while no thread of the program waits for the next number of a descriptor.
/// Without the file there is no `umcg dump`. `hears`: requests come to [`request`].
pub(super) fn prepare(hears: bool) {
    let file = memfd_create("umcg-dump", MemfdFlags::CLOEXEC);
    let placed = file.ok().and_then(|file| place::place(file).ok());
    if let Some(file) = placed.filter(|_| hears) {
        // Kept for the life of the process.
        FILE.store(file.into_raw_fd(), Relaxed);
    }
}

/// Called by the courier, before its first task.
pub(super) fn begin_courier() {
    HAS_COURIER.store(true, Relaxed);
    let file = FILE.load(Relaxed);
    if file < 0 {
        return;
    }
    // SAFETY: no arguments.
    let courier = unsafe { call(libc::SYS_gettid, [0; 6]) } as u32;
    let mut head = Vec::with_capacity(TEXT);
    head.extend(MAGIC);
    for word in [VERSION, std::process::id(), courier, 0] {
        head.extend(word.to_ne_bytes());
    }
    head.resize(TEXT, 0); // no request is answered
    out::write(file, &head, Some(0));
}

/// A request from another process, with its number. In a signal handler.
pub(super) fn request(number: usize) {
    REQUEST.store(number as u64, Relaxed);
    raw::rouse_courier();
}

/// The program got SIGQUIT: prints the list. Called in the handler, at home; returns when it is
/// printed, or after some time.
pub(super) fn quit() {
    const PATIENCE: libc::time_t = 5;
    if !HAS_COURIER.load(Relaxed) {
        return;
    }
    let number = QUITS.fetch_add(1, Relaxed).wrapping_add(1);
    raw::rouse_courier();
    let time = libc::timespec {
        tv_sec: PATIENCE,
        tv_nsec: 0,
    };
    let time = from_ref(&time).expose_provenance();
    loop {
        // ORDERING(printed.2): Acquire, pairs with printed.1.
        let printed = PRINTED.load(Acquire);
        if printed.wrapping_sub(number) as i32 >= 0 {
            return;
        }
        let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let arguments = [word(), operation, printed as usize, time, 0, 0];
        // SAFETY: a word that stays, and a time.
        let result = unsafe { call(libc::SYS_futex, arguments) };
        if result == -(libc::ETIMEDOUT as isize) {
            return;
        }
    }
}

/// The word that threads wait for in [`quit`].
pub(super) fn word() -> usize {
    PRINTED.as_ptr().expose_provenance()
}

/// The courier's part: answers what was asked for. `list` makes the list.
pub(super) fn serve(list: impl Fn() -> String) {
    let quits = QUITS.load(Relaxed);
    if PRINTED.load(Relaxed) != quits {
        print(&list());
        // ORDERING(printed.1): Release, pairs with printed.2.
        PRINTED.store(quits, Release);
        let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
        let arguments = [word(), operation, i32::MAX as usize, 0, 0, 0];
        // SAFETY: wakes only.
        unsafe { call(libc::SYS_futex, arguments) };
    }
    let request = REQUEST.swap(0, Relaxed);
    let file = FILE.load(Relaxed);
    if request != 0 && file >= 0 {
        answer(file, request, &list());
    }
}

/// By one write, so that it is not mixed with other output.
fn print(list: &str) {
    let text = format!("umcg: process {}: {list}", std::process::id());
    out::write(libc::STDERR_FILENO, text.as_bytes(), None);
}

fn answer(file: i32, request: u64, list: &str) {
    let head = |request: u64, length: usize| {
        let words = [request, length as u64].map(u64::to_ne_bytes);
        out::write(file, words.as_flattened(), Some(ANSWERED))
    };
    // A reader of the answer before sees that it is gone.
    if head(0, 0) && out::write(file, list.as_bytes(), Some(TEXT)) {
        head(request, list.len());
    }
}
