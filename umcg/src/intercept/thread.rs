//! Calls that make and end threads and processes.
//!
//! They are made at home: a child inherits mask, affinity, credentials and much else from the
//! kernel thread that makes it.

use super::guest::{self, Guest};
use super::stage::Stage;
use super::stats::CountKind;
use super::{memory, report, run, signal};
use crate::rt::engine::guest as engine;
use std::fs::DirEntry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_core::context::lock::Lock;
use umcg_core::{call, fork};
use umcg_intercept::Call;

const THREAD: u64 = libc::CLONE_THREAD as u64;
const SHARES_MEMORY: u64 = libc::CLONE_VM as u64;
const SETS_STORAGE: u64 = libc::CLONE_SETTLS as u64;

/// The parts of clone(2) and clone3(2) that count here.
#[derive(Clone, Copy)]
struct Clone {
    flags: u64,
    stack: u64,
    storage: u64,
}

impl Clone {
    fn of(call: &Call) -> Option<Clone> {
        let [first, second, .., fifth, _] = call.arguments;
        match call.number as libc::c_long {
            libc::SYS_clone => Some(Clone {
                flags: first as u64,
                stack: second as u64,
                storage: fifth as u64,
            }),
            libc::SYS_clone3 => {
                // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
                let arguments = memory::read::<[u64; 8]>(first)?;
                Some(Clone {
                    flags: arguments[0],
                    stack: arguments[5],
                    storage: arguments[7],
                })
            }
            libc::SYS_vfork => Some(Clone {
                flags: SHARES_MEMORY | libc::CLONE_VFORK as u64,
                stack: 0,
                storage: 0,
            }),
            libc::SYS_fork => Some(Clone {
                flags: 0,
                stack: 0,
                storage: 0,
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

pub(super) fn begin(_guest: &'static Guest, call: &Call) -> Stage {
    match call.number as libc::c_long {
        libc::SYS_exit => Stage::Exit,
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

/// The guest is at home and open. The kernel makes its child next.
pub(super) fn before_tail(guest: &'static Guest, call: &Call) {
    let Some(clone) = Clone::of(call) else { return };
    if clone.flags & THREAD != 0 {
        if clone.flags & SETS_STORAGE != 0 {
            run::prepare();
            guest.counts.count(CountKind::Thread);
            // SAFETY: the storage of a thread that does not run yet.
            unsafe { Guest::make().begin_with(clone.storage as usize) };
        }
    } else if clone.flags & SHARES_MEMORY != 0 {
        guest.begin_vfork();
    }
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
        if let Some(kept) = kept {
            signal::forget_go(kept);
        }
    }
}

/// The guest, at home and open, ends its thread next.
pub(super) fn exit(guest: &'static Guest) {
    static HAS_MAIN_ENDED: AtomicBool = AtomicBool::new(false);
    let (process, thread) = ids();
    if process == thread {
        HAS_MAIN_ENDED.store(true, Relaxed);
    }
    // The C library ends a process with its last thread, and counts ours as well.
    if HAS_MAIN_ENDED.load(Relaxed) && is_last(process) {
        guest.leave_closed();
        // SAFETY: as the C library would do it.
        unsafe { libc::exit(0) };
    }
    if let Some(adopted) = guest::adopted() {
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

/// Threads that are about to end, or have ended. Kept once the process's first one has ended.
static ENDING: Lock<Vec<u32>> = Lock::new(Vec::new());

/// Whether no other thread of the program is left: of those that end at once, the last one says so.
/// The process's first thread, of this id, has ended or is the caller. Threads of the library's
/// have names that begin so.
fn is_last(process: u32) -> bool {
    const OURS: &[u8] = b"umcg-";
    let (_, caller) = ids();
    let mut ending = ENDING.lock();
    ending.push(caller);
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    let threads: Vec<_> = threads.flatten().collect();
    let number = |thread: &DirEntry| thread.file_name().to_str()?.parse::<u32>().ok();
    let numbers: Vec<u32> = threads.iter().filter_map(number).collect();
    ending.retain(|thread| numbers.contains(thread));
    threads.iter().all(|thread| {
        let name = std::fs::read(thread.path().join("comm")).unwrap_or_default();
        let has_ended =
            |number: u32| number == process || number == caller || ending.contains(&number);
        name.starts_with(OURS) || number(thread).is_none_or(has_ended)
    })
}
