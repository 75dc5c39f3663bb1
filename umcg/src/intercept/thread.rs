//! Calls that make and end threads and processes.
//!
//! They are made at home: a child inherits mask, affinity, credentials and much else from the
//! kernel thread that makes it.

use super::guest::{self, Guest};
use super::stage::{Stage, answered};
use super::stats::CountKind;
use super::{homes, memory, outsider, report, run, signal, state, words};
use crate::rt::engine::guest as engine;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use umcg_core::context::lock::Lock;
use umcg_core::context::way::nap;
use umcg_core::raw::Adopted;
use umcg_core::{call, fork, kernel_thread, raw};
use umcg_intercept::Call;

const THREAD: u64 = libc::CLONE_THREAD as u64;
const SHARES_MEMORY: u64 = libc::CLONE_VM as u64;
const SETS_STORAGE: u64 = libc::CLONE_SETTLS as u64;
const SUSPENDS: u64 = libc::CLONE_VFORK as u64;

/// The parts of clone(2) and clone3(2) that count here.
#[derive(Clone, Copy)]
struct Clone {
    flags: u64,
    stack: u64,
    storage: u64,
    /// The word of the child's id that the kernel clears at its end.
    child_word: u64,
}

impl Clone {
    fn of(call: &Call) -> Option<Clone> {
        let [first, second, _, fourth, fifth, _] = call.arguments;
        match call.number as libc::c_long {
            libc::SYS_clone => Some(Clone {
                flags: first as u64,
                stack: second as u64,
                storage: fifth as u64,
                child_word: fourth as u64,
            }),
            libc::SYS_clone3 => {
                // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
                let arguments = memory::read::<[u64; 8]>(first)?;
                Some(Clone {
                    flags: arguments[0],
                    stack: arguments[5],
                    storage: arguments[7],
                    child_word: arguments[2],
                })
            }
            libc::SYS_vfork => Some(Clone {
                flags: SHARES_MEMORY | SUSPENDS,
                stack: 0,
                storage: 0,
                child_word: 0,
            }),
            libc::SYS_fork => Some(Clone {
                flags: 0,
                stack: 0,
                storage: 0,
                child_word: 0,
            }),
            _ => None,
        }
    }

    /// Whether the child goes on with the maker's stack in the maker's memory, or on another one:
    /// then nothing of ours may be on the stack.
    fn is_elsewhere(self) -> bool {
        self.stack != 0 || self.flags & SHARES_MEMORY != 0
    }
}

/// Whether a call of a thread of ours must leave nothing on the stack.
pub(super) fn returns_elsewhere(call: &Call) -> bool {
    match call.number as libc::c_long {
        // Its arguments are not looked at where no fault may be caught: clone3 comes from the C
        // library, which uses it for threads.
        libc::SYS_clone3 | libc::SYS_vfork => true,
        libc::SYS_clone => Clone::of(call).is_some_and(Clone::is_elsewhere),
        _ => false,
    }
}

pub(super) fn begin(guest: &'static Guest, call: &mut Call) -> Stage {
    match call.number as libc::c_long {
        libc::SYS_exit => {
            end_away(guest);
            Stage::Exit
        }
        libc::SYS_clone3 if let_begin(guest, call) => Stage::Return,
        libc::SYS_exit_group => {
            report::print();
            Stage::Native
        }
        libc::SYS_execve | libc::SYS_execveat => Stage::Exec,
        _ => match Clone::of(call) {
            Some(clone) if clone.is_elsewhere() => Stage::Tail,
            Some(_) => Stage::Fork,
            None => Stage::Home, // a bad pointer, as the kernel will say
        },
    }
}

/// Makes the thread at a home that is idle. False if the kernel is to make it.
fn let_begin(guest: &'static Guest, call: &mut Call) -> bool {
    let made = homes::make(guest, call);
    made.is_some() && answered(call, made) == Stage::Return
}

/// Ends a guest that a server runs, unless it has to end at home.
fn end_away(guest: &'static Guest) {
    let ends_here = guest::is_away()
        && !guest.has_signal()
        && !HAS_MAIN_ENDED.load(Relaxed)
        && !homes::ends_at_home(guest)
        // A signal that the home has taken off the process's queue must be back before the joiner
        // goes on: at home the guest sees to that.
        && guest::adopted().is_some_and(Adopted::looks_for_none);
    if ends_here && !homes::is_first(guest) {
        homes::end(guest, false);
    }
}

/// The guest is at home and open. The kernel makes its child next. False if there is no memory for
/// the child's state.
pub(super) fn before_tail(guest: &'static Guest, call: &Call) -> bool {
    state::errno_kept(|| prepare_for_child(guest, call))
}

fn prepare_for_child(guest: &'static Guest, call: &Call) -> bool {
    let Some(clone) = Clone::of(call) else {
        return true;
    };
    if clone.flags & THREAD != 0 {
        if clone.flags & SETS_STORAGE != 0 {
            prepare(call);
            let Some(child) = Guest::make() else {
                return false;
            };
            guest.counts.count(CountKind::Thread);
            let storage = clone.storage as usize;
            let clears = clone.flags & libc::CLONE_CHILD_CLEARTID as u64 != 0;
            let word = if clears { clone.child_word as usize } else { 0 };
            homes::note_child(guest, child, storage, word);
            // SAFETY: the storage of a thread that does not run yet.
            unsafe { child.begin_with(storage) };
        }
    } else if clone.flags & SHARES_MEMORY != 0 && clone.flags & SETS_STORAGE == 0 {
        guest.share_with_child(clone.flags & SUSPENDS == 0);
    }
    true
}

pub(super) fn before_fork() {
    fork::prepare();
}

/// # Safety of memory
/// The child is one thread, and intercepts nothing from here on.
pub(super) fn after_fork(in_child: bool) {
    let kept = guest::adopted().map(|adopted| adopted.is_closed().then(|| adopted.mask()));
    // SAFETY: `before_fork` was called before, by this thread or the one that it copies.
    unsafe { fork::after(in_child) };
    if in_child {
        guest::stand_aside();
        // Its threads wait in the kernel.
        outsider::set_uncounted(true);
        if let Some(kept) = kept {
            signal::forget_go(kept);
        }
    }
}

/// The process's first thread has ended.
static HAS_MAIN_ENDED: AtomicBool = AtomicBool::new(false);

/// The guest, at home and open, ends its thread. Returns if the kernel is to end it next.
pub(super) fn exit(guest: &'static Guest, call: &Call) {
    let (process, thread) = ids();
    if process == thread {
        HAS_MAIN_ENDED.store(true, Relaxed);
        homes::close();
    }
    // The C library ends a process with its last thread, and counts ours as well.
    if HAS_MAIN_ENDED.load(Relaxed) && is_last(process) {
        guest.leave_closed();
        signal::open_for_exit(guest.mask_before.load(Relaxed));
        // SAFETY: as the C library would do it.
        unsafe { libc::exit(0) };
    }
    if process == thread {
        look_for_end(process, guest.mask_before.load(Relaxed));
    } else {
        let is_plain = guest::adopted().is_none();
        if !is_plain || (homes::has_room(guest) && run::adopt(guest, call)) {
            homes::end(guest, is_plain);
        }
    }
    words::leave(guest);
    if let Some(adopted) = guest::adopted() {
        raw::give_back_signals();
        // SAFETY: the calling worker, which is at home.
        unsafe { engine::end(adopted) };
    }
    guest.end();
}

fn ids() -> (u32, u32) {
    // SAFETY: no arguments.
    let process = unsafe { call(libc::SYS_getpid, [0; 6]) } as u32;
    // SAFETY: no arguments.
    let thread = unsafe { call(libc::SYS_gettid, [0; 6]) } as u32;
    (process, thread)
}

/// The end of a process whose first thread has ended.
struct ProcessEnd {
    /// Threads that are about to end, or have ended.
    ending: Vec<u32>,
    /// A thread ends the process.
    is_begun: bool,
}

static PROCESS_END: Lock<ProcessEnd> = Lock::new(ProcessEnd {
    ending: Vec::new(),
    is_begun: false,
});

/// The library's first threads. They may have begun so late that they have no names yet.
static LIBRARY: Lock<Vec<u32>> = Lock::new(Vec::new());

/// Begins the runtime, for the program's second thread, and notes which threads that has made: all
/// but the caller.
fn prepare(call: &Call) {
    if run::is_begun() {
        return;
    }
    run::prepare(call);
    state::preserved(call.keeps_vectors(), note_library);
}

fn note_library() {
    let (_, caller) = ids();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return;
    };
    let numbers = threads.flatten().filter_map(|thread| number(&thread));
    LIBRARY.lock().extend(numbers.filter(|one| *one != caller));
}

/// The thread's id, by the name of its folder.
fn number(thread: &DirEntry) -> Option<u32> {
    thread.file_name().to_str()?.parse().ok()
}

/// More by a constant than the threads that the kernel has.
fn count_threads() -> u64 {
    std::fs::metadata("/proc/self/task").map_or(0, |folder| folder.nlink())
}

/// The threads of the program that the kernel has, but for the process's first one, of this id.
/// None if it does not say. Threads of the library's are noted, or have names that begin so.
fn threads_besides(process: u32) -> Option<Vec<u32>> {
    const OURS: &[u8] = b"umcg-";
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let library = LIBRARY.lock();
    let is_of_program = |thread: &DirEntry| {
        !std::fs::read(thread.path().join("comm"))
            .unwrap_or_default()
            .starts_with(OURS)
    };
    let numbers = threads
        .flatten()
        .filter(is_of_program)
        .filter_map(|thread| number(&thread));
    let is_counted = |one: &u32| *one != process && !library.contains(one);
    Some(numbers.filter(is_counted).collect())
}

/// Whether no other thread of the program is left: of those that end at once, the last one says so.
/// The process's first thread, of this id, has ended or is the caller.
fn is_last(process: u32) -> bool {
    let (_, caller) = ids();
    let mut end = PROCESS_END.lock();
    if end.is_begun {
        return false;
    }
    end.ending.push(caller);
    let Some(threads) = threads_besides(process) else {
        return false;
    };
    end.ending.retain(|thread| threads.contains(thread));
    end.is_begun = threads.iter().all(|thread| end.ending.contains(thread));
    end.is_begun
}

/// The process's first thread ends, and is not the last one. Threads that began to end before may
/// not have seen that, and their homes may be on their way out: none of them looks whether it is
/// the last one. So a thread of the library's looks from time to time, at first often.
fn look_for_end(process: u32, mask: u64) {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(1);
    /// One look in so many is made also if there are as many threads as before.
    const EACH: u32 = 16;
    const PAUSE: u32 = 20_000;
    let looks = move || {
        LIBRARY.lock().push(ids().1);
        let mut count = 0;
        for look in 0u32.. {
            std::thread::sleep((FIRST * (1 << look.min(10))).min(LONGEST));
            // A list of the threads takes a descriptor for a moment, and the program sees which
            // ones are free.
            let is_same = std::mem::replace(&mut count, count_threads()) == count;
            if is_same && look % EACH != 0 {
                continue;
            }
            let mut end = PROCESS_END.lock();
            if end.is_begun {
                return;
            }
            if threads_besides(process).is_some_and(|threads| threads.is_empty()) {
                end.is_begun = true;
                break;
            }
        }
        signal::open_for_exit(mask);
        // SAFETY: as the C library would do it.
        unsafe { libc::exit(0) };
    };
    // Without such a thread: the others mostly see to the end.
    let noted = LIBRARY.lock().len();
    let _end = PROCESS_END.lock(); // until that thread is known as the library's
    if umcg_core::signal::without(|| kernel_thread::spawn("umcg-last", looks)).is_ok() {
        while LIBRARY.lock().len() == noted {
            nap(PAUSE);
        }
    }
}
