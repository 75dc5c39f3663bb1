//! Calls that are tried in place before they wait.

use super::super::{Blocking, Class, Row, Rule, State, Trial};
use super::rows;

/// What all calls on descriptors depend on.
const FDS: State = State::DESCRIPTORS;
/// The same for calls that name a peer, or show it credentials.
const PEERS: State = FDS.and(State::CREDENTIALS).and(State::NAMESPACES);
const IPC: State = State::CREDENTIALS.and(State::NAMESPACES);

pub(in super::super) const TRIED: &[Row] = rows! {
    [Class::Try(Trial::Read), Long, reads FDS]
    "Waits for a peer, a timer, a user or a disk, as the kind of file is."
    0 read, 19 readv;

    [Class::Try(Trial::Write), Long, reads FDS]
    "As read; SIGPIPE goes to the kernel thread that writes."
    1 write, 20 writev;

    [Class::Try(Trial::ReadAt), Long, reads FDS]
    "A file with positions: its data are in memory, or a disk is waited for."
    17 pread64, 295 preadv, 327 preadv2;

    [Class::Try(Trial::WriteAt), Long, reads FDS.and(State::CREDENTIALS)]
    "Writes to a file: a disk is waited for, and SIGXFSZ goes to the kernel thread that writes. \
        Threads with a priority of their own for disks stay at home."
    18 pwrite64, 296 pwritev, 328 pwritev2;

    [Class::Try(Trial::Receive), Long, reads FDS; by Flags4]
    "Waits for a peer."
    45 recvfrom, 299 recvmmsg;

    [Class::Try(Trial::Receive), Long, reads FDS; by Flags]
    "Waits for a peer."
    47 recvmsg;

    [Class::Try(Trial::Send), Long, reads PEERS; by Quiet4]
    "Waits for room at the peer; SIGPIPE goes to the kernel thread that sends."
    44 sendto, 307 sendmmsg;

    [Class::Try(Trial::Send), Long, reads PEERS; by Quiet]
    "Waits for room at the peer; SIGPIPE goes to the kernel thread that sends."
    46 sendmsg;

    [Class::Try(Trial::Accept), Long, reads PEERS]
    "Waits for a peer."
    43 accept, 288 accept4;

    [Class::Try(Trial::Connect), Long, reads PEERS.and(State::DIRECTORIES)]
    "Waits for a peer, and for a Unix socket with a full queue no event tells when to try again."
    42 connect;

    [Class::Try(Trial::Poll), Long, reads FDS; by Timeout]
    "Waits for one of several descriptors."
    7 poll;

    [Class::Try(Trial::Poll), Long, reads FDS; by Mask]
    "As poll; the kernel swaps the mask of the kernel thread that waits."
    271 ppoll;

    [Class::Try(Trial::Select), Long, reads FDS.and(State::PERSONALITY)]
    "As poll; a personality decides whether the remaining time is written back."
    23 select;

    [Class::Try(Trial::Select), Long, reads FDS.and(State::PERSONALITY); by MaskSixth]
    "As select; the kernel swaps the mask of the kernel thread that waits."
    270 pselect6;

    [Class::Try(Trial::Epoll), Long, reads FDS; by EpollTimeout]
    "An epoll is a descriptor that can be polled."
    232 epoll_wait;

    [Class::Try(Trial::Epoll), Long, reads FDS; by EpollMask]
    "As epoll_wait; the kernel swaps the mask of the kernel thread that waits."
    281 epoll_pwait;

    [Class::Try(Trial::Epoll), Long, reads FDS; by EpollMask2]
    "As epoll_wait; the kernel swaps the mask of the kernel thread that waits."
    441 epoll_pwait2;

    [Class::Try(Trial::Child), Long, reads FDS; by ChildOf]
    "Children are the process's, unless the caller asks for its own thread's. A pidfd tells their \
        end, and nothing else about them."
    61 wait4;

    [Class::Try(Trial::Child), Long, reads FDS; by ChildBy]
    "As wait4."
    247 waitid;

    [Class::Try(Trial::Semaphore), Long, reads IPC.and(State::UNDO)]
    "Mostly it need not wait. Threads share the list of SEM_UNDO."
    65 semop, 220 semtimedop;

    [Class::Try(Trial::Message), Long, reads IPC; by NoWait]
    "Mostly it need not wait."
    69 msgsnd;

    [Class::Try(Trial::Message), Long, reads IPC; by NoWait5]
    "Mostly it need not wait."
    70 msgrcv;

    [Class::Try(Trial::Queue), Long, reads FDS]
    "A queue of POSIX messages is a descriptor that can be polled."
    242 mq_timedsend, 243 mq_timedreceive;
};
