//! Tries each feature, harmlessly: a kernel may report a feature and still not let this process use
//! it.

use super::{Finding, State};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use umcg_benches::harness::cpu;

pub(super) fn all() -> Vec<Finding> {
    vec![
        thread_pointer(),
        guard_markers(),
        max_map_count(),
        overcommit(),
        huge_pages(),
        signal_frame(),
        shadow_stack(),
        futex_waitv(),
        syscall_user_dispatch(),
        perf_events(),
        io_uring(),
        fine_waits(),
        pidfds(),
        thread_timers(),
        seccomp(),
        clock_source(),
        cpus(),
        stack_limit(),
        threads(),
        c_library(),
    ]
}

pub(super) fn finding(
    feature: &'static str,
    state: State,
    detail: impl Into<String>,
    effect: &'static str,
) -> Finding {
    Finding {
        feature,
        state,
        detail: detail.into(),
        effect,
    }
}

/// The contents of a file of one line, or a substitute.
fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn status(key: &str) -> Option<String> {
    field(&fs::read_to_string("/proc/self/status").ok()?, key)
}

/// The value in a line `key: value`.
fn field(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| {
        line.strip_prefix(key)?
            .trim_start()
            .strip_prefix(':')
            .map(|value| value.trim().to_owned())
    };
    text.lines().find_map(value)
}

/// Names the errors that a probe meets; the others by number.
fn errno(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel does not have it (ENOSYS)".into(),
        Some(libc::EINVAL) => "the kernel does not have it (EINVAL)".into(),
        Some(libc::EPERM) => "forbidden (EPERM)".into(),
        Some(libc::EACCES) => "forbidden (EACCES)".into(),
        _ => error.to_string(),
    }
}

fn thread_pointer() -> Finding {
    let name = "FSGSBASE";
    if !cfg!(target_arch = "x86_64") {
        return finding(
            name,
            State::Yes,
            "the thread pointer is an ordinary register here",
            "thread workers move between servers in user mode",
        );
    }
    const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0 {
        return finding(
            name,
            State::Yes,
            "AT_HWCAP2 says so",
            "thread workers move between servers in user mode",
        );
    }
    finding(
        name,
        State::No,
        "not in AT_HWCAP2: it takes Linux 5.9 and a CPU since 2012",
        "thread workers stay on their own kernel threads and are handed control by futex: same \
         meaning, slow",
    )
}

fn guard_markers() -> Finding {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    const LENGTH: usize = 1 << 16;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let map = unsafe {
        libc::mmap(
            ptr::null_mut(),
            LENGTH,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    let mut error = io::Error::last_os_error();
    let mut works = false;
    if map != libc::MAP_FAILED {
        // SAFETY: the mapping just made, which no other thread uses.
        works = unsafe { libc::madvise(map, LENGTH, MADV_GUARD_INSTALL) } == 0;
        error = io::Error::last_os_error();
        // SAFETY: as above.
        unsafe { libc::munmap(map, LENGTH) };
    }
    let name = "MADV_GUARD_INSTALL";
    if works {
        return finding(
            name,
            State::Yes,
            "tried",
            "a guard below each stack that costs no mapping: any number of stacks",
        );
    }
    let effect = "guards without markers, two mappings a stack: the number of stacks is bounded by \
        a quarter of vm.max_map_count";
    finding(
        name,
        State::No,
        errno(&error) + "; it came with Linux 6.13",
        effect,
    )
}

fn max_map_count() -> Finding {
    let count = line("/proc/sys/vm/max_map_count").unwrap_or_else(|| "unknown".into());
    finding(
        "vm.max_map_count",
        State::Info,
        count,
        "stacks are cut from slabs of one mapping each; bounds them only without guard markers",
    )
}

fn overcommit() -> Finding {
    let (name, free) = (
        "vm.overcommit_memory",
        "stacks are reserved whole and cost what they touch",
    );
    match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => {
            let effect = "every stack counts with its full size against the commit limit: give \
                smaller stacks where there are many";
            finding(name, State::Limited, "2 (strict)", effect)
        }
        Some("1") => finding(name, State::Yes, "1 (always)", free),
        Some("0") => finding(name, State::Yes, "0 (heuristic)", free),
        _ => finding(name, State::Info, "unknown", free),
    }
}

fn huge_pages() -> Finding {
    let modes = line("/sys/kernel/mm/transparent_hugepage/enabled")
        .unwrap_or_else(|| "not in this kernel".into());
    let effect = "stack slabs opt out (MADV_NOHUGEPAGE), or one touched stack would cost 2 MiB";
    finding("transparent huge pages", State::Info, modes, effect)
}

fn signal_frame() -> Finding {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads the auxiliary vector.
    let size = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    let detail = if size == 0 {
        "unknown to this kernel".to_owned()
    } else {
        format!("{size} bytes (AT_MINSIGSTKSZ)")
    };
    let effect = "preemption takes this much of the worker's own stack, vector registers included, \
        and as much or 8 KiB beneath; overflow is told from an alternate stack";
    finding("signal frame", State::Info, detail, effect)
}

fn shadow_stack() -> Finding {
    let name = "shadow stack";
    let features = status("x86_Thread_features").unwrap_or_default();
    if features
        .split_whitespace()
        .any(|feature| feature == "shstk")
    {
        let effect = "switches do not carry it: run with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off";
        return finding(name, State::Limited, "on for this process", effect);
    }
    finding(
        name,
        State::Info,
        "off for this process",
        "nothing to do: a switch need not carry one",
    )
}

fn futex_waitv() -> Finding {
    const SYS_FUTEX_WAITV: libc::c_long = 449;
    // SAFETY: waits for nothing; the kernel refuses that with EINVAL before it looks at the
    // pointers.
    unsafe {
        libc::syscall(
            SYS_FUTEX_WAITV,
            ptr::null::<u8>(),
            0,
            0,
            ptr::null::<u8>(),
            0,
        )
    };
    let error = io::Error::last_os_error();
    let name = "futex_waitv";
    if error.raw_os_error() == Some(libc::EINVAL) {
        return finding(
            name,
            State::Yes,
            "tried",
            "waits for several words that processes share sleep in the kernel",
        );
    }
    finding(
        name,
        State::No,
        errno(&error) + "; it came with Linux 5.16",
        "waits for several words that processes share look now and then; all others do without it",
    )
}

fn syscall_user_dispatch() -> Finding {
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    // SAFETY: turns off a feature that is off.
    let rc = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) };
    let name = "syscall user dispatch";
    if rc == 0 {
        return finding(
            name,
            State::Yes,
            "tried",
            "nothing yet: blocking calls are announced by the program (umcg_blocking_begin)",
        );
    }
    let detail = errno(&io::Error::last_os_error()) + "; it came with Linux 5.11";
    finding(
        name,
        State::No,
        detail,
        "nothing is lost: blocking calls are announced by the program (umcg_blocking_begin)",
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
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by this function only.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

fn perf_events() -> Finding {
    let (name, effect) = (
        "perf_event_open",
        "nothing yet: that a worker blocked unannounced goes unnoticed",
    );
    let paranoid = line("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".into());
    let switches = perf_event(PERF_COUNT_SW_CONTEXT_SWITCHES, 0);
    let records = perf_event(PERF_COUNT_SW_DUMMY, EXCLUDE_KERNEL | CONTEXT_SWITCH);
    match (switches, records) {
        (Ok(()), Ok(())) => finding(
            name,
            State::Yes,
            format!("switch events and records (paranoid level {paranoid})"),
            effect,
        ),
        (Err(_), Ok(())) => finding(
            name,
            State::Limited,
            format!("switch records only (paranoid level {paranoid})"),
            effect,
        ),
        (Ok(()), Err(_)) => finding(
            name,
            State::Limited,
            format!("switch events only (paranoid level {paranoid})"),
            effect,
        ),
        (Err(error), Err(_)) => finding(
            name,
            State::No,
            format!("{} (paranoid level {paranoid})", errno(&error)),
            effect,
        ),
    }
}

fn io_uring() -> Finding {
    let (name, effect) = (
        "io_uring",
        "nothing is lost: files are read and written on helper threads",
    );
    match enter_a_ring() {
        Err((call, error)) => finding(
            name,
            State::No,
            format!("{call}: {}", errno(&error)),
            effect,
        ),
        Ok(()) => finding(
            name,
            State::Yes,
            "tried",
            "reads and writes of files, if not in the page cache, and of standard streams go \
             through it",
        ),
    }
}

/// Makes a ring and enters the kernel with it: a filter may allow the one and not the other. Says
/// which call was refused.
fn enter_a_ring() -> Result<(), (&'static str, io::Error)> {
    let mut params = [0_u64; 15];
    // SAFETY: one entry, and room for the 120 bytes of `struct io_uring_params`, zeroed.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(("io_uring_setup", io::Error::last_os_error()));
    }
    // SAFETY: just made, and owned by this function only.
    let ring = unsafe { OwnedFd::from_raw_fd(ring as libc::c_int) };
    // SAFETY: hands over nothing and waits for nothing.
    let entered = unsafe {
        libc::syscall(
            libc::SYS_io_uring_enter,
            ring.as_raw_fd(),
            0,
            0,
            0,
            ptr::null::<u8>(),
            0,
        )
    };
    if entered < 0 {
        Err(("io_uring_enter", io::Error::last_os_error()))
    } else {
        Ok(())
    }
}

fn fine_waits() -> Finding {
    let (name, fine) = (
        "epoll_pwait2",
        "deadlines are kept to the microsecond also by servers that wait for I/O",
    );
    // SAFETY: no precondition.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if set < 0 {
        return finding(
            name,
            State::No,
            errno(&io::Error::last_os_error()),
            "there is no runtime without epoll",
        );
    }
    // SAFETY: just made, and owned by this function only.
    let set = unsafe { OwnedFd::from_raw_fd(set) };
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
    if reported == 0 {
        return finding(name, State::Yes, "tried", fine);
    }
    let detail = errno(&io::Error::last_os_error()) + "; it came with Linux 5.11";
    finding(
        name,
        State::No,
        detail,
        "epoll_wait instead: servers that wait for I/O round deadlines up to a millisecond",
    )
}

fn pidfds() -> Finding {
    // SAFETY: of this process itself.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
    let name = "pidfd_open";
    if fd < 0 {
        let detail = errno(&io::Error::last_os_error()) + "; it came with Linux 5.3";
        return finding(
            name,
            State::No,
            detail,
            "children are looked for at intervals of up to 20 ms",
        );
    }
    // SAFETY: just made, and owned by this function only.
    drop(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
    finding(
        name,
        State::Yes,
        "tried",
        "the end of a child is waited for as input is",
    )
}

fn thread_timers() -> Finding {
    let name = "timers of threads";
    let mut timer = ptr::null_mut();
    // SAFETY: zero is a valid sigevent.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    // SAFETY: both are valid for the call.
    let made =
        unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) } == 0;
    let mut error = io::Error::last_os_error();
    let mut works = made;
    if made {
        let hour = libc::timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        };
        let setting = libc::itimerspec {
            it_interval: hour,
            it_value: hour,
        };
        // SAFETY: a timer of ours.
        works = unsafe { libc::timer_settime(timer, 0, &setting, ptr::null_mut()) } == 0;
        error = io::Error::last_os_error();
        // SAFETY: as above; it is not used again.
        unsafe { libc::timer_delete(timer) };
    }
    if works {
        return finding(
            name,
            State::Yes,
            "tried",
            "workers that compute for too long can be preempted",
        );
    }
    finding(
        name,
        State::No,
        errno(&error),
        "a runtime with preemption cannot be made",
    )
}

fn seccomp() -> Finding {
    let (name, effect) = (
        "seccomp",
        "system calls that a filter forbids show above as forbidden, with their fallback",
    );
    match status("Seccomp").as_deref() {
        Some("0") => finding(name, State::Info, "no filter", effect),
        Some("2") => finding(name, State::Limited, "a filter is installed", effect),
        Some(mode) => finding(name, State::Limited, format!("mode {mode}"), effect),
        None => finding(name, State::Info, "unknown", effect),
    }
}

fn clock_source() -> Finding {
    let name = "clock source";
    let effect = "deadlines read the clock without a system call";
    match line("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Some(source)
            if ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"]
                .contains(&source.as_str()) =>
        {
            finding(
                name,
                State::Limited,
                source,
                "every reading of the clock is a system call: deadlines cost more",
            )
        }
        Some(source) => finding(name, State::Yes, source, effect),
        None => finding(name, State::Info, "unknown", effect),
    }
}

fn cpus() -> Finding {
    let effect = "more servers than this have to share";
    match cpu::allowed() {
        Ok(cpus) => {
            let online = line("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".into());
            finding(
                "CPUs",
                State::Info,
                format!("{} for this process (online: {online})", cpus.len()),
                effect,
            )
        }
        Err(error) => finding("CPUs", State::Info, error.to_string(), effect),
    }
}

/// A soft limit of this process, by the name it has in `/proc/self/limits`.
fn limit(name: &str) -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    limits
        .lines()
        .find_map(|line| soft_limit(line, name))
        .unwrap_or("unknown")
        .to_owned()
}

fn soft_limit<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.split_whitespace().next()
}

fn stack_limit() -> Finding {
    let effect = "the stack of a thread worker, as of every pthread; light workers have the size \
        they ask for";
    finding("RLIMIT_STACK", State::Info, limit("Max stack size"), effect)
}

fn threads() -> Finding {
    let [pid_max, threads_max] = ["pid_max", "threads-max"]
        .map(|name| line(&format!("/proc/sys/kernel/{name}")).unwrap_or("unknown".into()));
    let detail = format!(
        "RLIMIT_NPROC {}, pid_max {pid_max}, threads-max {threads_max}",
        limit("Max processes")
    );
    finding(
        "kernel threads",
        State::Info,
        detail,
        "a thread worker takes one, a light worker none",
    )
}

#[cfg(target_env = "gnu")]
fn c_library() -> Finding {
    // SAFETY: takes nothing and returns a constant string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above; it lives as long as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(version) };
    let effect = "all switch methods, for sjlj and mcsc its own setjmp and makecontext";
    finding(
        "C library",
        State::Yes,
        format!("glibc {}", version.to_string_lossy()),
        effect,
    )
}

#[cfg(not(target_env = "gnu"))]
fn c_library() -> Finding {
    finding(
        "C library",
        State::Limited,
        "not glibc",
        "the assembly method only, where it has no makecontext",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_file() {
        let text = "Name:\tumcg\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(text, "Seccomp").as_deref(), Some("2"));
        assert_eq!(field(text, "Seccomp_filters").as_deref(), Some("1"));
        assert_eq!(field(text, "x86_Thread_features"), None);
    }

    #[test]
    fn soft_limits() {
        let line = "Max stack size            8388608              unlimited            bytes";
        assert_eq!(soft_limit(line, "Max stack size"), Some("8388608"));
        assert_eq!(soft_limit(line, "Max processes"), None);
        assert_ne!(limit("Max stack size"), "unknown");
    }
}
