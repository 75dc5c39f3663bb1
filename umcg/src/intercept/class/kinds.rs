//! The handlers: what a hook does with a call that is not simply let through.

/// A call whose site the library sees for its own ends, before or after the kernel carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Anonymous memory that is executable, or replaces a mapping: new sites, or patched ones that
    /// are gone.
    Map,
    /// As `Map`, for a file, or for memory that is filled at once.
    MapFile,
    /// Memory becomes executable: new sites.
    Protect,
    /// A mapping goes, maybe with patched sites.
    Unmap,
    /// A mapping moves, or replaces another.
    Move,
    /// A descriptor is closed: refuse those of the library with EBADF, and forget the registration
    /// with the library's epoll *first*: it belongs to the file, and a copy would keep it alive.
    /// May be made in place if the descriptor is known to be a socket that does not linger, a pipe,
    /// or an event.
    Close,
    /// As `Close`, for each descriptor of a range; those of the library are left out.
    CloseRange,
    /// As `Close`, for the descriptor that is replaced.
    Replace,
    /// From now on closing a socket may wait: closes go home.
    Linger,
    /// A descriptor for signals is made: remember it. Reading and polling it depend on the signals
    /// that are pending for the calling thread, so both are done at home.
    SignalFd,
}

impl Watched {
    /// Whether the call may be made in place. The others belong at home, unless the handler knows
    /// the descriptor.
    pub(crate) const fn is_in_place(self) -> bool {
        match self {
            Watched::Map
            | Watched::Protect
            | Watched::Unmap
            | Watched::Move
            | Watched::Linger
            | Watched::SignalFd => true,
            // A file's server or daemon may be waited for.
            Watched::MapFile | Watched::Close | Watched::CloseRange | Watched::Replace => false,
        }
    }
}

/// A call that the library answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Operations on private words, from the table of words.
    Futex,
    /// A wait for a word that is not private. If the word is the thread id of a thread of ours, its
    /// end wakes it from the table of words (pthread_join waits so); else at home.
    SharedWait,
    /// Waiting for several words.
    FutexWaitv,
    /// The calls that replace futex(2) since Linux 6.7. The kernel's answer for private words would
    /// miss the wake-ups of futex(2), which never reach the kernel: the table's, or ENOSYS.
    Futex2,
    /// Gives the server to the next worker.
    Yield,
    /// A wait with a deadline that a signal ends.
    Sleep,
    /// The id of the home thread.
    Tid,
    /// The logical mask of the worker.
    Mask,
    /// The program's handlers, below the library's.
    Action,
    /// FS base: the worker's own. GS base: the library's; setting it is refused, reading it gives
    /// the value that the program expects.
    Base,
    /// The processor time of a thread: its home's and that on servers.
    ThreadClock,
    /// The same for the usage of the calling thread, at home.
    ThreadUsage,
    /// ENOSYS: a worker that changes its kernel thread inside of a restartable sequence is not
    /// restarted, and reads the number of a wrong CPU.
    Refused,
}

/// A call that may block, and can be tried so that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// By MSG_DONTWAIT, RWF_NOWAIT or after a poll, as the kind of file allows: sockets, pipes,
    /// events, timers. A terminal at home, where the kernel asks for the thread's mask to decide
    /// whether a background process stops; a descriptor for signals at home; a file by RWF_NOWAIT,
    /// then at home.
    Read,
    /// As `Read`, for sockets, pipes and events, and as `WriteAt` for files; all others at home
    /// (files of /proc take a thread's attributes from that thread only). A blocking write writes
    /// all. EPIPE comes with a SIGPIPE for the *kernel thread*: on a server use MSG_NOSIGNAL, or
    /// repeat the call at home and take the signal from the server's pending ones.
    Write,
    /// By preadv2 with RWF_NOWAIT, then at home: no event tells when the disk has answered.
    ReadAt,
    /// There is no flag in most file systems: in place if the file is on a disk or in memory of
    /// this machine, and writes have not waited lately, else at home.
    WriteAt,
    /// By MSG_DONTWAIT. Mind MSG_WAITALL, SO_RCVLOWAT, SO_RCVTIMEO: ask for the latter when it has
    /// to wait, they are inherited by accept, and set by other processes.
    Receive,
    /// By MSG_DONTWAIT and MSG_NOSIGNAL. After EPIPE the call is repeated at home, unless the
    /// program's flags have the latter. So is a datagram to a Unix socket after EAGAIN, if poll
    /// says that the socket is writable: it does not look at the peer's queue.
    Send,
    /// There is no flag: in place if the listener is non-blocking, else when poll says that it is
    /// readable, at home, since another acceptor may be faster.
    Accept,
    /// There is no flag: in place if the socket is non-blocking, else at home.
    Connect,
    /// With a timeout of 0, then waits for one event of several descriptors, or at home.
    Poll,
    /// As `Poll`; writes the remaining time back.
    Select,
    /// With a timeout of 0, then waits for the descriptor of the program's epoll itself.
    Epoll,
    /// With WNOHANG, then waits for a pidfd of the child.
    Child,
    /// With IPC_NOWAIT in each operation, then at home.
    Semaphore,
    /// With IPC_NOWAIT, then at home.
    Message,
    /// With a deadline that has passed, then waits for the descriptor.
    Queue,
}

/// How the wait of a tried call goes on when the kernel says that it would block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// An event tells when to try again: the worker parks.
    Parks,
    /// There is no such event: the blocking call is made at home.
    Home,
}

impl Trial {
    /// How it goes on when the call would block.
    pub(crate) const fn afterwards(self) -> Afterwards {
        match self {
            Trial::ReadAt | Trial::WriteAt | Trial::Connect | Trial::Semaphore | Trial::Message => {
                Afterwards::Home
            }
            Trial::Read
            | Trial::Write
            | Trial::Receive
            | Trial::Send
            | Trial::Accept
            | Trial::Poll
            | Trial::Select
            | Trial::Epoll
            | Trial::Child
            | Trial::Queue => Afterwards::Parks,
        }
    }
}

/// A call that makes or ends a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// A thread of this process: `State::of_clone` says whether it shares all that servers do.
    Thread,
    /// A process that runs in this memory while the caller stands still: vfork, posix_spawn.
    Vfork,
    /// A process with a copy of this memory.
    Fork,
    /// A process that goes on in this memory at the same time: it has no home, and each of its
    /// calls goes straight through.
    Sharing,
    /// clone3: its flags are in memory, `Made::by_flags` is for the handler.
    Clone3,
    /// Another program, from the home thread: its signal mask is inherited.
    Exec,
    /// The end of the calling thread.
    ExitThread,
    /// The end of the process.
    ExitProcess,
}

impl Made {
    /// What clone and clone3 make.
    pub(crate) const fn by_flags(flags: u64) -> Made {
        if flags & libc::CLONE_THREAD as u64 != 0 {
            Made::Thread
        } else if flags & libc::CLONE_VM as u64 == 0 {
            Made::Fork
        } else if flags & libc::CLONE_VFORK as u64 != 0 {
            Made::Vfork
        } else {
            Made::Sharing
        }
    }
}
