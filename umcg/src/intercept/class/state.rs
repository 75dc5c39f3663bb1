//! The state that the kernel keeps for a thread, as far as system calls depend on it.
//!
//! Some of it is *common*: threads of a process have the same, until one of them asks for its own.
//! Credentials are common because the C library changes them in all threads. The rest is each
//! thread's *own*: a server's is never that of the worker which runs on it.

/// A set of kinds of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u32);

macro_rules! states {
    ($($bit:literal $name:ident $text:literal $meaning:literal;)+) => {
        impl State {
            $(#[doc = $meaning] pub(crate) const $name: State = State(1 << $bit);)+
            /// Each kind: its name, and its meaning.
            pub(crate) const ALL: &'static [(State, &'static str, &'static str)] =
                &[$((State::$name, $text, $meaning)),+];
        }
    };
}

states! {
    0 CREDENTIALS "credentials"
        "user and group ids, capabilities, secure bits, the security label, keyrings";
    1 DIRECTORIES "directories" "root, working directory, umask";
    2 DESCRIPTORS "descriptors" "the table of descriptors";
    3 NAMESPACES "namespaces" "mounts, network, host name, System V IPC, clocks, control groups";
    4 FILTERS "filters"
        "seccomp, Landlock, `no_new_privs`, user dispatch: each system call passes them";
    5 PERSONALITY "personality" "the flags of personality(2)";
    6 POLICY "memory policy" "the NUMA nodes from which a page fault takes memory";
    7 MACHINE "machine"
        "which instructions fault: I/O ports, `rdtsc`, `cpuid`, protection keys, shadow stack";
    8 UNDO "undo list" "the adjustments of SEM_UNDO";
    16 TID "thread id" "also as an owner: of a PI futex, of a lock of a debugger";
    17 SIGNALS "signals" "the mask, the signals pending for the thread alone, the alternate stack";
    18 SCHEDULING "scheduling" "policy, priority, nice value, affinity, clamps";
    19 IO "I/O priority" "the priority of the thread's requests to disks";
    20 TIMES "times" "the clocks of processor time, usage, timer slack";
    21 AREAS "areas" "addresses told to the kernel: robust list, word of the thread id, rseq area";
    22 BASES "bases" "the FS and GS base";
    23 TRACING "tracing" "being a debugger or counted by perf";
    24 RINGS "rings" "being the one thread that may submit to a ring, and the rings registered";
    25 RESTART "restart" "the interrupted call that `restart_syscall` continues";
    26 MISCELLANY "miscellany" "name, signal at the parent's end, and other options of prctl(2)";
}

impl State {
    /// No state at all.
    pub(crate) const NONE: State = State(0);
    /// What threads have in common until one of them asks for its own.
    pub(crate) const COMMON: State = State(0x1ff);
    /// What the lookup of a path depends on.
    pub(crate) const PATH: State = State::DIRECTORIES
        .and(State::CREDENTIALS)
        .and(State::NAMESPACES);

    /// The union of two sets.
    pub(crate) const fn and(self, other: State) -> State {
        State(self.0 | other.0)
    }

    /// The intersection of two sets.
    pub(crate) const fn within(self, other: State) -> State {
        State(self.0 & other.0)
    }

    /// Whether the set has no kind.
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The kinds that a thread has for itself, if clone(2) has made it with these flags; the kinds
    /// that the caller of unshare(2) gets for itself are `of_unshare`.
    pub(crate) const fn of_clone(flags: u64) -> State {
        let shared = libc::CLONE_FS as u64 | libc::CLONE_FILES as u64 | libc::CLONE_SYSVSEM as u64;
        State::of_unshare(!flags & shared | flags & !shared)
    }

    /// The kinds that unshare(2) with these flags makes the caller's own.
    pub(crate) const fn of_unshare(flags: u64) -> State {
        const NAMESPACES: u64 = libc::CLONE_NEWCGROUP as u64
            | libc::CLONE_NEWIPC as u64
            | libc::CLONE_NEWNET as u64
            | libc::CLONE_NEWNS as u64
            | libc::CLONE_NEWPID as u64
            | libc::CLONE_NEWUSER as u64
            | libc::CLONE_NEWUTS as u64
            | CLONE_NEWTIME;
        const RULES: [(u64, State); 5] = [
            (NAMESPACES, State::NAMESPACES),
            // New mounts and new users come with directories of their own.
            (
                libc::CLONE_FS as u64 | libc::CLONE_NEWNS as u64 | libc::CLONE_NEWUSER as u64,
                State::DIRECTORIES,
            ),
            (libc::CLONE_FILES as u64, State::DESCRIPTORS),
            (
                libc::CLONE_SYSVSEM as u64 | libc::CLONE_NEWIPC as u64,
                State::UNDO,
            ),
            (libc::CLONE_NEWUSER as u64, State::CREDENTIALS),
        ];
        let mut state = State::NONE;
        let mut at = 0;
        while at < RULES.len() {
            if flags & RULES[at].0 != 0 {
                state = state.and(RULES[at].1);
            }
            at += 1;
        }
        state
    }
}

/// Its bit is one of clone's exit signal: only clone3 and unshare know it.
const CLONE_NEWTIME: u64 = 0x80;
