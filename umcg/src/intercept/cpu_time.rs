//! The processor time of threads: that of their kernel threads, and that on servers.
//!
//! The kernel counts for each kernel thread. A guest has used what its home has, and its part of
//! what each server has on which it ran. The servers' time is given to guests in two ways:
//!
//! - *Sampled*, from the start. Every 10 ms the watch gives what a server has used since the last
//!   time to the guest that runs there then: [`AT_A_TIME`] servers each time, in turn. The kernel
//!   counts user and system time of threads in the same manner. It costs servers nothing.
//! - *Exact*, from the first question on. At each turn a server gives the time since the last one
//!   to the guest that ran. It asks the kernel once in [`CLOSE`] at most: turns in between go by
//!   CLOCK_MONOTONIC, and the next question of the kernel sets that right. A turn is then some
//!   20 ns slower. The time between the last sample and the first question is nobody's: other
//!   guests have run in it, and one that has just begun must not have used more than there was.
//!
//! So no time of a server is given twice, and the sum over guests is never above the servers' by
//! more than [`CLOSE`] each. Both parts of a guest's time only grow.
//!
//! A home that is used again has used time before. It is taken off once programs ask; otherwise it
//! is 5 ms at most (`homes`).
//!
//! A thread on whose clock there is a timer is left to the kernel (`native`), as nothing could tell
//! the kernel of the rest.

use super::guest;
use super::memory::{self, FAULT};
use super::servers;
use super::turn::{self, Follower};
use crate::rt::engine::guest as engine;
use crate::rt::engine::turns::{self, ServerTurn};
use crate::rt::task::Task;
use crate::rt::time as clock;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use umcg_core::raw::{self, Server, Worker};
use umcg_core::{call as make_call, raw::Adopted};
use umcg_intercept::Call;

const EINVAL: isize = -(libc::EINVAL as isize);
const SECOND: u64 = 1_000_000_000;
/// In nanoseconds: so long after an answer of the kernel turns go by CLOCK_MONOTONIC.
const CLOSE: u64 = 20_000;
/// How many servers are sampled at a time: each costs a system call.
const AT_A_TIME: usize = 8;
/// The lower bits of the id of a thread's clock: of one thread, by the scheduler's time.
const OF_THREAD: i32 = 0b110;

/// Turns are followed.
static IS_EXACT: AtomicBool = AtomicBool::new(false);
static METERS: [Meter; turn::SERVERS] = [const { Meter::new() }; turn::SERVERS];

/// The account of a server's processor time, in nanoseconds.
struct Meter {
    /// As much of it was given to guests, or to the server itself.
    given: AtomicU64,
    /// The guest that runs; null for none. From here on the server's alone, once turns are
    /// followed.
    running: AtomicPtr<Task>,
    /// When the server has asked the kernel last, and its last turn, by CLOCK_MONOTONIC.
    asked: AtomicU64,
    turned: AtomicU64,
}

impl Meter {
    const fn new() -> Meter {
        Meter {
            given: AtomicU64::new(0),
            running: AtomicPtr::new(null_mut()),
            asked: AtomicU64::new(0),
            turned: AtomicU64::new(0),
        }
    }

    /// Gives the time that is not given yet to this task, or to none. `total`: as the kernel says.
    fn settle(&self, total: u64, to: Option<&Task>) {
        let given = self.given.fetch_max(total, Relaxed);
        give(to, total.saturating_sub(given));
    }

    /// Called by the server: another task runs from now on, or none.
    fn turn(&self, next: Option<&Task>) {
        let now = clock::now();
        let before = self.running.load(Relaxed);
        // SAFETY: null, or a descriptor, which is never freed.
        let before = unsafe { before.as_ref() };
        if now - self.asked.load(Relaxed) < CLOSE {
            let used = now - self.turned.load(Relaxed);
            self.given.fetch_add(used, Relaxed);
            give(before, used);
        } else if let Some(total) = kernel_time(0) {
            self.asked.store(now, Relaxed);
            self.settle(total, before);
        }
        self.turned.store(now, Relaxed);
        let next = next.map_or(null_mut(), |next| from_ref(next).cast_mut());
        self.running.store(next, Relaxed);
    }
}

fn give(to: Option<&Task>, nanos: u64) {
    if let Some(task) = to {
        task.used.fetch_add(nanos, Relaxed);
    }
}

/// The clock of the thread with this id; 0 for the caller.
fn clock_of(tid: u32) -> i32 {
    (!tid as i32) << 3 | OF_THREAD
}

/// The time of this kernel thread; 0 for the caller. None if it has ended.
fn kernel_time(tid: u32) -> Option<u64> {
    read_clock(clock_of(tid)).ok()
}

fn read_clock(clock: i32) -> Result<u64, isize> {
    let mut time = [0u64; 2];
    let at = (&raw mut time).expose_provenance();
    // SAFETY: room for a time.
    let result = unsafe { make_call(libc::SYS_clock_gettime, [clock as usize, at, 0, 0, 0, 0]) };
    match result {
        0 => Ok(time[0] * SECOND + time[1]),
        error => Err(error),
    }
}

/// Begins to sample. Called before there are servers.
pub(super) fn begin() {
    turns::sample_by(sample);
}

/// Gives the time of some servers to the guests that run there now.
fn sample() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let servers = servers::count();
    for _ in 0..servers.min(AT_A_TIME) {
        let index = NEXT.fetch_add(1, Relaxed) % servers;
        if let Some(server) = servers::get(index) {
            settle_from_outside(index, server, server.current());
        }
    }
}

fn settle_from_outside(server: usize, raw: Server, runs: Option<Worker>) {
    if let Some(total) = kernel_time(raw.carried_by() as u32) {
        let meter = &METERS[server];
        meter.settle(total, runs.map(engine::task_of));
        // What the server has seen last is no measure for its next turn.
        meter.asked.store(0, Relaxed);
    }
}

/// A program has asked: turns are followed from now on.
fn be_exact() {
    if IS_EXACT.load(Relaxed) || IS_EXACT.swap(true, Relaxed) {
        return;
    }
    servers::each(&mut |index, server| {
        settle_from_outside(index, server, None);
        let task = server.current().map_or(null_mut(), |worker| {
            from_ref(engine::task_of(worker)).cast_mut()
        });
        METERS[index].running.store(task, Relaxed);
    });
    turn::follow(Follower::Clocks, note_turn);
}

/// A server's turn, on its thread.
fn note_turn(server: usize, turn: ServerTurn) -> bool {
    METERS[server].turn(match turn {
        ServerTurn::Begins(worker) | ServerTurn::Switches(worker) => Some(engine::task_of(worker)),
        ServerTurn::Ends(_) => None,
    });
    false
}

/// The time that this worker has used on servers.
fn used(worker: Worker) -> u64 {
    if let Some((index, server)) = servers::of(worker) {
        settle_from_outside(index, server, Some(worker));
    }
    engine::task_of(worker).used.load(Relaxed)
}

/// The guest with this task has ended, and its home may be used again: the next one there has not
/// used what the home has.
pub(super) fn note_end(task: &'static Task) {
    let of_home = if IS_EXACT.load(Relaxed) {
        kernel_time(task.worker().home_tid()).unwrap_or(0)
    } else {
        0
    };
    task.used.store(0u64.wrapping_sub(of_home), Relaxed);
}

/// Answers clock_gettime(2) for the clock of a thread, or clock_getres(2), if not `is_time`. None
/// if the kernel knows all of it.
pub(super) fn read(call: &Call, is_time: bool) -> Option<isize> {
    let [clock, to, ..] = call.arguments;
    let clock = clock as i32;
    be_exact();
    let worker = match thread_of(clock) {
        0 => guest::adopted().filter(|_| is_time).map(Adopted::worker),
        // The home is there, but its thread is not.
        tid if raw::home_rests(tid) => return Some(EINVAL),
        tid => raw::worker_at_home(tid).filter(|_| is_time),
    }?;
    let kind = if clock < 0 { clock & 0b111 } else { OF_THREAD };
    let home = (!worker.home_tid() as i32) << 3 | kind;
    let answer = read_clock(home).map(|time| time.wrapping_add(used(worker)));
    Some(match answer {
        Ok(time) if memory::write(to, [time / SECOND, time % SECOND]) => 0,
        Ok(_) => FAULT,
        Err(error) => error,
    })
}

/// The thread whose clock this is; 0 for the caller.
pub(super) fn thread_of(clock: i32) -> u32 {
    if clock < 0 { !(clock >> 3) as u32 } else { 0 }
}

/// Answers getrusage(2) for the calling thread, which is at home: its time on servers counts as
/// user time. None if the kernel knows all of it.
pub(super) fn read_usage(call: &Call) -> Option<isize> {
    const MICROSECOND: u64 = 1_000;
    let [of, to, ..] = call.arguments;
    be_exact();
    let worker = guest::adopted()?.worker();
    // SAFETY: the guest's own call; the kernel checks the address.
    let result = unsafe { make_call(libc::SYS_getrusage, [of, to, 0, 0, 0, 0]) };
    if result != 0 {
        return Some(result);
    }
    // In user mode and in the kernel: together they are the home's clock.
    let [seconds, micros, system_seconds, system_micros] = memory::read::<[u64; 4]>(to)?;
    let user = seconds * SECOND + micros * MICROSECOND;
    let system = system_seconds * SECOND + system_micros * MICROSECOND;
    let total = (user + system).wrapping_add(used(worker)) as i64;
    // The kernel rounds the two.
    let total = total.max(0) as u64;
    let system = system.min(total);
    let user = total - system;
    let parts = [user, system].map(|time| [time / SECOND, time % SECOND / MICROSECOND]);
    let written = memory::write(to, [parts[0][0], parts[0][1], parts[1][0], parts[1][1]]);
    Some(if written { 0 } else { FAULT })
}
