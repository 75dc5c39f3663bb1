//! What comes of each system call's refusal. `docs/refusals.md` says it in words, a row for each call; a test holds the two, and the sources, to each other.

/// A call, and what may fail when it is refused, with an error that says why.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    /// Parts of the workload. The part `runtime` means that no runtime can be made.
    pub(crate) fails: &'static [&'static str],
    /// It may end the process, with a line that says why, where it was granted before.
    pub(crate) ends: bool,
    /// EAGAIN of it means "not now" to everybody, and is waited out: nothing else can be made of it.
    pub(crate) waits: bool,
}

const fn row(name: &'static str, number: i64, fails: &'static [&'static str]) -> Row {
    Row { name, number, fails, ends: false, waits: false }
}

impl Row {
    const fn ends(mut self) -> Row {
        self.ends = true;
        self
    }

    const fn waits(mut self) -> Row {
        self.waits = true;
        self
    }
}

const NET: &[&str] = &["sockets"];
const ONLY_AT_START: &[&str] = &["runtime"];
const TICKS: &[&str] = &["preemption"];
const SHARED: &[&str] = &["segment"];
/// What needs a new kernel thread. Std's own threads and processes are among it.
const THREADS: &[&str] = &["runtime", "waits", "processes", "servers", "segment", "words"];

pub(crate) const TESTED: &[Row] = &[
    row("accept4", libc::SYS_accept4, NET).waits(),
    row("bind", libc::SYS_bind, NET),
    row("clone3", libc::SYS_clone3, THREADS),
    row("connect", libc::SYS_connect, NET),
    row("epoll_create1", libc::SYS_epoll_create1, ONLY_AT_START),
    row("epoll_ctl", libc::SYS_epoll_ctl, &["runtime", "sockets", "processes"]),
    row("epoll_pwait", libc::SYS_epoll_pwait, &[]),
    row("epoll_pwait2", libc::SYS_epoll_pwait2, &[]),
    row("eventfd2", libc::SYS_eventfd2, ONLY_AT_START),
    row("fcntl", libc::SYS_fcntl, SHARED),
    row("fdatasync", libc::SYS_fdatasync, &["files"]),
    row("fsync", libc::SYS_fsync, &["files"]),
    row("fstat", libc::SYS_fstat, SHARED),
    row("ftruncate", libc::SYS_ftruncate, SHARED),
    row("futex_waitv", libc::SYS_futex_waitv, &[]),
    row("getpeername", libc::SYS_getpeername, NET),
    row("getsockname", libc::SYS_getsockname, NET),
    row("getsockopt", libc::SYS_getsockopt, NET),
    row("gettid", libc::SYS_gettid, &["runtime", "servers"]),
    row("io_uring_enter", libc::SYS_io_uring_enter, &[]),
    row("io_uring_register", libc::SYS_io_uring_register, &[]),
    row("io_uring_setup", libc::SYS_io_uring_setup, &[]),
    row("ioctl", libc::SYS_ioctl, &[]),
    row("listen", libc::SYS_listen, NET),
    row("madvise", libc::SYS_madvise, &[]),
    row("membarrier", libc::SYS_membarrier, &[]).ends(),
    row("memfd_create", libc::SYS_memfd_create, SHARED),
    row("mincore", libc::SYS_mincore, &[]),
    row("mmap", libc::SYS_mmap, THREADS).ends(),
    row("mprotect", libc::SYS_mprotect, THREADS),
    row("munmap", libc::SYS_munmap, &[]),
    row("openat", libc::SYS_openat, &["files", "processes", "segment"]),
    row("pidfd_open", libc::SYS_pidfd_open, &[]),
    row("pread64", libc::SYS_pread64, &["files", "processes"]),
    row("preadv2", libc::SYS_preadv2, &[]),
    row("prctl", libc::SYS_prctl, &[]),
    row("pwrite64", libc::SYS_pwrite64, &["files"]),
    row("read", libc::SYS_read, &["files", "processes"]).waits(),
    row("recvfrom", libc::SYS_recvfrom, NET).waits(),
    row("recvmsg", libc::SYS_recvmsg, NET).waits(),
    row("rt_sigaction", libc::SYS_rt_sigaction, TICKS),
    row("rt_sigprocmask", libc::SYS_rt_sigprocmask, &[]),
    row("sched_getaffinity", libc::SYS_sched_getaffinity, &[]),
    row("sched_setaffinity", libc::SYS_sched_setaffinity, &[]),
    row("sendmsg", libc::SYS_sendmsg, NET).waits(),
    row("sendto", libc::SYS_sendto, NET).waits(),
    row("setsockopt", libc::SYS_setsockopt, NET),
    row("shutdown", libc::SYS_shutdown, NET),
    row("sigaltstack", libc::SYS_sigaltstack, &[]),
    row("socket", libc::SYS_socket, NET),
    row("socketpair", libc::SYS_socketpair, &["sockets", "processes"]),
    row("tgkill", libc::SYS_tgkill, &[]),
    row("timer_create", libc::SYS_timer_create, TICKS),
    row("timer_delete", libc::SYS_timer_delete, &[]),
    row("timer_settime", libc::SYS_timer_settime, TICKS),
    row("wait4", libc::SYS_wait4, &["processes"]),
    row("waitid", libc::SYS_waitid, &["processes"]),
    row("write", libc::SYS_write, &["files", "processes"]),
    row("writev", libc::SYS_writev, &[]),
];

/// Those without which the C library ends the process, or nothing can be told apart from a program that goes on; and those that fail by themselves.
#[allow(dead_code, reason = "the documents name them")]
pub(crate) const UNTESTED: &[&str] = &["close", "exit_group", "futex", "getpid", "kill", "rseq", "rt_sigreturn", "sched_yield"];
