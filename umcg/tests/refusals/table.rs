//! The effect of each system call's refusal. `docs/refusals.md` says it in words, a row for each
//! call; a test holds the two, and the sources, to each other.

/// A call, and the operations that may fail when it is refused, with an error that says why.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    /// Parts of the workload. The part `runtime` means that no runtime can be made.
    pub(crate) fails: &'static [&'static str],
    /// It may end the process, with a line that says why.
    pub(crate) ends: Ends,
    /// EAGAIN of it always means "not now", and is waited out: nothing else can be made of it.
    pub(crate) waits: bool,
    /// It is not refused for a moment: the C library ends a process if one of its threads is
    /// refused a call that another one is granted.
    pub(crate) is_for_all_threads: bool,
    /// It stands in for these, which are refused as well.
    pub(crate) instead_of: &'static [i64],
    /// Without it from the start the C library's change of credentials does not come to its end.
    pub(crate) keeps_credentials: bool,
}

/// When a refusal may end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Never,
    /// Where the call was granted before.
    Later,
    Always,
}

const fn row(name: &'static str, number: i64, fails: &'static [&'static str]) -> Row {
    Row {
        name,
        number,
        fails,
        ends: Ends::Never,
        waits: false,
        is_for_all_threads: false,
        instead_of: &[],
        keeps_credentials: false,
    }
}

impl Row {
    const fn ends(mut self, ends: Ends) -> Row {
        self.ends = ends;
        self
    }

    const fn of_the_process(mut self) -> Row {
        self.is_for_all_threads = true;
        self
    }

    const fn keeps_credentials(mut self) -> Row {
        self.keeps_credentials = true;
        self
    }

    const fn instead_of(mut self, others: &'static [i64]) -> Row {
        self.instead_of = others;
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
const CREDENTIALS: &[&str] = &["credentials"];
const SHARED: &[&str] = &["segment"];
const FILES: &[&str] = &["files", "helpers"];
/// Operations that need a new kernel thread. Std's own threads and processes are among them.
const THREADS: &[&str] = &[
    "runtime",
    "waits",
    "processes",
    "blocking",
    "servers",
    "segment",
    "words",
    "credentials",
];
/// Operations that need new memory, too.
const MEMORY: &[&str] = &[
    "runtime",
    "workers",
    "waits",
    "processes",
    "blocking",
    "preemption",
    "servers",
    "segment",
    "words",
    "credentials",
];

/// The call that existed before `epoll_pwait`.
const OTHER_WAITS: &[i64] = &[
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

pub(crate) const TESTED: &[Row] = &[
    row("accept4", libc::SYS_accept4, NET).waits(),
    row("bind", libc::SYS_bind, NET),
    row("clone3", libc::SYS_clone3, THREADS),
    row("connect", libc::SYS_connect, NET),
    row("epoll_create1", libc::SYS_epoll_create1, ONLY_AT_START),
    row(
        "epoll_ctl",
        libc::SYS_epoll_ctl,
        &["runtime", "sockets", "readiness", "processes"],
    ),
    row("epoll_pwait", libc::SYS_epoll_pwait, ONLY_AT_START)
        .ends(Ends::Later)
        .instead_of(OTHER_WAITS),
    row("epoll_pwait2", libc::SYS_epoll_pwait2, &[]),
    row("eventfd2", libc::SYS_eventfd2, ONLY_AT_START),
    row("fcntl", libc::SYS_fcntl, &["segment", "readiness"]),
    row("fdatasync", libc::SYS_fdatasync, FILES),
    row("fstat", libc::SYS_fstat, SHARED),
    row("fsync", libc::SYS_fsync, FILES),
    row("ftruncate", libc::SYS_ftruncate, SHARED),
    row("futex_waitv", libc::SYS_futex_waitv, &[]),
    row("get_robust_list", libc::SYS_get_robust_list, &[]),
    row("getcpu", libc::SYS_getcpu, &[])
        .ends(Ends::Later)
        .instead_of(&[libc::SYS_membarrier]),
    row("getdents64", libc::SYS_getdents64, &[]).instead_of(&[libc::SYS_membarrier]),
    row("getgroups", libc::SYS_getgroups, CREDENTIALS).ends(Ends::Always),
    row("getpeername", libc::SYS_getpeername, NET),
    row("getpriority", libc::SYS_getpriority, &[]),
    row("getresgid", libc::SYS_getresgid, CREDENTIALS).ends(Ends::Always),
    row("getresuid", libc::SYS_getresuid, CREDENTIALS).ends(Ends::Always),
    row("getsockname", libc::SYS_getsockname, NET),
    row("getsockopt", libc::SYS_getsockopt, NET),
    row("gettid", libc::SYS_gettid, &["runtime", "servers"]).keeps_credentials(),
    row("io_uring_enter", libc::SYS_io_uring_enter, &[]),
    row("io_uring_register", libc::SYS_io_uring_register, &[]),
    row("io_uring_setup", libc::SYS_io_uring_setup, &[]),
    row("ioprio_get", libc::SYS_ioprio_get, &[]),
    row("ioprio_set", libc::SYS_ioprio_set, &[]),
    row("ioctl", libc::SYS_ioctl, &[]),
    row("listen", libc::SYS_listen, NET),
    row("madvise", libc::SYS_madvise, &[]),
    row("membarrier", libc::SYS_membarrier, &[]),
    row("memfd_create", libc::SYS_memfd_create, SHARED),
    row("mincore", libc::SYS_mincore, &[]),
    row("mmap", libc::SYS_mmap, MEMORY).ends(Ends::Later),
    row("mprotect", libc::SYS_mprotect, MEMORY).ends(Ends::Later),
    row("munmap", libc::SYS_munmap, &[]),
    row(
        "openat",
        libc::SYS_openat,
        &["files", "helpers", "processes", "segment", "credentials"],
    ),
    row("pidfd_open", libc::SYS_pidfd_open, &[]),
    row("poll", libc::SYS_ppoll, &["readiness"]),
    row("prctl", libc::SYS_prctl, &[]),
    row(
        "pread64",
        libc::SYS_pread64,
        &["files", "helpers", "processes"],
    ),
    row("preadv2", libc::SYS_preadv2, &[]),
    row("pwrite64", libc::SYS_pwrite64, FILES),
    row(
        "read",
        libc::SYS_read,
        &["files", "helpers", "processes", "credentials"],
    )
    .waits(),
    row("recvfrom", libc::SYS_recvfrom, NET).waits(),
    row("recvmsg", libc::SYS_recvmsg, &["vectored"]).waits(),
    row("rt_sigaction", libc::SYS_rt_sigaction, TICKS),
    row("rt_sigprocmask", libc::SYS_rt_sigprocmask, &[]).keeps_credentials(),
    row(
        "rt_tgsigqueueinfo",
        libc::SYS_rt_tgsigqueueinfo,
        CREDENTIALS,
    )
    .ends(Ends::Always),
    row("sched_getaffinity", libc::SYS_sched_getaffinity, &[]),
    row("sched_getparam", libc::SYS_sched_getparam, &[]),
    row("sched_getscheduler", libc::SYS_sched_getscheduler, &[]),
    row("sched_setaffinity", libc::SYS_sched_setaffinity, &[]),
    row("sched_setscheduler", libc::SYS_sched_setscheduler, &[]),
    row("sendmsg", libc::SYS_sendmsg, &["vectored"]).waits(),
    row("sendto", libc::SYS_sendto, NET).waits(),
    row("setgroups", libc::SYS_setgroups, CREDENTIALS).of_the_process(),
    row("setpriority", libc::SYS_setpriority, &[]),
    row("setresgid", libc::SYS_setresgid, CREDENTIALS).ends(Ends::Always),
    row("setresuid", libc::SYS_setresuid, CREDENTIALS).ends(Ends::Always),
    row("setsockopt", libc::SYS_setsockopt, NET),
    row("shutdown", libc::SYS_shutdown, NET),
    row("sigaltstack", libc::SYS_sigaltstack, &[]),
    row("socket", libc::SYS_socket, NET),
    row(
        "socketpair",
        libc::SYS_socketpair,
        &["sockets", "vectored", "processes"],
    ),
    row("tgkill", libc::SYS_tgkill, CREDENTIALS),
    row("timer_create", libc::SYS_timer_create, TICKS),
    row("timer_delete", libc::SYS_timer_delete, &[]),
    row("timer_settime", libc::SYS_timer_settime, TICKS),
    row("wait4", libc::SYS_wait4, &["processes"]),
    row(
        "write",
        libc::SYS_write,
        &["files", "helpers", "readiness", "processes"],
    ),
    row(
        "writev",
        libc::SYS_writev,
        &[
            "runtime",
            "sockets",
            "readiness",
            "files",
            "helpers",
            "processes",
        ],
    )
    .ends(Ends::Later)
    .instead_of(&[libc::SYS_epoll_ctl, libc::SYS_write]),
];

/// Calls without which the C library ends the process, or without which a program cannot be told
/// from one that goes on; calls that fail by themselves; and calls that only `umcg run` makes, of
/// which the workload has none.
pub(crate) const UNTESTED: &[&str] = &[
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "fstatfs",
    "futex",
    "getpid",
    "getrusage",
    "kill",
    "lseek",
    "prlimit64",
    "process_vm_readv",
    "process_vm_writev",
    "pwritev2",
    "rseq",
    "rt_sigpending",
    "rt_sigqueueinfo",
    "rt_sigtimedwait",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "statx",
    "waitid",
];

/// Names in the sources that are no system call's, by their last part or more of them, and the
/// calls that they become.
pub(crate) const NAMES: &[(&str, &[&str])] = &[
    ("acceptfrom_with", &["accept4"]),
    ("epoll::add", &["epoll_ctl"]),
    ("epoll::create", &["epoll_create1"]),
    ("epoll::delete", &["epoll_ctl"]),
    ("epoll::modify", &["epoll_ctl"]),
    ("epoll_wait", &["epoll_pwait"]),
    ("eventfd", &["eventfd2"]),
    ("fcntl_add_seals", &["fcntl"]),
    ("fcntl_dupfd_cloexec", &["fcntl"]),
    ("fcntl_getfl", &["fcntl"]),
    ("futex::cmp_requeue", &["futex"]),
    ("futex::requeue", &["futex"]),
    ("futex::wait", &["futex"]),
    ("futex::wait_bitset", &["futex"]),
    ("futex::waitv", &["futex_waitv"]),
    ("futex::wake", &["futex"]),
    ("getrlimit", &["prlimit64"]),
    ("getpriority_process", &["getpriority"]),
    ("ioctl_fionbio", &["ioctl"]),
    ("nanosleep", &["clock_nanosleep"]),
    ("open", &["openat"]),
    ("RawDir::new", &["getdents64"]),
    ("pread", &["pread64"]),
    ("pthread_sigmask", &["rt_sigprocmask"]),
    ("pwrite", &["pwrite64"]),
    ("recv", &["recvfrom"]),
    ("send", &["sendto"]),
    ("set_ip_add_membership", &["setsockopt"]),
    ("set_ip_drop_membership", &["setsockopt"]),
    ("set_ipv6_add_membership", &["setsockopt"]),
    ("set_ipv6_drop_membership", &["setsockopt"]),
    ("set_socket_reuseaddr", &["setsockopt"]),
    ("setpriority_process", &["setpriority"]),
    ("sigaction", &["rt_sigaction"]),
    ("wake_op", &["futex"]),
    ("socket_error", &["getsockopt"]),
    ("seek", &["lseek"]),
    ("socket_protocol", &["getsockopt"]),
    ("socket_timeout", &["getsockopt"]),
    ("socket_type", &["getsockopt"]),
    ("socket_with", &["socket"]),
    // Of std, and of the crate for io_uring.
    ("thread::Builder::new", &["clone3"]),
    ("thread::spawn", &["clone3"]),
    ("thread::sleep", &["clock_nanosleep"]),
    ("process::Command::new", &["wait4", "waitid"]),
    ("IoUring::builder", &["io_uring_setup"]),
    ("register_probe", &["io_uring_register"]),
    ("register_sync_cancel", &["io_uring_register"]),
    ("submit_and_wait", &["io_uring_enter"]),
];

/// Names that become no call, or one of the loader's when the program starts; and numbers of calls
/// that programs under `umcg run` make, and the library only knows.
pub(crate) const NO_CALLS: &[&str] = &[
    "__errno_location",
    "brk",
    "clone",
    "dl_iterate_phdr",
    "dlinfo",
    "dlopen",
    "dlsym",
    "dup2",
    "dup3",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "free",
    "from",
    "getauxval",
    "getenv",
    "isalpha",
    "malloc",
    "mremap",
    "readv",
    "sigfillset",
    "stdin",
    "syscall",
    "sysconf",
    "uselocale",
    "vfork",
];
