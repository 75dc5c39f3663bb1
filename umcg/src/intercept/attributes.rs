//! Calls that change the attributes which a thread inherits from its maker.
//!
//! A home is reused for threads that would be as it is (H3 in docs/protocols/run.md). Nothing is
//! restored: a call that changes what a child inherits *spoils* the caller. Then its home ends with
//! it, and the threads that it makes are made by the kernel and are spoilt, too. A call that names
//! another thread *marks* that thread's home. A change of credentials, which the C library makes in
//! all threads that it knows, closes the pool for good.
//!
//! Changes that no call of the program shows (another process that sets a priority, a cgroup's
//! file) are not seen.

use super::guest::{self, Guest};
use super::{class, cpu_time, freed, homes, memory, native, servers, signal};
use crate::rt::run::kernel_call;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use umcg_core::context::way;
use umcg_core::raw::{self, SentBy};
use umcg_core::reach::load;
use umcg_intercept::Call;

const EINVAL: isize = -(libc::EINVAL as isize);
const ESRCH: isize = -(libc::ESRCH as isize);
const SIGSETXID: usize = 33;

/// A guest makes this call, which the kernel carries out at home. An answer, if there is no need.
pub(super) fn note(guest: &Guest, call: &Call) -> Option<isize> {
    let [first, second, third, ..] = call.arguments;
    match call.number as libc::c_long {
        libc::SYS_set_robust_list => return note_robust_list(guest, first, second),
        libc::SYS_rseq => return refuse_area(guest, first, third),
        libc::SYS_sigaltstack => note_stack(guest, first),
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo | libc::SYS_pidfd_send_signal => {
            freed::note_sent();
        }
        libc::SYS_rt_sigtimedwait => signal::claim_held(guest::tid(), first),
        libc::SYS_tkill => return note_signal(first, second),
        libc::SYS_tgkill => return note_signal(second, third),
        libc::SYS_rt_tgsigqueueinfo => return note_queued(second, third),
        libc::SYS_setfsuid | libc::SYS_setfsgid | libc::SYS_pkey_alloc => homes::close(),
        number if is_for_all_threads(number) => homes::close(),
        libc::SYS_sched_setparam
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_setattr => note_thread(guest, first),
        libc::SYS_setpriority | libc::SYS_ioprio_set => note_priority(guest, call),
        libc::SYS_perf_event_open => note_counter(guest, second),
        libc::SYS_clock_nanosleep => native::note_clock(first as libc::clockid_t),
        // The library reads the clock in each thread.
        libc::SYS_seccomp => {
            way::beware_of_filters();
            spoil(guest);
            if is_filter_for_all(call) {
                kernel_call::shut();
            }
        }
        libc::SYS_prctl
            if first as i32 == libc::PR_SET_TSC && second as i32 != libc::PR_TSC_ENABLE =>
        {
            return Some(EINVAL);
        }
        libc::SYS_prctl => note_option(guest, first, second),
        libc::SYS_arch_prctl => note_base(guest, first),
        libc::SYS_timer_create => return note_timer(guest, first, second),
        libc::SYS_fcntl => note_owner(guest, second, third),
        libc::SYS_pidfd_open if second & libc::O_EXCL as usize != 0 => homes::close(),
        libc::SYS_open => note_file(guest, first, second),
        libc::SYS_openat => note_file(guest, second, third),
        _ if spoils(call.number) => spoil(guest),
        _ if is_lock_with_inheritance(call) => {
            guest.home.inherits.store(true, Relaxed);
        }
        _ => {}
    }
    None
}

const SYS_LANDLOCK_RESTRICT_SELF: libc::c_long = 446;
const SYS_LSM_SET_SELF_ATTR: libc::c_long = 460;

/// Whether children of the caller inherit what the call changes, or it is for its thread alone.
fn spoils(number: usize) -> bool {
    matches!(
        number as libc::c_long,
        libc::SYS_set_tid_address
            | libc::SYS_ptrace
            | libc::SYS_capset
            | libc::SYS_iopl
            | libc::SYS_ioperm
            | libc::SYS_modify_ldt
            | libc::SYS_set_mempolicy
            | libc::SYS_keyctl
            | libc::SYS_unshare
            | libc::SYS_setns
            | libc::SYS_io_uring_setup
            | libc::SYS_io_uring_enter
            | libc::SYS_io_uring_register
            | libc::SYS_personality
            | SYS_LANDLOCK_RESTRICT_SELF
            | SYS_LSM_SET_SELF_ATTR
    )
}

fn spoil(guest: &Guest) {
    guest.home.is_spoilt.store(true, Relaxed);
}

/// Something is done to the thread with this id; 0 is the caller.
fn note_thread(guest: &Guest, id: usize) {
    if id as u32 == 0 || id as u32 == guest::tid() {
        spoil(guest);
    } else if raw::mark_home(id as u32, true).is_none() {
        // A thread whose home is not known, or another process's.
        homes::close();
    }
}

fn note_signal(id: usize, number: usize) -> Option<isize> {
    let id = id as u32;
    if number == 0 {
        return raw::home_rests(id).then_some(ESRCH);
    }
    if number == SIGSETXID {
        CHANGES_ALL.store(guest::tid(), Relaxed);
        homes::close();
        raw::settle_storage(id);
        return None;
    }
    freed::note_sent();
    raw::announce(id, number as i32);
    // A plain thread's signals are looked at when it ends.
    (raw::mark_home(id, false) == Some(true)).then_some(ESRCH)
}

/// Whether the call does something to a thread, maybe another guest, that has to be seen to once it
/// is done, by [`note_effect`].
pub(super) fn has_effect(call: &Call) -> bool {
    signal_of(call).is_some()
        || scheduled_by(call).is_some()
        || class::changed_by(call.number, &call.arguments).is_some()
        || call.number as libc::c_long == libc::SYS_rt_sigpending
}

/// The thread that a signal is for, and its number. One for the process is most often its first
/// thread's.
fn signal_of(call: &Call) -> Option<(usize, usize)> {
    let [first, second, third, ..] = call.arguments;
    match call.number as libc::c_long {
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo | libc::SYS_tkill => Some((first, second)),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => Some((second, third)),
        _ => None,
    }
}

/// The thread whose scheduling the call changes; 0 for the caller.
fn scheduled_by(call: &Call) -> Option<usize> {
    let [first, second, ..] = call.arguments;
    match call.number as libc::c_long {
        libc::SYS_sched_setparam
        | libc::SYS_sched_setscheduler
        | libc::SYS_sched_setaffinity
        | libc::SYS_sched_setattr => Some(first),
        libc::SYS_setpriority if first as u32 == libc::PRIO_PROCESS => Some(second),
        libc::SYS_ioprio_set if first as u32 as usize == IOPRIO_WHO_PROCESS => Some(second),
        _ => None,
    }
}

/// The thread in which the C library is changing credentials in all threads; 0 for none. First it
/// asks the others, by signals, and at last it changes its own.
static CHANGES_ALL: AtomicU32 = AtomicU32::new(0);

/// Whether the C library makes this call in all threads, to change credentials.
fn is_for_all_threads(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
    )
}

/// Whether this call of seccomp(2) is to filter the calls of all threads.
fn is_filter_for_all(call: &Call) -> bool {
    const SET_MODE_FILTER: u32 = 1;
    let [mode, flags, ..] = call.arguments;
    mode as u32 == SET_MODE_FILTER && flags & libc::SECCOMP_FILTER_FLAG_TSYNC as usize != 0
}

/// Whether the call, which has this answer, has given the caller state of its own.
fn gives_own_state(call: &Call, answer: isize) -> bool {
    let first = call.arguments[0];
    match call.number as libc::c_long {
        number if is_for_all_threads(number) => {
            let changes_all = CHANGES_ALL.load(Relaxed);
            if changes_all == guest::tid() {
                CHANGES_ALL.store(0, Relaxed);
            }
            changes_all == 0 && answer == 0
        }
        libc::SYS_seccomp if is_filter_for_all(call) => false,
        // No such id: the call asks only.
        libc::SYS_setfsuid | libc::SYS_setfsgid => first as u32 != u32::MAX,
        libc::SYS_prctl => {
            let is_filter = matches!(
                first as i32,
                libc::PR_SET_SECCOMP | PR_SET_SYSCALL_USER_DISPATCH
            );
            is_filter && answer >= 0
        }
        _ => answer >= 0,
    }
}

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;

/// The kernel has answered the call.
pub(super) fn note_effect(guest: &Guest, call: &Call, answer: isize) {
    if class::changed_by(call.number, &call.arguments).is_some() {
        if gives_own_state(call, answer) {
            native::note_state(guest);
        }
        return;
    }
    if answer != 0 {
        return;
    }
    if call.number as libc::c_long == libc::SYS_rt_sigpending {
        return signal::add_held(call.arguments[0]);
    }
    if let Some(id) = scheduled_by(call) {
        return native::note_scheduling(id as u32);
    }
    let called = signal_of(call).and_then(|(id, number)| raw::call_home(id as u32, number as i32));
    called.inspect(|worker| servers::preempt(*worker));
}

fn note_queued(id: usize, number: usize) -> Option<isize> {
    raw::note_addressee(number as i32, SentBy::Queue);
    note_signal(id, number)
}

fn note_robust_list(guest: &Guest, head: usize, bytes: usize) -> Option<isize> {
    const HEAD: usize = 24;
    if bytes != HEAD {
        return None;
    }
    let home = &guest.home;
    home.robust.store(head, Relaxed);
    if home.is_later.load(Relaxed) && home.told.load(Relaxed) == head {
        return Some(0);
    }
    home.told.store(head, Relaxed);
    None
}

/// The area for restartable sequences of a guest that began on a server is never registered, and
/// says so. The C library ends the process if the call itself fails.
fn refuse_area(guest: &Guest, area: usize, flags: usize) -> Option<isize> {
    /// Begins with number 0 for a start, and "uninitialized".
    const UNINITIALIZED: u64 = (u32::MAX as u64) << 32;
    let is_refused = guest.home.is_later.load(Relaxed) && flags == 0;
    (is_refused && memory::write(area, UNINITIALIZED)).then_some(0)
}

fn note_stack(guest: &Guest, new: usize) {
    const FLAGS: usize = 8;
    if let Some(flags) = (new != 0).then(|| load(new + FLAGS)).flatten() {
        let is_off = flags & libc::SS_DISABLE as u32 != 0;
        guest.home.has_stack.store(!is_off, Relaxed);
    }
}

/// Of ioprio_set(2): a thread, in spite of the name.
pub(super) const IOPRIO_WHO_PROCESS: usize = 1;

/// The first two arguments of setpriority(2) and ioprio_set(2).
fn note_priority(guest: &Guest, call: &Call) {
    let [which, id, ..] = call.arguments;
    let one = if call.number as libc::c_long == libc::SYS_setpriority {
        libc::PRIO_PROCESS as usize
    } else {
        IOPRIO_WHO_PROCESS
    };
    if which as u32 as usize == one {
        note_thread(guest, id);
    } else {
        homes::close();
    }
}

fn note_option(guest: &Guest, option: usize, second: usize) {
    const PR_SET_VMA: i32 = 0x5356_4d41;
    match option as i32 {
        libc::PR_SET_NAME => {
            if let Some(name) = homes::read_name(second) {
                guest.home.name.set(name);
            }
        }
        libc::PR_GET_NAME | libc::PR_GET_DUMPABLE | libc::PR_CAPBSET_READ | PR_SET_VMA => {}
        libc::PR_SET_SECCOMP => {
            way::beware_of_filters();
            spoil(guest);
        }
        _ => spoil(guest),
    }
}

fn note_base(guest: &Guest, option: usize) {
    const ARCH_SET_GS: usize = 0x1001;
    const ARCH_GET_FS: usize = 0x1003;
    const ARCH_GET_GS: usize = 0x1004;
    if option == ARCH_SET_GS {
        // No switch takes it along.
        native::note_state(guest);
    }
    if !matches!(option, ARCH_GET_FS | ARCH_GET_GS) {
        spoil(guest);
    }
}

fn note_timer(guest: &Guest, clock: usize, event: usize) -> Option<isize> {
    const NUMBER: usize = 8;
    const KIND: usize = 12;
    const THREAD: usize = 16;
    let clock = clock as libc::clockid_t;
    if clock == libc::CLOCK_THREAD_CPUTIME_ID || clock < 0 {
        spoil(guest);
        if class::is_of_thread(clock) && raw::home_rests(cpu_time::thread_of(clock)) {
            return Some(EINVAL);
        }
        native::note_clock(clock);
    }
    if event != 0 && load(event + KIND) == Some(libc::SIGEV_THREAD_ID as u32) {
        raw::note_addressee(load(event + NUMBER).unwrap_or(0) as i32, SentBy::Timer);
        note_thread(guest, load(event + THREAD).unwrap_or(0) as usize);
    }
    None
}

/// Counts events of a thread; -1 is for all.
fn note_counter(guest: &Guest, id: usize) {
    note_thread(guest, id);
    if id as i32 >= 0 {
        native::note_counter(id as u32);
    }
}

fn note_owner(guest: &Guest, command: usize, owner: usize) {
    const F_SETOWN_EX: usize = 15;
    const F_OWNER_TID: u32 = 0;
    if command as u32 as usize == F_SETOWN_EX && load(owner) == Some(F_OWNER_TID) {
        note_thread(guest, load(owner + 4).unwrap_or(0) as usize);
    }
}

/// Files of /proc that set attributes of a thread: its name, its slack, its label. A process's file
/// is that of its first thread.
fn note_file(guest: &Guest, path: usize, flags: usize) {
    const LONGEST: usize = 24;
    let is_read = flags as i32 & libc::O_ACCMODE == libc::O_RDONLY;
    if is_read || !starts(path, b"/proc/") {
        return;
    }
    if starts(path, b"/proc/thread-self/") {
        return spoil(guest);
    }
    let task = (0..LONGEST).find(|at| starts(path + at, b"/task/"));
    match task.and_then(|at| number_at(path + at + b"/task/".len())) {
        Some(id) => note_thread(guest, id),
        None => homes::close(),
    }
}

fn byte(at: usize) -> Option<u8> {
    let word = load(at & !3)?;
    Some((word >> (8 * (at & 3))) as u8)
}

fn starts(path: usize, with: &[u8]) -> bool {
    with.iter()
        .enumerate()
        .all(|(at, expected)| byte(path + at) == Some(*expected))
}

fn number_at(at: usize) -> Option<usize> {
    let digits = (0..10)
        .map_while(|offset| byte(at + offset).filter(u8::is_ascii_digit))
        .map(|digit| usize::from(digit - b'0'));
    let mut is_number = false;
    let number = digits.fold(0, |number, digit| {
        is_number = true;
        number * 10 + digit
    });
    is_number.then_some(number)
}

/// Locks of which the kernel keeps the owner.
fn is_lock_with_inheritance(call: &Call) -> bool {
    const COMMAND: usize = 127;
    const LOCK_PI2: i32 = 13;
    call.number as libc::c_long == libc::SYS_futex
        && matches!(
            (call.arguments[1] & COMMAND) as i32,
            libc::FUTEX_LOCK_PI | libc::FUTEX_TRYLOCK_PI | libc::FUTEX_WAIT_REQUEUE_PI | LOCK_PI2
        )
}
