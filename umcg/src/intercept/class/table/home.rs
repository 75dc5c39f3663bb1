//! Calls that only the home thread makes.

use super::super::{Blocking, Class, Row, Rule, State};
use super::rows;

const FDS: State = State::DESCRIPTORS;
const RIGHTS: State = State::CREDENTIALS;
const AT: State = State::PATH.and(FDS);
/// For a thread with namespaces of its own it has directories of its own, too.
const UNSHARED: State = State::NAMESPACES
    .and(State::DIRECTORIES)
    .and(FDS)
    .and(State::UNDO)
    .and(RIGHTS);
/// What comes with another namespace.
const ENTERED: State = State::NAMESPACES.and(RIGHTS).and(State::DIRECTORIES);
/// What prctl(2) sets besides common state.
const OPTIONS: State = State::MISCELLANY
    .and(State::TIMES)
    .and(State::IO)
    .and(State::TRACING)
    .and(State::SCHEDULING);

pub(in super::super) const HOME: &[Row] = rows! {
    [Class::Home, Long, reads AT]
    "Looks up a path: a disk, a server of a network or a daemon of FUSE is waited for, and by open \
        also the peer of a FIFO."
    2 open, 4 stat, 6 lstat, 21 access, 76 truncate, 80 chdir, 82 rename, 83 mkdir, 84 rmdir,
    85 creat, 86 link, 87 unlink, 88 symlink, 89 readlink, 90 chmod, 92 chown, 94 lchown, 132 utime,
    133 mknod, 137 statfs, 161 chroot, 188 setxattr, 189 lsetxattr, 191 getxattr, 192 lgetxattr,
    194 listxattr, 195 llistxattr, 197 removexattr, 198 lremovexattr, 235 utimes,
    254 inotify_add_watch, 257 openat, 258 mkdirat, 259 mknodat, 260 fchownat, 261 futimesat,
    262 newfstatat, 263 unlinkat, 264 renameat, 265 linkat, 266 symlinkat, 267 readlinkat,
    268 fchmodat, 269 faccessat, 280 utimensat, 303 name_to_handle_at, 304 open_by_handle_at,
    316 renameat2, 332 statx, 437 openat2, 439 faccessat2, 452 fchmodat2, 463 setxattrat,
    464 getxattrat, 465 listxattrat, 466 removexattrat, 468 file_getattr, 469 file_setattr;

    [Class::Home, Long, reads FDS.and(RIGHTS).and(State::IO)]
    "Works on a file: a disk, a server of a network or a daemon of FUSE is waited for."
    5 fstat, 26 msync, 74 fsync, 75 fdatasync, 77 ftruncate, 78 getdents, 81 fchdir, 91 fchmod,
    93 fchown, 138 fstatfs, 162 sync, 187 readahead, 190 fsetxattr, 193 fgetxattr, 196 flistxattr,
    199 fremovexattr, 217 getdents64, 221 fadvise64, 277 sync_file_range, 285 fallocate,
    306 syncfs, 451 cachestat;

    [Class::Home, Long, reads FDS; by Lseek]
    "The end, data and holes of a file are known to its file system."
    8 lseek;

    [Class::Home, Long, reads FDS.and(State::IO)]
    "Two files, either of which may block; the flag for a try is only for pipes."
    40 sendfile, 275 splice, 276 tee, 278 vmsplice, 326 copy_file_range;

    [Class::Home, Long, reads FDS]
    "No event tells when a lock is free, and on a network to try is a message to its server."
    73 flock;

    [Class::Home, Long, reads FDS.and(RIGHTS); by Fcntl]
    "Locks as flock; a lease and a notice of a directory name the calling thread as their owner."
    72 fcntl;

    [Class::Home, Long, reads FDS.and(RIGHTS).and(State::SIGNALS); by Ioctl]
    "A driver does as it likes. A terminal asks for the thread's mask to decide whether to stop \
        the process."
    16 ioctl;

    [Class::Home, Briefly, reads RIGHTS.and(State::SIGNALS).and(State::TID)]
    "A signal to the caller itself is delivered before the call returns; information about the \
        sender is checked against the thread id."
    62 kill, 129 rt_sigqueueinfo, 200 tkill, 234 tgkill, 297 rt_tgsigqueueinfo,
    424 pidfd_send_signal;

    [Class::Home, Briefly, reads State::SIGNALS]
    "A signal that the timer has sent before it is stopped is delivered before the call returns."
    37 alarm, 38 setitimer, 223 timer_settime, 226 timer_delete;

    [Class::Home, Long, reads State::SIGNALS, changes State::SIGNALS]
    "The signals pending for the thread and the kernel's mask are the home's: first give the \
        kernel the logical mask."
    34 pause, 127 rt_sigpending, 128 rt_sigtimedwait, 130 rt_sigsuspend;

    [Class::Home, Never, reads State::SIGNALS, changes State::SIGNALS]
    "The alternate stack is a thread's: handlers run at home."
    131 sigaltstack;

    [Class::Home, Briefly, reads RIGHTS.and(State::SCHEDULING), changes State::SCHEDULING]
    "Priority, nice value and affinity are a thread's. They hold at home only: a server has its \
        own."
    141 setpriority, 142 sched_setparam, 144 sched_setscheduler, 203 sched_setaffinity,
    314 sched_setattr;

    [Class::Home, Never, reads State::SCHEDULING]
    "Id 0 is the calling thread."
    140 getpriority;

    [Class::Home, Never, reads State::SCHEDULING; by OfThread]
    "Id 0 is the calling thread."
    143 sched_getparam, 145 sched_getscheduler, 148 sched_rr_get_interval, 204 sched_getaffinity,
    315 sched_getattr;

    [Class::Home, Briefly, reads RIGHTS.and(State::IO), changes State::IO]
    "The priority of requests to disks is a thread's: one with a priority of its own stays at home."
    251 ioprio_set, 252 ioprio_get;

    [Class::Home, Never, reads State::AREAS.and(State::TID), changes State::AREAS]
    "The kernel reads these addresses at the end of the thread, which is the end of the home."
    218 set_tid_address, 273 set_robust_list, 274 get_robust_list;

    [Class::Home, Long, reads State::RESTART]
    "The kernel writes this number itself when it repeats a call after a signal, on the same \
        thread."
    219 restart_syscall;

    [Class::Home, Never, reads State::TIMES; by Usage]
    "For RUSAGE_THREAD the home's counts, and the time on servers as user time."
    98 getrusage;

    [Class::Home, Never, reads State::TIMES; by Clock]
    "A thread's clock is the home's, and its time on servers."
    228 clock_gettime, 229 clock_getres;

    [Class::Home, Long, reads State::TIMES; by Sleep]
    "Clocks that are set, that stop or that count processor time are followed by the kernel."
    230 clock_nanosleep;

    [Class::Home, Briefly, reads State::TIMES]
    "A timer may count the processor time of the calling thread."
    222 timer_create;

    [Class::Home, Long, reads State::NONE; by Madvise]
    "Advice that reads, moves or collapses pages takes long."
    28 madvise;

    [Class::Home, Long, reads State::POLICY.and(RIGHTS)]
    "Pages are read, moved or waited for."
    149 mlock, 150 munlock, 151 mlockall, 152 munlockall, 216 remap_file_pages, 237 mbind,
    256 migrate_pages, 279 move_pages, 325 mlock2, 440 process_madvise, 448 process_mrelease,
    450 set_mempolicy_home_node;

    [Class::Home, Never, reads State::POLICY]
    "The default policy is the calling thread's."
    239 get_mempolicy;

    [Class::Home, Briefly, reads RIGHTS]
    "Rare; nothing is gained in place."
    154 modify_ldt, 323 userfaultfd, 331 pkey_free, 453 map_shadow_stack, 462 mseal;

    [Class::Home, Long, reads FDS]
    "Requests to disks, which may be waited for already when they are handed over."
    206 io_setup, 207 io_destroy, 208 io_getevents, 209 io_submit, 210 io_cancel, 333 io_pgetevents;

    [Class::Home, Long, reads FDS.and(RIGHTS).and(State::RINGS), changes State::RINGS]
    "A ring may belong to the one thread that submits to it, and completions run in that thread."
    425 io_uring_setup, 426 io_uring_enter, 427 io_uring_register;

    [Class::Home, Long, reads RIGHTS.and(State::TRACING), changes State::TRACING]
    "A debugger is a thread, and what is counted by default is the calling one."
    101 ptrace, 298 perf_event_open;

    [Class::Home, Long, reads RIGHTS]
    "Another process's memory or descriptors; its locks and page faults are waited for."
    310 process_vm_readv, 311 process_vm_writev, 312 kcmp, 434 pidfd_open, 438 pidfd_getfd;

    [Class::Home, Long, reads RIGHTS; by Keyctl]
    "Keyrings are part of the credentials; a helper may be asked for a key."
    248 add_key, 249 request_key, 250 keyctl;

    [Class::Home, Briefly, reads RIGHTS]
    "Rare, or done once; nothing is gained in place."
    109 setpgid, 112 setsid, 125 capget, 240 mq_open, 241 mq_unlink, 244 mq_notify,
    245 mq_getsetattr, 300 fanotify_init, 301 fanotify_mark, 444 landlock_create_ruleset,
    445 landlock_add_rule, 459 lsm_get_self_attr, 461 lsm_list_modules, 471 rseq_slice_yield;

    [Class::Home, Long, reads State::NONE; by Membarrier]
    "To register, and the barrier of all processes, wait for each processor: milliseconds."
    324 membarrier;

    [Class::Home, Never, reads OPTIONS.and(State::FILTERS).and(State::MACHINE).and(RIGHTS),
        changes OPTIONS; by Prctl]
    "Most options are a thread's: its name, slack, counters, the signal at its parent's end."
    157 prctl;

    [Class::Home, Never, reads State::BASES.and(State::MACHINE), changes State::BASES; by Bases]
    "Registers are the thread's; permission for more of them is the process's."
    158 arch_prctl;

    [Class::Home, Long, reads AT]
    "For the administrator: changes the machine, or mounts."
    103 syslog, 136 ustat, 139 sysfs, 153 vhangup, 155 pivot_root, 159 adjtimex, 163 acct,
    164 settimeofday, 165 mount, 166 umount2, 167 swapon, 168 swapoff, 169 reboot, 170 sethostname,
    171 setdomainname, 175 init_module, 176 delete_module, 179 quotactl, 227 clock_settime,
    246 kexec_load, 305 clock_adjtime, 313 finit_module, 320 kexec_file_load, 321 bpf,
    428 open_tree, 429 move_mount, 430 fsopen, 431 fsconfig, 432 fsmount, 433 fspick,
    442 mount_setattr, 443 quotactl_fd, 457 statmount, 458 listmount, 467 open_tree_attr,
    470 listns;

    [Class::Home, Never, reads State::NONE]
    "No kernel has such a call any more, or for this processor."
    134 uselib, 156 _sysctl, 174 create_module, 177 get_kernel_syms, 178 query_module,
    180 nfsservctl, 181 getpmsg, 182 putpmsg, 183 afs_syscall, 184 tuxcall, 185 security,
    205 set_thread_area, 211 get_thread_area, 212 lookup_dcookie, 214 epoll_ctl_old,
    215 epoll_wait_old, 236 vserver;

    [Class::Change(RIGHTS), Briefly, reads RIGHTS, changes RIGHTS]
    "Credentials are a thread's in the kernel. The C library changes them in all threads that it \
        knows."
    105 setuid, 106 setgid, 113 setreuid, 114 setregid, 116 setgroups, 117 setresuid,
    119 setresgid, 122 setfsuid, 123 setfsgid, 126 capset, 460 lsm_set_self_attr;

    [Class::Change(UNSHARED), Briefly, reads RIGHTS, changes UNSHARED; by Unshare]
    "The thread gets a copy of state that threads share, and no longer shares it."
    272 unshare;

    [Class::Change(ENTERED), Briefly, reads RIGHTS.and(FDS), changes ENTERED]
    "The thread enters other namespaces."
    308 setns;

    [Class::Change(State::FILTERS), Briefly, reads RIGHTS, changes State::FILTERS; by Seccomp]
    "The filter is for the calling thread, unless it asks for all: what passes on servers would \
        not be filtered."
    317 seccomp;

    [Class::Change(State::FILTERS), Briefly, reads RIGHTS.and(FDS), changes State::FILTERS]
    "The restriction is for the calling thread, unless it asks for all."
    446 landlock_restrict_self;

    [Class::Change(State::PERSONALITY), Never, reads State::PERSONALITY, changes State::PERSONALITY;
        by Personality]
    "Decides about maps, names and timeouts of the calling thread."
    135 personality;

    [Class::Change(State::POLICY), Briefly, reads State::POLICY, changes State::POLICY]
    "Decides where the page faults of the calling thread take memory from."
    238 set_mempolicy;

    [Class::Change(State::MACHINE), Briefly, reads RIGHTS, changes State::MACHINE]
    "Decides which instructions and accesses of the calling thread fault."
    172 iopl, 173 ioperm, 330 pkey_alloc;
};
