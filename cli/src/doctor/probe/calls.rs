//! System calls, each tried: a filter may forbid one that the kernel has.

use super::{errno, figure, finding, refusal, tried};
use crate::doctor::{Finding, State};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

pub(super) fn all() -> Vec<Finding> {
    vec![
        futex_waitv(),
        syscall_user_dispatch(),
        perf_events(),
        io_uring(),
        fine_waits(),
        pidfds(),
        thread_timers(),
    ]
}

/// The descriptor that a call has returned, or the error.
fn descriptor(returned: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(returned) {
        // SAFETY: just opened, and owned by the caller only.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn futex_waitv() -> Finding {
    const SYS_FUTEX_WAITV: libc::c_long = 449;
    let none = ptr::null::<u8>();
    // SAFETY: waits for nothing; the kernel refuses that with EINVAL before it looks at the
    // pointers.
    unsafe { libc::syscall(SYS_FUTEX_WAITV, none, 0, 0, none, 0) };
    let error = io::Error::last_os_error();
    tried(
        "futex_waitv",
        match error.raw_os_error() {
            Some(libc::EINVAL) => Ok(()),
            _ => Err(errno(&error) + "; it came with Linux 5.16"),
        },
        "waits for several words that processes share sleep in the kernel",
        "waits for several words that processes share look now and then; all others do without it",
    )
}

fn syscall_user_dispatch() -> Finding {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    // SAFETY: turns off a feature that is off.
    let result = match unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(refusal() + "; it came with Linux 5.11"),
    };
    tried(
        "syscall user dispatch",
        result,
        "umcg run: system calls of code that a program writes while it runs are the thread's own",
        "umcg run: system calls of code that a program writes while it runs are made as the thread \
         of a server, and block it",
    )
}

/// The first 112 bytes of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct PerfAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    rest: [u64; 8],
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CONTEXT_SWITCHES: u64 = 3;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const DISABLED: u64 = 1 << 0;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const CONTEXT_SWITCH: u64 = 1 << 26;

fn perf_event(config: u64, flags: u64) -> io::Result<()> {
    let size = mem::size_of::<PerfAttr>() as u32;
    let attr = PerfAttr {
        kind: PERF_TYPE_SOFTWARE,
        size,
        config,
        flags: flags | DISABLED,
        ..PerfAttr::default()
    };
    // SAFETY: the structure is readable and says its size; an event of this thread, on any CPU, in
    // no group.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, 8) };
    descriptor(fd).map(drop)
}

fn perf_events() -> Finding {
    let level = figure("/proc/sys/kernel/perf_event_paranoid");
    let switches = perf_event(PERF_COUNT_SW_CONTEXT_SWITCHES, 0);
    let records = perf_event(PERF_COUNT_SW_DUMMY, EXCLUDE_KERNEL | CONTEXT_SWITCH);
    let (state, found) = match (switches, records) {
        (Ok(()), Ok(())) => (State::Yes, "switch events and records".into()),
        (Err(_), Ok(())) => (State::Limited, "switch records only".into()),
        (Ok(()), Err(_)) => (State::Limited, "switch events only".into()),
        (Err(error), Err(_)) => (State::No, errno(&error)),
    };
    finding(
        "perf_event_open",
        state,
        format!("{found} (paranoid level {level})"),
        "nothing yet: a worker that blocks unannounced is looked for in /proc",
    )
}

fn io_uring() -> Finding {
    tried(
        "io_uring",
        enter_a_ring().map_err(|(call, error)| format!("{call}: {}", errno(&error))),
        "reads and writes of files, if not in the page cache, and of standard streams go \
         through it",
        "nothing is lost: files are read and written on helper threads",
    )
}

/// Makes a ring and enters the kernel with it: a filter may allow the one and not the other. Says
/// which call was refused.
fn enter_a_ring() -> Result<(), (&'static str, io::Error)> {
    let mut params = [0_u64; 15];
    // SAFETY: one entry, and room for the 120 bytes of `struct io_uring_params`, zeroed.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    let ring = descriptor(ring).map_err(|error| ("io_uring_setup", error))?;
    let (ring, none) = (ring.as_raw_fd(), ptr::null::<u8>());
    // SAFETY: hands over nothing and waits for nothing.
    let entered = unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, 0, 0, 0, none, 0) };
    if entered < 0 {
        Err(("io_uring_enter", io::Error::last_os_error()))
    } else {
        Ok(())
    }
}

fn fine_waits() -> Finding {
    let name = "epoll_pwait2";
    // SAFETY: no precondition.
    let set = match descriptor(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into()) {
        Ok(set) => set,
        Err(error) => {
            let effect = "there is no runtime without epoll";
            return finding(name, State::No, errno(&error), effect);
        }
    };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for an event; the set is empty, and nothing is waited for.
    let reported = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            &raw mut event,
            1,
            &raw const at_once,
            ptr::null::<u8>(),
            0,
        )
    };
    let result = match reported {
        0 => Ok(()),
        _ => Err(refusal() + "; it came with Linux 5.11"),
    };
    tried(
        name,
        result,
        "deadlines are kept to the microsecond also by servers that wait for I/O",
        "epoll_wait instead: servers that wait for I/O round deadlines up to a millisecond",
    )
}

fn pidfds() -> Finding {
    // SAFETY: of this process itself.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
    tried(
        "pidfd_open",
        descriptor(fd)
            .map(drop)
            .map_err(|error| errno(&error) + "; it came with Linux 5.3"),
        "the end of a child is waited for as input is",
        "children are looked for at intervals of up to 20 ms",
    )
}

fn thread_timers() -> Finding {
    tried(
        "timers of threads",
        set_a_timer(),
        "workers that compute for too long can be preempted",
        "a runtime with preemption cannot be made",
    )
}

fn set_a_timer() -> Result<(), String> {
    let mut timer = ptr::null_mut();
    // SAFETY: zero is a valid sigevent.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    let clock = libc::CLOCK_THREAD_CPUTIME_ID;
    // SAFETY: both are valid for the call.
    if unsafe { libc::timer_create(clock, &mut event, &mut timer) } != 0 {
        return Err(refusal());
    }
    let hour = libc::timespec {
        tv_sec: 3600,
        tv_nsec: 0,
    };
    let setting = libc::itimerspec {
        it_interval: hour,
        it_value: hour,
    };
    // SAFETY: a timer of ours.
    let set = match unsafe { libc::timer_settime(timer, 0, &setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(refusal()),
    };
    // SAFETY: as above; it is not used again.
    unsafe { libc::timer_delete(timer) };
    set
}
