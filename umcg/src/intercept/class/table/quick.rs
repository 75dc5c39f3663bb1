//! Calls that pass, are watched, are answered by the library, or make threads.

use super::super::{Blocking, Class, Made, Row, Rule, State, User, Watched};
use super::rows;

/// What most calls on descriptors depend on.
const FDS: State = State::DESCRIPTORS;
/// The same for calls that make descriptors: limits are a user's.
const NEW: State = State::DESCRIPTORS.and(State::CREDENTIALS);
const NET: State = NEW.and(State::NAMESPACES);

pub(in super::super) const QUICK: &[Row] = rows! {
    [Class::Pass, Never, reads State::NONE]
    "Each thread of the process gets the same answer."
    36 getitimer, 39 getpid, 96 gettimeofday, 97 getrlimit, 99 sysinfo, 100 times, 110 getppid,
    111 getpgrp, 121 getpgid, 124 getsid, 146 sched_get_priority_max, 147 sched_get_priority_min,
    201 time;

    [Class::Pass, Never, reads State::NONE]
    "The processor that the code runs on is the server's: the home's would be wrong."
    309 getcpu;

    [Class::Pass, Briefly, reads State::NONE]
    "Timers are the process's: whichever thread sets them, their signals go to the thread or \
        process that was named."
    224 timer_gettime, 225 timer_getoverrun;

    [Class::Pass, Briefly, reads State::CREDENTIALS]
    "Limits are the process's; to raise one is a right of the user."
    160 setrlimit, 302 prlimit64;

    [Class::Pass, Never, reads State::NAMESPACES.and(State::PERSONALITY)]
    "The names are those of a namespace."
    63 uname;

    [Class::Pass, Never, reads State::CREDENTIALS]
    "Threads have the same ids unless one of them asks the kernel for others behind the C \
        library's back."
    102 getuid, 104 getgid, 107 geteuid, 108 getegid, 115 getgroups, 118 getresuid, 120 getresgid;

    [Class::Pass, Briefly, reads State::DIRECTORIES]
    "Threads share the structure that has the directories and the umask."
    79 getcwd, 95 umask;

    [Class::Pass, Briefly, reads NEW]
    "Makes a descriptor of memory alone, or works on one; nothing is waited for."
    22 pipe, 32 dup, 213 epoll_create, 253 inotify_init, 255 inotify_rm_watch, 233 epoll_ctl,
    283 timerfd_create, 284 eventfd, 286 timerfd_settime, 287 timerfd_gettime, 290 eventfd2,
    291 epoll_create1, 293 pipe2, 294 inotify_init1, 319 memfd_create, 447 memfd_secret;

    [Class::Pass, Briefly, reads NET]
    "Sets up or asks about a socket; whatever waits for a peer is another call."
    41 socket, 48 shutdown, 50 listen, 51 getsockname, 52 getpeername, 53 socketpair, 55 getsockopt;

    [Class::Pass, Briefly, reads NET.and(State::DIRECTORIES)]
    "As socket; a Unix socket's name is made in a directory, which on a network takes long: rare."
    49 bind;

    [Class::Pass, Briefly, reads State::NONE]
    "Memory is the process's."
    12 brk, 27 mincore;

    [Class::Pass, Briefly, reads State::CREDENTIALS.and(State::NAMESPACES)]
    "Objects of System V IPC are the namespace's; these calls wait for no party."
    29 shmget, 30 shmat, 31 shmctl, 64 semget, 66 semctl, 67 shmdt, 68 msgget, 71 msgctl;

    [Class::Pass, Briefly, reads State::NONE]
    "Blocks only while the machine starts."
    318 getrandom;

    [Class::Watch(Watched::MapFile), Long, reads State::PERSONALITY.and(FDS); by Map]
    "New code has new sites; the code that it replaces may have had some. A file's daemon is asked."
    9 mmap;

    [Class::Watch(Watched::Protect), Briefly, reads State::PERSONALITY; by Protect]
    "New code has new sites."
    10 mprotect, 329 pkey_mprotect;

    [Class::Watch(Watched::Unmap), Briefly, reads State::NONE]
    "Patched sites may go, and others come to their addresses."
    11 munmap;

    [Class::Watch(Watched::Move), Briefly, reads State::NONE]
    "As munmap, at the old addresses and the new ones."
    25 mremap;

    [Class::Watch(Watched::Close), Long, reads FDS]
    "The library's descriptors stay; a closed one must not stay registered. The last close of a \
        file on a network or FUSE, or of a socket that lingers, waits."
    3 close;

    [Class::Watch(Watched::Replace), Long, reads FDS]
    "Closes the descriptor that it replaces."
    33 dup2, 292 dup3;

    [Class::Watch(Watched::CloseRange), Long, reads FDS, changes FDS]
    "Closes, also descriptors that the program never opened. No table of its own: EINVAL."
    436 close_range;

    [Class::Watch(Watched::Linger), Briefly, reads NET; by Linger]
    "The close of a socket that lingers waits for the peer."
    54 setsockopt;

    [Class::Watch(Watched::SignalFd), Briefly, reads NEW]
    "Reading and polling the descriptor look at the signals of the calling thread."
    282 signalfd, 289 signalfd4;

    [Class::User(User::Futex), Long, reads State::TID; by Futex]
    "The table of words has the waiters: the kernel does not know them."
    202 futex;

    [Class::User(User::FutexWaitv), Long, reads State::NONE]
    "As futex; if no word is private, at home."
    449 futex_waitv;

    [Class::User(User::Futex2), Long, reads State::NONE]
    "As futex: the kernel would miss the wake-ups of the table, and the table the kernel's."
    454 futex_wake, 455 futex_wait, 456 futex_requeue;

    [Class::User(User::Yield), Briefly, reads State::SCHEDULING]
    "The next worker of the server runs; now and then, or if there is none, a kernel thread."
    24 sched_yield;

    [Class::User(User::Sleep), Long, reads State::TIMES]
    "The worker parks. The timer slack is not the thread's."
    35 nanosleep;

    [Class::User(User::Tid), Never, reads State::TID]
    "On a server the kernel's answer is the server."
    186 gettid;

    [Class::User(User::Mask), Never, reads State::SIGNALS, changes State::SIGNALS]
    "The mask is the worker's; the kernel learns of it when it gets less strict."
    14 rt_sigprocmask;

    [Class::User(User::Action), Never, reads State::NONE]
    "The handler that the kernel knows is the library's."
    13 rt_sigaction;

    [Class::User(User::Refused), Never, reads State::AREAS, changes State::AREAS]
    "A sequence that changes its kernel thread in user mode is not restarted, and reads a wrong \
        processor: the program takes its other way."
    334 rseq;

    [Class::Thread(Made::Thread), Briefly, reads State::CREDENTIALS.and(State::SIGNALS); by Clone]
    "The child inherits the mask and the other state of the thread that calls."
    56 clone;

    [Class::Thread(Made::Clone3), Briefly, reads State::CREDENTIALS.and(State::SIGNALS)]
    "As clone; the flags are in memory."
    435 clone3;

    [Class::Thread(Made::Fork), Briefly, reads State::CREDENTIALS.and(State::SIGNALS)]
    "As clone; a signal at the parent's end is one at the end of the *thread* that forked."
    57 fork;

    [Class::Thread(Made::Vfork), Long, reads State::CREDENTIALS.and(State::SIGNALS)]
    "The kernel thread stands still until the child has another program, or ends."
    58 vfork;

    [Class::Thread(Made::Exec), Long, reads State::PATH.and(State::SIGNALS)]
    "The mask, the credentials and the personality are the caller's."
    59 execve, 322 execveat;

    [Class::Thread(Made::ExitThread), Briefly, reads State::AREAS.and(State::TID)]
    "The home ends, not the server: its robust list is walked, its word is cleared."
    60 exit;

    [Class::Thread(Made::ExitProcess), Briefly, reads State::NONE]
    "The library sees the end of the process."
    231 exit_group;

    [Class::Bare, Never, reads State::SIGNALS, changes State::SIGNALS]
    "The frame is at the stack pointer; unwinding knows the restorer by its bytes."
    15 rt_sigreturn;

    [Class::Bare, Never, reads State::NONE]
    "Only the kernel's own trampoline may make it: the address of the instruction is checked."
    335 uretprobe, 336 uprobe;
};
