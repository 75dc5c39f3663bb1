//! The maker: one kernel thread that makes helpers.
//!
//! A thread inherits affinity, nice value and scheduling class from the one that makes it. A helper
//! serves all runtimes, so it has to be as the process is, and not as the first server was that needed
//! one: pinned, or of low priority. The process's are those of its main thread
//! ([`identity::process`](crate::identity::process)). Raising a nice value takes a privilege, so the
//! maker is made early, when a runtime starts, before any of its servers has changed its own.
//!
//! It also sees to it that the bound does not stop the program for good: see `pool`.

use super::super::clock;
use super::{main as helper_main, pool};
use crate::identity::process;
use crate::sync::{AtomicU32, futex_wait, futex_wake};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use umcg_context::lock::HoldLock;

/// Nanoseconds after which a helper is made though there are enough, if none has come back.
pub(super) const PATIENCE: u64 = 10_000_000;

/// Whether there is a maker.
static STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const BEGINS: u32 = 1;
const THERE: u32 = 2;

/// Counts calls: what the maker sleeps on.
static CALLED: AtomicU32 = AtomicU32::new(0);
/// Those who wait for a helper to be made.
static REQUESTS: HoldLock<AtomicPtr<Request>> = HoldLock::new(AtomicPtr::new(null_mut()));

/// On the stack of the one that waits.
struct Request {
    answer: AtomicU32,
    next: *mut Request,
}

const MADE: u32 = 1;
const REFUSED: u32 = 2;

/// Sees to it that there is a maker. False where the system gives no thread.
pub(crate) fn ensure() -> bool {
    loop {
        match STATE.compare_exchange(NONE, BEGINS, Relaxed, Relaxed) {
            Ok(_) => {
                let made = std::thread::Builder::new().name("umcg-maker".into()).spawn(main).is_ok();
                STATE.store(if made { THERE } else { NONE }, Relaxed);
                futex_wake(&STATE, u32::MAX >> 1);
                return made;
            }
            Err(THERE) => return true,
            Err(state) => {
                let _ = futex_wait(&STATE, state, u64::MAX);
            }
        }
    }
}

/// Has the maker look after workers that wait. False if there is none.
pub(super) fn call() -> bool {
    let there = ensure();
    CALLED.fetch_add(1, Relaxed);
    futex_wake(&CALLED, 1);
    there
}

/// Has a helper made, and waits for that. False where the system gives no thread.
pub(super) fn make() -> bool {
    if !ensure() {
        return false;
    }
    let mut request = Request { answer: AtomicU32::new(0), next: null_mut() };
    let requests = REQUESTS.lock();
    request.next = requests.load(Relaxed);
    let request = &raw mut request;
    requests.store(request, Relaxed);
    drop(requests);
    call();
    // SAFETY: it is on this stack; the maker does not look at it any more once it has answered.
    let answer = unsafe { &(*request).answer };
    loop {
        // ORDERING(maker.2): Acquire, pairs with maker.1.
        match answer.load(Acquire) {
            0 => {
                let _ = futex_wait(answer, 0, u64::MAX);
            }
            answer => return answer == MADE,
        }
    }
}

/// Takes the last request.
fn next_request() -> Option<*mut Request> {
    let requests = REQUESTS.lock();
    let request = requests.load(Relaxed);
    // SAFETY: null, or on the stack of one that waits for an answer.
    requests.store(unsafe { request.as_ref() }?.next, Relaxed);
    Some(request)
}

fn make_helper() -> bool {
    process::follow();
    std::thread::Builder::new().name("umcg-helper".into()).spawn(helper_main).is_ok()
}

/// The body of its kernel thread, which is as long as the process is.
fn main() {
    // How often a helper had come back when workers began to wait, and when that is too long.
    let mut since: Option<(u64, u64)> = None;
    loop {
        // ORDERING: none is needed: the lists have locks, and the count is read before them.
        let called = CALLED.load(Relaxed);
        while let Some(request) = next_request() {
            let answer = if make_helper() { MADE } else { REFUSED };
            // SAFETY: as in `next_request`.
            let word = unsafe { &raw const (*request).answer };
            // ORDERING(maker.1): Release, pairs with maker.2: the request is its owner's again.
            // SAFETY: likewise; this is the last look at it.
            unsafe { (*word).store(answer, Release) };
            wake_at(word);
        }
        let now = clock();
        since = pool::waits_since().map(|came_back| match since {
            Some((before, deadline)) if before == came_back => (before, deadline),
            _ => (came_back, now + PATIENCE),
        });
        let deadline = since.map_or(u64::MAX, |(_, deadline)| deadline);
        if now >= deadline {
            pool::exceed(make_helper);
            since = None;
        } else {
            let _ = futex_wait(&CALLED, called, deadline);
        }
    }
}

/// Wakes the one that waits at a word that may be no more: then nobody, or somebody who looks again.
fn wake_at(word: *const AtomicU32) {
    const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel does not touch the word, whose address alone counts.
    unsafe { libc::syscall(libc::SYS_futex, word, WAKE, 1) };
}

pub(super) fn before_fork() {
    REQUESTS.take();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(super) unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let requests = unsafe { REQUESTS.adopt() };
    if in_child {
        requests.store(null_mut(), Relaxed);
        STATE.store(NONE, Relaxed);
    }
}
