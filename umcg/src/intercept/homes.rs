//! The pool of homes: kernel threads whose guests have ended, for guests to come.
//!
//! ```text
//!   OWNED --end--> ENDING --finish--> IDLE --make--> OWNED
//!                     '--------------- | --retire--> RETIRED
//! ```
//!
//! A guest that ends leaves its stack for good. The party that then has the right to run its worker
//! *finishes*: a step on a server, or for a guest that ended at home the courier. It clears the
//! word of the thread's id, after which the stack and the storage may be gone, and gives the home
//! to the pool or retires it. A clone3 of the C library for a thread takes an idle home, and the
//! child begins on a server: two threads of a create and join never enter the kernel.
//!
//! Invariants H1 to H6: docs/protocols/run.md.
//!
//! Rejected: *children that begin at home*, natively. To wake the home costs as much as half of a
//! clone. Rejected, too: *a reset of all that a thread may have changed*. It takes a dozen calls on
//! the home thread, and new kernels add more; see `attributes.rs`.

use super::guest::{self, Guest};
use super::home::HomeRight;
use super::notes::Notes;
use super::pool::{Idle, Pool};
use super::stats::CountKind;
use super::{cpu_time, memory, robust, signal, words};
use crate::futex::kernel::single;
use crate::rt::engine::guest as engine;
use crate::rt::engine::server::{self, ServerState};
use crate::rt::task::Task;
use crate::rt::task::runnable::Runnable;
use crate::rt::time as clock;
use std::ptr::{from_ref, null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering::*};
use umcg_core::context::local;
use umcg_core::context::way::nap;
use umcg_core::{call as make_call, raw};
use umcg_intercept::{Call, begin_child, clear_extended, clear_x87};

/// The homes without a guest.
static POOL: Pool = Pool::new();
/// Guests that have ended at home, for the courier; null for a free place.
static ENDED: [AtomicPtr<Task>; 64] = [const { AtomicPtr::new(null_mut()) }; 64];

/// The name at this address.
pub(super) fn read_name(at: usize) -> Option<[u64; 2]> {
    let mut name = [0u8; 16];
    for (index, byte) in name[..15].iter_mut().enumerate() {
        let word = umcg_core::reach::load((at + index) & !3)?;
        *byte = (word >> (8 * ((at + index) & 3))) as u8;
        if *byte == 0 {
            break;
        }
    }
    let half = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| name[at + index]));
    Some([half(0), half(8)])
}

/// The guest, at home, is about to make a thread by the kernel: `child`, with this storage and
/// this word for its id, or none.
pub(super) fn note_child(guest: &Guest, child: &'static Guest, storage: usize, word: usize) {
    let mut name = [0u64; 2];
    let at = (&raw mut name).expose_provenance();
    // SAFETY: room for 16 bytes.
    unsafe {
        make_call(
            libc::SYS_prctl,
            [libc::PR_GET_NAME as usize, at, 0, 0, 0, 0],
        )
    };
    guest.home.name.set(name);
    child.inherit_mask(guest);
    child.home.begin(&guest.home, storage);
    child.home.is_spoilt.store(is_spoilt(guest), Relaxed);
    let has_own_state = guest.home.has_own_state.load(Relaxed);
    child.home.has_own_state.store(has_own_state, Relaxed);
    if word != 0 {
        words::enter(child, word);
    }
    raw::reclaim_homes();
}

/// Whether children of the calling guest inherit other things than those of the program's first
/// thread.
fn is_spoilt(guest: &Guest) -> bool {
    let is_changed = |adopted: raw::Adopted| adopted.worker().is_changed();
    guest.home.is_spoilt.load(Relaxed) || guest::adopted().is_some_and(is_changed)
}

/// The arguments of a clone3 for a thread of the C library's.
struct Thread {
    child_word: usize,
    parent_word: usize,
    stack: usize,
    storage: usize,
}

impl Thread {
    fn of(call: &Call) -> Option<Thread> {
        const BYTES: usize = size_of::<[u64; 11]>();
        const STACK: u64 = 16 << 10;
        const FLAGS: i32 = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM
            | libc::CLONE_SETTLS
            | libc::CLONE_PARENT_SETTID
            | libc::CLONE_CHILD_CLEARTID;
        let [at, bytes, ..] = call.arguments;
        if call.number as libc::c_long != libc::SYS_clone3 || bytes != BYTES {
            return None;
        }
        // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
        let words = memory::read::<[u64; 11]>(at)?;
        let [
            flags,
            _,
            child_word,
            parent_word,
            signal,
            low,
            size,
            storage,
            more @ ..,
        ] = words;
        let has_more = more != [0; 3];
        let is_plain = flags == FLAGS as u64 && signal == 0 && size >= STACK && !has_more;
        is_plain.then_some(Thread {
            child_word: child_word as usize,
            parent_word: parent_word as usize,
            stack: low.wrapping_add(size) as usize,
            storage: storage as usize,
        })
    }
}

/// Makes the thread that the call asks for, if there is a home for it. Returns its id.
pub(super) fn make(guest: &'static Guest, call: &Call) -> Option<isize> {
    if !POOL.has_any() || is_spoilt(guest) {
        return None;
    }
    let thread = Thread::of(call)?;
    // Until the child begins.
    let way = POOL.way();
    let idle = way.take(guest.home.name.get(), thread.storage)?;
    // SAFETY: the call that the hook got.
    let first = unsafe { call.child(thread.stack) }.into_words();
    let Some(argument) = put_first(thread.stack, first) else {
        way.put(idle);
        return None;
    };
    let Some(child) = Guest::make() else {
        way.put(idle);
        return None;
    };
    child.home.begin(&guest.home, thread.storage);
    child.home.is_adopted.store(true, Relaxed);
    child.home.is_later.store(true, Relaxed);
    child.home.is_fresh.store(true, Relaxed);
    child.home.is_new.store(true, Relaxed);
    child.home.told.store(idle.told, Relaxed);
    words::enter(child, thread.child_word);
    let worker = idle.home.task().worker();
    let tid = worker.home_tid();
    child.begin_away(worker, tid);
    child.enter();
    words::store(thread.parent_word, tid);
    guest.counts.count(CountKind::Thread);
    let start = raw::HomeStart {
        id: from_ref(idle.home.task()).addr() as u64,
        thread_pointer: thread.storage,
        guest: child.as_word(),
        mask: signal::mask(),
        top: with_exposed_provenance_mut(argument),
        entry: enter,
        argument: with_exposed_provenance_mut(argument),
    };
    // SAFETY: the pool gave the right to the worker, and the C library storage and stack.
    unsafe { engine::begin_again(idle.home.into_task(), &start) };
    Some(tid as isize)
}

/// Puts the words near the top of the stack, below the first frames of the thread.
fn put_first(stack: usize, words: [u64; 9]) -> Option<usize> {
    const BELOW: usize = 512;
    let at = stack.checked_sub(BELOW)? & !63;
    memory::write(at, words).then_some(at)
}

/// The first flow of a thread, on its own stack. Until then the guest is inside: the step of the
/// worker that left for it runs with its storage, and may make calls by the C library.
unsafe extern "C" fn enter(first: *mut ()) -> ! {
    local::set_holds(0);
    // The flow that was here before may have left values.
    // SAFETY: nothing of this flow is in registers yet.
    unsafe { clear_extended() };
    if let Some(guest) = Guest::current() {
        guest.leave_closed();
    }
    let first = with_exposed_provenance(first.expose_provenance());
    // SAFETY: `make` has put the words there.
    unsafe { begin_child(first) }
}

/// Whether the guest is the process's first thread, or one that is not known.
pub(super) fn is_first(guest: &Guest) -> bool {
    guest.home.storage.load(Relaxed) == 0
}

/// Whether the guest has to be at home to end: there it gets back the name that it had.
pub(super) fn ends_at_home(guest: &Guest) -> bool {
    guest.home.is_renamed() && !guest.home.is_spoilt.load(Relaxed)
}

/// The calling guest ends. `was_plain`: it has just been adopted for that. Returns if it is none,
/// and the kernel is to end it.
pub(super) fn end(guest: &'static Guest, was_plain: bool) {
    let Some(adopted) = guest::adopted() else {
        return;
    };
    let home = &guest.home;
    let inherits = robust::walk(
        home.robust.load(Relaxed),
        adopted.tid(),
        home.storage.load(Relaxed),
    );
    let is_unlike_new = inherits
        || [&home.is_spoilt, &home.has_stack, &home.inherits]
            .iter()
            .any(|mark| mark.load(Relaxed))
        || has_worked(home, adopted.tid())
        // A plain guest's signals were not followed.
        || (was_plain && has_pending());
    let is_usable = !is_unlike_new;
    if !was_plain && !adopted.is_away() {
        raw::give_back_signals();
    }
    if is_usable && home.is_renamed() && !adopted.is_away() {
        restore_name(home);
    }
    home.keeps.store(is_usable && !home.is_renamed(), Relaxed);
    let task = engine::task_of(adopted.worker());
    engine::set_word(task, guest.as_word());
    // The flow that goes on here finds the x87 clean, as a call would have left it.
    clear_x87();
    match server::running() {
        Some(running) => running.suspend(ended_away),
        // SAFETY: the caller is that worker, and at home.
        None => drop(unsafe { adopted.leave(ended_at_home) }),
    }
    // No party runs it again.
    std::process::abort();
}

/// Whether a plain guest that ends is worth adopting. Not while many end: they would wait for the
/// courier.
pub(super) fn has_room(guest: &Guest) -> bool {
    let is_free = |place: &AtomicPtr<Task>| place.load(Relaxed).is_null();
    ENDED.iter().any(is_free)
        && POOL.has_room()
        && !guest.home.is_spoilt.load(Relaxed)
        && guest.home.storage.load(Relaxed) != 0
}

/// Whether the home's clock of processor time stands too high for that of a new thread. It runs
/// only while a guest is at home.
fn has_worked(home: &Notes, tid: u32) -> bool {
    /// In nanoseconds.
    const LONG: u64 = 5_000_000;
    /// The processor time of a thread.
    const THREAD: u32 = 6;
    if home.is_later.load(Relaxed) && !home.was_home.load(Relaxed) {
        return false;
    }
    let mut time = [0u64; 2];
    let clock = (!tid << 3 | THREAD) as i32 as usize;
    let at = (&raw mut time).expose_provenance();
    // SAFETY: room for a time.
    let result = unsafe { make_call(libc::SYS_clock_gettime, [clock, at, 0, 0, 0, 0]) };
    result != 0 || time[0] != 0 || time[1] > LONG
}

fn has_pending() -> bool {
    let mut pending = u64::MAX;
    let at = (&raw mut pending).expose_provenance();
    let arguments = [at, size_of::<u64>(), 0, 0, 0, 0];
    // SAFETY: room for a set.
    unsafe { make_call(libc::SYS_rt_sigpending, arguments) };
    pending != 0
}

fn restore_name(home: &Notes) {
    let name = home.first_name.get();
    let at = from_ref(&name).expose_provenance();
    let arguments = [libc::PR_SET_NAME as usize, at, 0, 0, 0, 0];
    // SAFETY: a name that ends within its bytes.
    if unsafe { make_call(libc::SYS_prctl, arguments) } == 0 {
        home.name.set(name);
    }
}

/// The step of a guest that ended on a server.
fn ended_away(local: &ServerState, worker: Runnable) {
    finish(worker.into_task(), |word| single::wake_in_step(word, local));
}

/// The step of a guest that ended at home, with its storage: the joiner frees that, so the courier
/// does the rest.
fn ended_at_home(worker: raw::Worker) -> bool {
    const LONGEST_PAUSE: u32 = 50_000_000;
    let task = engine::task_of(worker);
    engine::note_departure(task);
    let mut pause = 10_000;
    loop {
        let free = |place: &&AtomicPtr<Task>| {
            let task = from_ref(task).cast_mut();
            // ORDERING(ended.1): Release, pairs with ended.2: all that the guest has done is seen.
            place
                .compare_exchange(null_mut(), task, Release, Relaxed)
                .is_ok()
        };
        if ENDED.iter().any(|place| free(&place)) {
            raw::rouse_courier();
            return true;
        }
        // Longer each time: the courier needs the processors.
        nap(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The courier's part.
pub(super) fn finish_ended() {
    for place in &ENDED {
        // ORDERING(ended.2): Acquire, pairs with ended.1.
        let task = place.swap(null_mut(), Acquire);
        // SAFETY: null, or a descriptor, which is never freed.
        if let Some(task) = unsafe { task.as_ref() } {
            finish(task, |word| {
                crate::futex::kernel::wake_all(word);
            });
        }
    }
    raw::reclaim_homes();
}

/// The guest's context is not used any more, and the caller has the right to its worker.
fn finish(task: &'static Task, wake: impl FnOnce(usize)) {
    // SAFETY: `end` has set it, to a state, which is never freed.
    let guest: &'static Guest = unsafe { &*engine::word_of(task).cast::<Guest>() };
    let home = &guest.home;
    let now = clock::now();
    let way = POOL.way();
    let idle = Idle {
        // SAFETY: passed on: the caller has the right, and the guest has ended.
        home: unsafe { HomeRight::of(task) },
        storage: home.storage.load(Relaxed),
        told: home.told.load(Relaxed),
        name: home.name.get(),
        since: now,
    };
    engine::count_end(task);
    if home.keeps.load(Relaxed) {
        cpu_time::note_end(task);
        way.put(idle);
    } else {
        idle.home.rest();
        idle.home.retire();
    }
    words::clear(guest, wake);
    words::leave(guest);
    guest.release();
    way.retire_aged(now);
}

/// No home is reused from here on. Waits until those without a guest have ended.
pub(super) fn close() {
    POOL.close();
}
