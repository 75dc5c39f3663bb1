//! Classes that depend on arguments.
//!
//! A rule looks at registers alone: memory that an argument points to may be unmapped, or change
//! before the kernel reads it. It says Pass only for arguments that it knows.

use super::{Class, Made, State, User, Watched};
use libc::{c_int, c_ulong};

macro_rules! rules {
    ($($name:ident $decide:path, $text:literal;)+) => {
        /// How the arguments of a call decide.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rule {
            /// They do not.
            Never,
            $(#[doc = $text] $name,)+
        }

        impl Rule {
            /// The class for these arguments; `class` for those that the rule does not know.
            #[inline]
            pub(super) fn apply(self, class: Class, arguments: &[usize; 6]) -> Class {
                let known = match self {
                    Rule::Never => None,
                    $(Rule::$name => $decide(arguments),)+
                };
                known.unwrap_or(class)
            }

            /// The rule, for readers.
            pub(crate) const fn text(self) -> &'static str {
                match self {
                    Rule::Never => "",
                    $(Rule::$name => $text,)+
                }
            }
        }
    };
}

rules! {
    Bases bases, "ARCH_SET_FS, ARCH_GET_FS, ARCH_SET_GS, ARCH_GET_GS: user. ARCH_SET_CPUID, \
        ARCH_SHSTK_ENABLE, ARCH_SHSTK_DISABLE: change (machine).";
    ChildOf child_of, "WNOHANG: pass. No single child, WUNTRACED, WCONTINUED, `__WNOTHREAD` and \
        the like: home.";
    ChildBy child_by, "WNOHANG: pass. Other than WEXITED of P_PID or P_PIDFD: home.";
    Clone clone, "Without CLONE_VM: a fork. CLONE_THREAD: a thread. CLONE_VFORK: a vfork. Else a \
        process that shares the memory.";
    Clock clock, "Clocks of the system and of the process: pass. Those of a thread: user. Those of \
        a device: home.";
    EpollMask epoll_mask, "With a signal mask: home. Without one, timeout 0: pass.";
    EpollMask2 epoll_mask_2, "With a signal mask: home.";
    EpollTimeout timeout_fourth, "Timeout 0: pass.";
    Fcntl fcntl, "Copies, flags, owner but by F_SETOWN_EX, signal, size of a pipe, seals: pass.";
    Flags flags_third, "MSG_DONTWAIT: pass.";
    Flags4 flags_fourth, "MSG_DONTWAIT: pass.";
    Futex futex, "Private: user, unless PI. Not private: a wait is user, the rest pass. PI: home.";
    Ioctl ioctl, "FIONBIO, FIONREAD, FIOCLEX, FIONCLEX: pass.";
    Keyctl keyctl, "KEYCTL_JOIN_SESSION_KEYRING, KEYCTL_SET_REQKEY_KEYRING, \
        KEYCTL_ASSUME_AUTHORITY: change (credentials).";
    Linger linger, "Other than SO_LINGER: pass.";
    Lseek lseek, "SEEK_SET, SEEK_CUR: pass.";
    Madvise madvise, "Advice that reads nothing and collapses nothing (MADV_DONTNEED, MADV_FREE, \
        MADV_HUGEPAGE, guards, ...): pass.";
    Map map, "Neither PROT_EXEC nor MAP_FIXED: pass if anonymous, home if a file, or with \
        MAP_POPULATE or MAP_LOCKED.";
    Membarrier membarrier, "The expedited barriers of this process, and the query: pass.";
    Mask ppoll, "With a signal mask: home.";
    MaskSixth pselect, "With a pointer to a signal mask: home.";
    NoWait nowait_fourth, "IPC_NOWAIT: pass.";
    NoWait5 nowait_fifth, "IPC_NOWAIT: pass.";
    OfThread of_thread, "Thread id not 0: pass.";
    Personality personality, "Asking (0xffffffff): home.";
    Prctl prctl, "PR_SET_VMA, PR_GET_DUMPABLE: pass. PR_SET_KEEPCAPS, PR_CAPBSET_DROP, \
        PR_SET_SECUREBITS, PR_CAP_AMBIENT: change (credentials). PR_SET_SECCOMP, \
        PR_SET_NO_NEW_PRIVS, PR_SET_SYSCALL_USER_DISPATCH: change (filters). PR_SET_TSC: change \
        (machine).";
    Protect protect, "Without PROT_EXEC: pass.";
    Quiet quiet_third, "MSG_DONTWAIT with MSG_NOSIGNAL: pass.";
    Quiet4 quiet_fourth, "MSG_DONTWAIT with MSG_NOSIGNAL: pass.";
    Seccomp seccomp, "The questions (SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES): home.";
    Sleep sleep, "CLOCK_MONOTONIC, and CLOCK_REALTIME without TIMER_ABSTIME: user.";
    Timeout timeout_third, "Timeout 0: pass.";
    Unshare unshare, "Only the kinds that the flags name.";
    Usage usage, "RUSAGE_SELF, RUSAGE_CHILDREN: pass. RUSAGE_THREAD: user.";
}

impl Rule {
    /// Whether the calls may bring a mask of signals.
    pub(super) const fn has_mask(self) -> bool {
        matches!(
            self,
            Rule::EpollMask | Rule::EpollMask2 | Rule::Mask | Rule::MaskSixth
        )
    }
}

type Known = Option<Class>;

fn pass_if(is_so: bool) -> Known {
    is_so.then_some(Class::Pass)
}

fn home_if(is_so: bool) -> Known {
    is_so.then_some(Class::Home)
}

/// The kernel reads an int or unsigned int from the lower half of a register.
fn int(argument: usize) -> c_int {
    argument as c_int
}

fn has(argument: usize, flag: c_int) -> bool {
    int(argument) & flag != 0
}

fn bases(arguments: &[usize; 6]) -> Known {
    match arguments[0] {
        // ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS
        0x1001..=0x1004 => Some(Class::User(User::Base)),
        // ARCH_SET_CPUID, ARCH_SHSTK_ENABLE, ARCH_SHSTK_DISABLE
        0x1012 | 0x5001 | 0x5002 => Some(Class::Change(State::MACHINE)),
        _ => None,
    }
}

/// Options of a wait that ask for less or other than the end of a child of the process.
const OTHERWISE: c_int = libc::WUNTRACED | libc::WCONTINUED | libc::__WNOTHREAD;

fn child_of(arguments: &[usize; 6]) -> Known {
    let [child, _, options, ..] = *arguments;
    if has(options, libc::__WNOTHREAD) {
        return Some(Class::Home);
    }
    pass_if(has(options, libc::WNOHANG)).or(home_if(
        int(child) <= 0 || int(options) & !libc::__WALL != 0,
    ))
}

fn child_by(arguments: &[usize; 6]) -> Known {
    let [kind, _, _, options, ..] = *arguments;
    if has(options, libc::__WNOTHREAD) {
        return Some(Class::Home);
    }
    let is_one = matches!(kind as libc::idtype_t, libc::P_PID | libc::P_PIDFD);
    let is_end = has(options, libc::WEXITED) && !has(options, OTHERWISE);
    pass_if(has(options, libc::WNOHANG)).or(home_if(!is_one || !is_end))
}

fn clone(arguments: &[usize; 6]) -> Known {
    Some(Class::Thread(Made::by_flags(arguments[0] as u64)))
}

/// Whether this is the clock of a thread's processor time. Ids below 0 have a thread or process, or
/// a descriptor, in their upper bits.
pub(crate) fn is_of_thread(clock: c_int) -> bool {
    const KIND: c_int = 0b111;
    const OF_THREAD: std::ops::RangeInclusive<c_int> = 0b100..=0b110;
    clock == libc::CLOCK_THREAD_CPUTIME_ID || clock < 0 && OF_THREAD.contains(&(clock & KIND))
}

fn clock(arguments: &[usize; 6]) -> Known {
    let clock = int(arguments[0]);
    if is_of_thread(clock) {
        return Some(Class::User(User::ThreadClock));
    }
    pass_if(matches!(
        clock,
        libc::CLOCK_REALTIME
            | libc::CLOCK_MONOTONIC
            | libc::CLOCK_PROCESS_CPUTIME_ID
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_TAI
    ))
}

fn epoll_mask(arguments: &[usize; 6]) -> Known {
    home_if(arguments[4] != 0).or_else(|| timeout_fourth(arguments))
}

fn epoll_mask_2(arguments: &[usize; 6]) -> Known {
    home_if(arguments[4] != 0)
}

fn timeout_third(arguments: &[usize; 6]) -> Known {
    pass_if(int(arguments[2]) == 0)
}

fn timeout_fourth(arguments: &[usize; 6]) -> Known {
    pass_if(int(arguments[3]) == 0)
}

fn ppoll(arguments: &[usize; 6]) -> Known {
    home_if(arguments[3] != 0)
}

fn pselect(arguments: &[usize; 6]) -> Known {
    home_if(arguments[5] != 0)
}

fn fcntl(arguments: &[usize; 6]) -> Known {
    const F_DUPFD_QUERY: c_int = 1027;
    const F_CREATED_QUERY: c_int = 1028;
    const F_GETOWN_EX: c_int = 16;
    pass_if(matches!(
        int(arguments[1]),
        libc::F_DUPFD
            | libc::F_DUPFD_CLOEXEC
            | F_DUPFD_QUERY
            | F_CREATED_QUERY
            | libc::F_GETFD
            | libc::F_SETFD
            | libc::F_GETFL
            | libc::F_SETFL
            | libc::F_GETOWN
            | libc::F_SETOWN
            | F_GETOWN_EX
            | F_GETSIG
            | F_SETSIG
            | libc::F_GETPIPE_SZ
            | libc::F_SETPIPE_SZ
            | libc::F_GET_SEALS
            | libc::F_ADD_SEALS
    ))
}

const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;

fn flags_third(arguments: &[usize; 6]) -> Known {
    pass_if(has(arguments[2], libc::MSG_DONTWAIT))
}

fn flags_fourth(arguments: &[usize; 6]) -> Known {
    pass_if(has(arguments[3], libc::MSG_DONTWAIT))
}

/// Without MSG_NOSIGNAL the SIGPIPE would go to a server.
fn is_quiet(flags: usize) -> bool {
    has(flags, libc::MSG_DONTWAIT) && has(flags, libc::MSG_NOSIGNAL)
}

fn quiet_third(arguments: &[usize; 6]) -> Known {
    pass_if(is_quiet(arguments[2]))
}

fn quiet_fourth(arguments: &[usize; 6]) -> Known {
    pass_if(is_quiet(arguments[3]))
}

fn nowait_fourth(arguments: &[usize; 6]) -> Known {
    pass_if(has(arguments[3], libc::IPC_NOWAIT))
}

fn nowait_fifth(arguments: &[usize; 6]) -> Known {
    pass_if(has(arguments[4], libc::IPC_NOWAIT))
}

fn futex(arguments: &[usize; 6]) -> Known {
    let operation = int(arguments[1]);
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG != 0;
    let wait = match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => true,
        libc::FUTEX_WAKE
        | libc::FUTEX_REQUEUE
        | libc::FUTEX_CMP_REQUEUE
        | libc::FUTEX_WAKE_OP
        | libc::FUTEX_WAKE_BITSET => false,
        // Those of priority inheritance ask for the id of the thread.
        _ => return Some(Class::Home),
    };
    Some(match (is_private, wait) {
        (true, _) => Class::User(User::Futex),
        (false, true) => Class::User(User::SharedWait),
        (false, false) => Class::Pass,
    })
}

fn ioctl(arguments: &[usize; 6]) -> Known {
    let request = arguments[1] as u32 as c_ulong;
    pass_if(
        request == libc::FIONBIO as c_ulong
            || request == libc::FIONREAD as c_ulong
            || request == libc::FIOCLEX as c_ulong
            || request == libc::FIONCLEX as c_ulong,
    )
}

fn keyctl(arguments: &[usize; 6]) -> Known {
    // KEYCTL_JOIN_SESSION_KEYRING, KEYCTL_SET_REQKEY_KEYRING, KEYCTL_ASSUME_AUTHORITY
    matches!(int(arguments[0]), 1 | 14 | 16).then_some(Class::Change(State::CREDENTIALS))
}

fn linger(arguments: &[usize; 6]) -> Known {
    let [_, level, option, ..] = *arguments;
    pass_if(int(level) != libc::SOL_SOCKET || int(option) != libc::SO_LINGER)
}

fn lseek(arguments: &[usize; 6]) -> Known {
    pass_if(matches!(int(arguments[2]), libc::SEEK_SET | libc::SEEK_CUR))
}

fn madvise(arguments: &[usize; 6]) -> Known {
    const GUARD_INSTALL: c_int = 102;
    const GUARD_REMOVE: c_int = 103;
    pass_if(matches!(
        int(arguments[2]),
        libc::MADV_NORMAL
            | libc::MADV_RANDOM
            | libc::MADV_SEQUENTIAL
            | libc::MADV_DONTNEED
            | libc::MADV_FREE
            | libc::MADV_DONTFORK
            | libc::MADV_DOFORK
            | libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE
            | libc::MADV_DONTDUMP
            | libc::MADV_DODUMP
            | libc::MADV_WIPEONFORK
            | libc::MADV_KEEPONFORK
            | libc::MADV_COLD
            | GUARD_INSTALL
            | GUARD_REMOVE
    ))
}

fn map(arguments: &[usize; 6]) -> Known {
    let [_, _, protection, flags, ..] = *arguments;
    let is_seen = has(protection, libc::PROT_EXEC) || has(flags, libc::MAP_FIXED);
    let is_at_once = has(flags, libc::MAP_POPULATE | libc::MAP_LOCKED);
    Some(
        match (is_seen, has(flags, libc::MAP_ANONYMOUS) && !is_at_once) {
            (true, true) => Class::Watch(Watched::Map),
            (true, false) => Class::Watch(Watched::MapFile),
            (false, true) => Class::Pass,
            (false, false) => Class::Home,
        },
    )
}

fn protect(arguments: &[usize; 6]) -> Known {
    pass_if(!has(arguments[2], libc::PROT_EXEC))
}

fn membarrier(arguments: &[usize; 6]) -> Known {
    pass_if(matches!(
        int(arguments[0]),
        libc::MEMBARRIER_CMD_QUERY
            | libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED
            | libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
            | libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
    ))
}

fn of_thread(arguments: &[usize; 6]) -> Known {
    pass_if(int(arguments[0]) != 0)
}

fn personality(arguments: &[usize; 6]) -> Known {
    home_if(arguments[0] as u32 == u32::MAX)
}

fn prctl(arguments: &[usize; 6]) -> Known {
    const PR_SET_VMA: c_int = 0x5356_4d41;
    match int(arguments[0]) {
        PR_SET_VMA | libc::PR_GET_DUMPABLE => Some(Class::Pass),
        libc::PR_SET_KEEPCAPS
        | libc::PR_CAPBSET_DROP
        | libc::PR_SET_SECUREBITS
        | libc::PR_CAP_AMBIENT => Some(Class::Change(State::CREDENTIALS)),
        libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS | PR_SET_SYSCALL_USER_DISPATCH => {
            Some(Class::Change(State::FILTERS))
        }
        libc::PR_SET_TSC => Some(Class::Change(State::MACHINE)),
        _ => None,
    }
}

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

fn seccomp(arguments: &[usize; 6]) -> Known {
    // SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES
    home_if(matches!(int(arguments[0]), 2 | 3))
}

fn sleep(arguments: &[usize; 6]) -> Known {
    let [clock, flags, ..] = *arguments;
    // An absolute time of CLOCK_REALTIME moves when the clock is set.
    let is_plain = match int(clock) {
        libc::CLOCK_MONOTONIC => true,
        libc::CLOCK_REALTIME => !has(flags, libc::TIMER_ABSTIME),
        _ => false,
    };
    is_plain.then_some(Class::User(User::Sleep))
}

fn unshare(arguments: &[usize; 6]) -> Known {
    let state = State::of_unshare(arguments[0] as u64);
    Some(if state.is_none() {
        Class::Home
    } else {
        Class::Change(state)
    })
}

fn usage(arguments: &[usize; 6]) -> Known {
    match int(arguments[0]) {
        libc::RUSAGE_SELF | libc::RUSAGE_CHILDREN => Some(Class::Pass),
        libc::RUSAGE_THREAD => Some(Class::User(User::ThreadUsage)),
        _ => None,
    }
}
