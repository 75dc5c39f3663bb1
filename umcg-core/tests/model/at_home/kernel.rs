//! The kernel's part: signals that are pending, masks, waits, and the end of a thread.

use shuttle::lazy_static;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::yield_now;
use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::ptr::with_exposed_provenance;

/// The id of the process. A signal may wait for it, or for one of the threads above it.
pub(crate) const PROCESS: u32 = 1;
const THREADS: usize = 4;

lazy_static! {
    static ref PENDING: Mutex<[u64; THREADS]> = Mutex::new([0; THREADS]);
    static ref CHANGED: Condvar = Condvar::new();
    /// A thread has ended.
    static ref HAS_ENDED: AtomicBool = AtomicBool::new(false);
}

shuttle::thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
    /// The word that is cleared at the thread's end.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
    /// The signals that the thread blocks, and its handler of all of them.
    static MASK: Cell<u64> = const { Cell::new(0) };
    static HANDLER: Cell<Option<Handler>> = const { Cell::new(None) };
}

/// Gets the signal, and the mask that it has interrupted; returns the mask to go on with.
pub(crate) type Handler = fn(c_int, u64) -> u64;

/// What a thread that has ended unwinds with.
pub(crate) struct Ended;

/// Whether a thread has ended, and is not on its stack any more.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(SeqCst)
}

/// The calling thread has this id.
pub(crate) fn begin_thread(tid: u32) {
    TID.with(|own| own.set(tid));
}

pub(crate) const fn only(number: c_int) -> u64 {
    1 << (number - 1)
}

/// Sends a signal to a thread, or to the process.
pub(crate) fn send(to: u32, number: c_int) {
    PENDING.lock().unwrap()[to as usize] |= only(number);
    CHANGED.notify_all();
}

/// Takes a pending signal of these off the calling thread's queue, or the process's.
pub(crate) fn take_one(signals: u64) -> Option<(c_int, c_int)> {
    let mut pending = PENDING.lock().unwrap();
    take_of(&mut pending, signals)
}

fn take_of(pending: &mut [u64; THREADS], signals: u64) -> Option<(c_int, c_int)> {
    let own = TID.with(Cell::get);
    for (queue, code) in [(own, libc::SI_TKILL), (PROCESS, libc::SI_USER)] {
        let found = pending[queue as usize] & signals;
        if found != 0 {
            let number = found.trailing_zeros() as c_int + 1;
            pending[queue as usize] &= !only(number);
            return Some((number, code));
        }
    }
    None
}

/// As sigtimedwait, without a time.
pub(crate) fn wait_for(signals: u64, information: &mut MaybeUninit<libc::siginfo_t>) -> isize {
    let mut pending = PENDING.lock().unwrap();
    loop {
        if let Some((number, code)) = take_of(&mut pending, signals) {
            let known = information.as_mut_ptr();
            // SAFETY: room for it, zeroed.
            unsafe { (*known).si_code = code };
            return number as isize;
        }
        pending = CHANGED.wait(pending).unwrap();
    }
}

/// Signals come to the calling thread by this handler.
pub(crate) fn handle(handler: Handler) {
    HANDLER.with(|own| own.set(Some(handler)));
}

/// Sets the calling thread's mask. A handler may run just before, or right after.
pub(crate) fn set_mask(mask: u64) -> u64 {
    let_signals_in();
    let before = MASK.with(|own| own.replace(mask));
    let_signals_in();
    before
}

/// A place where signals come to the calling thread. All are blocked while a handler runs.
pub(crate) fn let_signals_in() {
    let Some(handler) = HANDLER.with(Cell::get) else {
        return;
    };
    yield_now();
    loop {
        let mask = MASK.with(Cell::get);
        let Some((number, _)) = take_one(!mask) else {
            return;
        };
        let next = handler(number, mask);
        MASK.with(|own| own.set(next));
    }
}

/// The action of each signal is a handler.
pub(crate) struct Action;

impl Action {
    pub(crate) fn ask_raw(_: c_int) -> usize {
        usize::MAX
    }
}

/// # Safety
/// As for the system call.
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, ..] = arguments;
    match number {
        libc::SYS_getpid => return PROCESS as isize,
        libc::SYS_tgkill => send(second as u32, third as c_int),
        libc::SYS_set_tid_address => ALIVE.with(|alive| alive.set(first)),
        libc::SYS_exit => {
            let alive: *const AtomicU32 = with_exposed_provenance(ALIVE.with(Cell::get));
            HAS_ENDED.store(true, SeqCst);
            // SAFETY: a word of the thread's home.
            unsafe { &*alive }.store(0, SeqCst);
            resume_unwind(Box::new(Ended));
        }
        libc::SYS_prctl | libc::SYS_set_robust_list => {}
        _ => unreachable!("{number}"),
    }
    0
}
