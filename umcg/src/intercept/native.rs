//! Threads that are left to the kernel: the program asks the kernel to do for them what no server
//! can. They stay at home, where they run and wait as natively.
//!
//! - *Scheduling.* Another policy, nice value or I/O priority, or processors that leave out one
//!   which servers may use. It is compared after each call that changes it, so a thread that gets
//!   back to the usual leaves again.
//! - *State.* Calls depend on state of the kernel thread that makes them, which threads have in
//!   common until one asks for its own ([`State`](super::class::State)): credentials, filters,
//!   namespaces. Threads that it makes have the same state, and stay as well. The C library changes
//!   credentials in all threads, servers among them, and a filter may be for all threads.
//! - *Counting.* A timer on the clock of a thread's processor time, or a counter of perf's, follows
//!   the one kernel thread. Nothing tells when that ends, so the thread stays for good.
//!
//! A call may name another thread, and one that is not adopted yet. So a thread is looked at again
//! when it is adopted, once the program has made such a call at all.

use super::guest::{self, Guest};
use super::{attributes, class, cpu_time, servers};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_core::call;
use umcg_core::context::lock::HoldLock;
use umcg_core::raw::{self, Adopted, NativeReason, Worker};

/// The program has changed the scheduling of a thread.
static IS_SCHEDULED: AtomicBool = AtomicBool::new(false);
/// The threads that are counted, by id. One that has an id of an ended one is left to the kernel
/// without need.
static COUNTED: HoldLock<Vec<u32>> = HoldLock::new(Vec::new());
static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The most processors that are looked at.
const CPUS: usize = 8192;
const WORDS: usize = CPUS / u64::BITS as usize;

/// How the kernel schedules a thread.
struct Scheduling {
    policy: isize,
    nice: isize,
    /// The priority of requests to disks, or the error of the question.
    io: isize,
    cpus: [u64; WORDS],
}

impl Scheduling {
    /// None if the thread is gone, or the kernel does not tell.
    fn of(tid: u32) -> Option<Scheduling> {
        const NICE: usize = libc::PRIO_PROCESS as usize;
        const IO: usize = attributes::IOPRIO_WHO_PROCESS;
        let tid = tid as usize;
        let mut cpus = [0; WORDS];
        let at = cpus.as_mut_ptr().expose_provenance();
        let of_cpus = [tid, size_of_val(&cpus), at, 0, 0, 0];
        // SAFETY: none writes but the one about processors, which has room for a set.
        let ask = |number, arguments| unsafe { call(number, arguments) };
        let answers = [
            ask(libc::SYS_sched_getscheduler, [tid, 0, 0, 0, 0, 0]),
            ask(libc::SYS_getpriority, [NICE, tid, 0, 0, 0, 0]),
            ask(libc::SYS_sched_getaffinity, of_cpus),
        ];
        let [policy, nice, _] = answers;
        let is_told = answers.iter().all(|answer| *answer >= 0);
        is_told.then_some(Scheduling {
            policy: policy & !(libc::SCHED_RESET_ON_FORK as isize),
            nice,
            io: ask(libc::SYS_ioprio_get, [IO, tid, 0, 0, 0, 0]),
            cpus,
        })
    }

    /// Whether a thread that is to be scheduled so can run on such servers.
    fn fits(&self, servers: &Scheduling) -> bool {
        let mut pairs = self.cpus.iter().zip(&servers.cpus);
        self.policy == servers.policy
            && self.nice == servers.nice
            && self.io == servers.io
            && pairs.all(|(own, theirs)| theirs & !own == 0)
    }
}

/// The calling guest was just adopted.
pub(super) fn note_adopted(guest: &Guest, adopted: Adopted) {
    if guest.home.has_own_state.load(Relaxed) {
        leave(adopted.worker(), NativeReason::State, true);
    }
    if IS_SCHEDULED.load(Relaxed) {
        compare(adopted.worker());
    }
    if IS_COUNTED.load(Relaxed) && COUNTED.lock().contains(&adopted.tid()) {
        leave(adopted.worker(), NativeReason::Counting, true);
    }
}

/// The scheduling of this thread has changed; 0 for the caller.
pub(super) fn note_scheduling(tid: u32) {
    IS_SCHEDULED.store(true, Relaxed);
    let worker = match tid {
        0 => guest::adopted().map(Adopted::worker),
        tid => raw::worker_at_home(tid),
    };
    worker.inspect(|worker| compare(*worker));
}

/// The calling guest has just got state of its own. Makes no system call: the state may be a filter
/// that ends the process.
pub(super) fn note_state(guest: &Guest) {
    guest.home.has_own_state.store(true, Relaxed);
    if let Some(adopted) = guest::adopted() {
        leave(adopted.worker(), NativeReason::State, true);
    }
}

/// Servers are all alike, but for those that another process has changed.
fn compare(worker: Worker) {
    let server = servers::get(0).and_then(|server| Scheduling::of(server.carried_by() as u32));
    let own = Scheduling::of(worker.home_tid());
    let fits = match (own, server) {
        (Some(own), Some(server)) => own.fits(&server),
        _ => true,
    };
    leave(worker, NativeReason::Scheduling, !fits);
}

fn leave(worker: Worker, reason: NativeReason, is_so: bool) {
    if worker.leave_to_kernel(reason, is_so) {
        servers::preempt(worker);
    }
}

/// A timer or a sleep is about to follow this clock, which may be that of a thread.
pub(super) fn note_clock(clock: libc::clockid_t) {
    if class::is_of_thread(clock) {
        note_counter(cpu_time::thread_of(clock));
    }
}

/// This thread is about to be counted; 0 for the caller.
pub(super) fn note_counter(tid: u32) {
    let tid = if tid == 0 { guest::tid() } else { tid };
    {
        let mut counted = COUNTED.lock();
        if !counted.contains(&tid) {
            counted.push(tid);
        }
    }
    IS_COUNTED.store(true, Relaxed);
    if let Some(worker) = raw::worker_at_home(tid) {
        leave(worker, NativeReason::Counting, true);
    }
}
