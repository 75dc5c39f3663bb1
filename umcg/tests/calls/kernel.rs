//! What the table says of a thread's state, asked of the kernel that runs the test: a call by which
//! one thread changes its own leaves another as it was, and one that is common changes for both.

use crate::class::{Class, State};
use crate::row;
use libc::{c_int, c_long};
use std::io::Error;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use std::{mem, ptr, thread};

/// Makes the call, by a name of the table's.
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {{
        let number = crate::number(stringify!($name)) as c_long;
        // SAFETY: the tests give arguments that the kernel may follow.
        unsafe { libc::syscall(number $(, $argument as c_long)*) }
    }};
}

/// What another thread sees of a thread's change.
#[derive(Debug, PartialEq)]
enum Seen {
    /// The change was refused, or had no effect: nothing can be said.
    Refused,
    Own,
    Common,
}

/// Changes something in another thread, and looks at it from both.
fn seen(change: fn() -> c_long, look: fn() -> c_long) -> Seen {
    let before = look();
    let other = thread::spawn(move || if change() < 0 { None } else { Some(look()) });
    match other.join().unwrap() {
        None => Seen::Refused,
        Some(there) => {
            let here = look();
            match (there == before, here == before) {
                (true, _) => Seen::Refused,
                (_, true) => Seen::Own,
                (_, false) => Seen::Common,
            }
        }
    }
}

type Case = (&'static str, fn() -> c_long, fn() -> c_long);

fn get_policy() -> c_long {
    let mut mode: c_int = 0;
    call!(get_mempolicy, &raw mut mode, 0, 0, 0, 0);
    c_long::from(mode)
}

fn comm() -> c_long {
    let mut name = [0u8; 16];
    call!(prctl, libc::PR_GET_NAME, name.as_mut_ptr());
    c_long::from_ne_bytes(name[..8].try_into().unwrap())
}

fn alternate_stack() -> c_long {
    // SAFETY: all zeroes are a stack.
    let mut stack: libc::stack_t = unsafe { mem::zeroed() };
    call!(sigaltstack, 0, &raw mut stack);
    stack.ss_size as c_long
}

fn set_alternate_stack() -> c_long {
    const SIZE: usize = 98_304;
    let memory = Box::leak(Box::new([0u8; SIZE]));
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: SIZE,
    };
    call!(sigaltstack, &raw const stack, 0)
}

fn set_policy() -> c_long {
    const MPOL_PREFERRED: c_int = 1;
    call!(set_mempolicy, MPOL_PREFERRED, 0, 0)
}

fn set_batch() -> c_long {
    let parameters: c_int = 0;
    call!(
        sched_setscheduler,
        0,
        libc::SCHED_BATCH,
        &raw const parameters
    )
}

fn set_affinity() -> c_long {
    // The first of the CPUs that the thread may use: none if there is no other.
    let mut set = [0u64; 16];
    if call!(
        sched_getaffinity,
        0,
        mem::size_of_val(&set),
        set.as_mut_ptr()
    ) < 0
    {
        return -1;
    }
    if set.iter().map(|word| word.count_ones()).sum::<u32>() < 2 {
        return -1;
    }
    let at = set.iter().position(|word| *word != 0).unwrap();
    let mut one = [0u64; 16];
    one[at] = 1 << set[at].trailing_zeros();
    call!(sched_setaffinity, 0, mem::size_of_val(&one), one.as_ptr())
}

fn affinity() -> c_long {
    let mut set = [0u64; 16];
    call!(
        sched_getaffinity,
        0,
        mem::size_of_val(&set),
        set.as_mut_ptr()
    );
    set.iter().map(|word| c_long::from(word.count_ones())).sum()
}

/// Blocks a signal and sends it to the calling thread.
fn make_pending() -> c_long {
    let mask = 1u64 << (libc::SIGUSR2 - 1);
    call!(rt_sigprocmask, libc::SIG_BLOCK, &raw const mask, 0, 8);
    let (process, thread) = (call!(getpid), call!(gettid));
    call!(tgkill, process, thread, libc::SIGUSR2)
}

fn pending() -> c_long {
    let mut set = 0u64;
    call!(rt_sigpending, &raw mut set, 8);
    set as c_long
}

fn mask() -> c_long {
    let mut set = 0u64;
    call!(rt_sigprocmask, libc::SIG_BLOCK, 0, &raw mut set, 8);
    set as c_long
}

fn robust_list() -> c_long {
    let (mut head, mut length) = (0usize, 0usize);
    call!(get_robust_list, 0, &raw mut head, &raw mut length);
    head as c_long
}

/// Lets a filter that allows everything in.
fn set_filter() -> c_long {
    const SECCOMP_SET_MODE_FILTER: c_int = 1;
    const RET_K: u16 = 0x06;
    let allow = libc::sock_filter {
        code: RET_K,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: (&raw const allow).cast_mut(),
    };
    call!(prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    call!(seccomp, SECCOMP_SET_MODE_FILTER, 0, &raw const program)
}

/// Opens a descriptor in a table of the thread's own.
fn own_descriptor() -> c_long {
    match call!(unshare, libc::CLONE_FILES) {
        0 => call!(dup2, 2, 777),
        refused => refused,
    }
}

fn own_umask() -> c_long {
    match call!(unshare, libc::CLONE_FS) {
        0 => call!(umask, 0o123),
        refused => refused,
    }
}

fn umask() -> c_long {
    let old = call!(umask, 0o077);
    call!(umask, old);
    old
}

fn core_limit() -> c_long {
    let mut limit = [0u64; 2];
    call!(getrlimit, libc::RLIMIT_CORE, limit.as_mut_ptr());
    limit[0] as c_long
}

fn set_core_limit() -> c_long {
    let mut limit = [0u64; 2];
    call!(getrlimit, libc::RLIMIT_CORE, limit.as_mut_ptr());
    limit[0] = if limit[0] == 0 { limit[1].min(4096) } else { 0 };
    call!(setrlimit, libc::RLIMIT_CORE, limit.as_ptr())
}

fn timer() -> c_long {
    let mut value = [0i64; 4];
    call!(getitimer, libc::ITIMER_REAL, value.as_mut_ptr());
    c_long::from(value[2] != 0)
}

fn io_priority() -> c_long {
    const PROCESS: c_int = 1;
    call!(ioprio_get, PROCESS, 0)
}

/// Changes of a thread's own state.
const OWN: [Case; 19] = [
    (
        "setpriority",
        || call!(setpriority, libc::PRIO_PROCESS, 0, 7),
        || call!(getpriority, libc::PRIO_PROCESS, 0),
    ),
    ("sched_setscheduler", set_batch, || {
        call!(sched_getscheduler, 0)
    }),
    ("sched_setaffinity", set_affinity, affinity),
    (
        "ioprio_set",
        || call!(ioprio_set, 1, 0, 2 << 13 | 6),
        io_priority,
    ),
    (
        "prctl",
        || call!(prctl, libc::PR_SET_TIMERSLACK, 70_001),
        || call!(prctl, libc::PR_GET_TIMERSLACK),
    ),
    (
        "prctl",
        || call!(prctl, libc::PR_SET_NAME, c"differs".as_ptr()),
        comm,
    ),
    (
        "prctl",
        || call!(prctl, libc::PR_SET_PDEATHSIG, libc::SIGUSR1),
        || {
            let mut signal: c_int = 0;
            call!(prctl, libc::PR_GET_PDEATHSIG, &raw mut signal);
            c_long::from(signal)
        },
    ),
    ("sigaltstack", set_alternate_stack, alternate_stack),
    ("rt_sigpending", make_pending, pending),
    ("rt_sigprocmask", make_pending, mask),
    ("set_robust_list", || 0, robust_list),
    (
        "personality",
        || call!(personality, 0x004_0000),
        || call!(personality, -1),
    ),
    ("set_mempolicy", set_policy, get_policy),
    ("seccomp", set_filter, || call!(prctl, libc::PR_GET_SECCOMP)),
    ("unshare", own_descriptor, || {
        call!(fcntl, 777, libc::F_GETFD)
    }),
    ("unshare", own_umask, umask),
    ("setfsgid", || call!(setfsgid, 4321), || call!(setfsgid, -1)),
    (
        "setresuid",
        || call!(setresuid, 4321, 4321, 0),
        || call!(getuid),
    ),
    ("capset", drop_capabilities, capabilities),
];

fn header() -> [u32; 2] {
    const VERSION_3: u32 = 0x2008_0522;
    [VERSION_3, 0]
}

fn capabilities() -> c_long {
    let mut sets = [0u32; 6];
    call!(capget, header().as_mut_ptr(), sets.as_mut_ptr());
    c_long::from(sets[0])
}

fn drop_capabilities() -> c_long {
    if capabilities() == 0 {
        return -1;
    }
    call!(capset, header().as_mut_ptr(), [0u32; 6].as_ptr())
}

/// Changes of common state.
const COMMON: [Case; 3] = [
    ("umask", || call!(umask, 0o135), umask),
    ("setrlimit", set_core_limit, core_limit),
    (
        "setitimer",
        || {
            let value = [0i64, 0, 3_600, 0];
            call!(setitimer, libc::ITIMER_REAL, value.as_ptr(), 0)
        },
        timer,
    ),
];

/// Those that need rights, or a kernel with the feature.
const MAY_BE_REFUSED: [&str; 8] = [
    "capset",
    "ioprio_set",
    "sched_setaffinity",
    "sched_setscheduler",
    "seccomp",
    "set_mempolicy",
    "setfsgid",
    "setresuid",
];

/// One test, since the cases change the process.
#[test]
fn state_is_a_threads_or_common_as_the_table_says() {
    for (name, change, look) in OWN {
        let seen = seen(change, look);
        if seen == Seen::Refused && MAY_BE_REFUSED.contains(&name) {
            eprintln!("{name}: refused");
            continue;
        }
        assert_eq!(seen, Seen::Own, "{name}");
        let row = row(name);
        assert!(
            !row.changes.is_none(),
            "{name} changes something of the thread"
        );
        assert_ne!(row.class, Class::Pass, "{name}");
    }
    let limit = core_limit();
    let mask = umask();
    for (name, change, look) in COMMON {
        assert_eq!(seen(change, look), Seen::Common, "{name}");
        let row = row(name);
        assert!(row.changes.within(State::COMMON).is_none(), "{name}");
        // A call may be made at home for another reason.
        let is_for_signals = !row.reads.within(State::SIGNALS).is_none();
        assert!(row.class == Class::Pass || is_for_signals, "{name}");
    }
    call!(setitimer, libc::ITIMER_REAL, [0i64; 4].as_ptr(), 0);
    call!(umask, mask);
    let mut limits = [0u64; 2];
    call!(getrlimit, libc::RLIMIT_CORE, limits.as_mut_ptr());
    limits[0] = limit as u64;
    call!(setrlimit, libc::RLIMIT_CORE, limits.as_ptr());
}

fn errno() -> Option<i32> {
    Error::last_os_error().raw_os_error()
}

/// Why a write on a server has to take SIGPIPE back from it.
#[test]
fn a_broken_pipe_signals_the_thread_that_writes() {
    let blocked = 1u64 << (libc::SIGPIPE - 1);
    let of_writer = thread::spawn(move || {
        let mut ends = [0; 2];
        call!(rt_sigprocmask, libc::SIG_BLOCK, &raw const blocked, 0, 8);
        assert_eq!(call!(pipe, ends.as_mut_ptr()), 0);
        call!(close, ends[0]);
        assert_eq!(call!(write, ends[1], c"x".as_ptr(), 1), -1);
        assert_eq!(errno(), Some(libc::EPIPE));
        call!(close, ends[1]);
        let pending = pending();
        let now = [0i64; 2];
        call!(rt_sigtimedwait, &raw const blocked, 0, now.as_ptr(), 8);
        pending
    });
    assert_ne!(of_writer.join().unwrap() as u64 & blocked, 0);
    call!(rt_sigprocmask, libc::SIG_BLOCK, &raw const blocked, 0, 8);
    assert_eq!(pending() as u64 & blocked, 0);
}

/// Why a wake-up of a word that is not private passes: no waiter of the table is the kernel's.
#[test]
fn private_and_shared_waiters_of_a_word_are_apart() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    let waiter = thread::spawn(|| {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        call!(futex, WORD.as_ptr(), operation, 0, 0)
    });
    let wake = |operation| call!(futex, WORD.as_ptr(), operation, 9);
    loop {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(wake(libc::FUTEX_WAKE), 0);
        if wake(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) == 1 {
            break;
        }
    }
    assert_eq!(waiter.join().unwrap(), 0);
}

/// Why a queue is tried with a deadline that has passed.
#[test]
fn a_passed_deadline_tries_a_queue() {
    let name = format!("umcg-calls-{}\0", std::process::id());
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    let queue = call!(mq_open, name.as_ptr(), flags, 0o600, ptr::null::<u8>());
    if queue < 0 {
        eprintln!("skipped: no queues here: {:?}", errno());
        return;
    }
    call!(mq_unlink, name.as_ptr());
    let passed = [0i64, 1];
    let mut message = [0u8; 8192];
    let mut receive = || {
        call!(
            mq_timedreceive,
            queue,
            message.as_mut_ptr(),
            8192,
            0,
            passed.as_ptr()
        )
    };
    assert_eq!((receive(), errno()), (-1, Some(libc::ETIMEDOUT)));
    assert_eq!(
        call!(mq_timedsend, queue, c"abc".as_ptr(), 3, 0, passed.as_ptr()),
        0
    );
    assert_eq!(receive(), 3);
    call!(close, queue);
}

/// Why a Unix socket's connect goes home: EAGAIN, and poll does not wait for room.
#[test]
fn a_full_unix_listener_has_no_event() {
    let (family, kind) = (libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    let listener = call!(socket, family, kind, 0);
    let mut address = [0u8; 24];
    address[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    address[3..19].copy_from_slice(format!("umcg-{:011}", std::process::id()).as_bytes());
    let (at, length) = (address.as_ptr(), 19);
    assert_eq!(call!(bind, listener, at, length), 0);
    assert_eq!(call!(listen, listener, 0), 0);
    let clients: Vec<_> = (0..8).map(|_| call!(socket, family, kind, 0)).collect();
    let full = clients
        .iter()
        .find(|client| call!(connect, **client, at, length) != 0);
    assert_eq!(errno(), Some(libc::EAGAIN));
    let full = *full.expect("the queue is full");
    let mut poll = libc::pollfd {
        fd: full as c_int,
        events: libc::POLLOUT,
        revents: 0,
    };
    assert_eq!(call!(poll, &raw mut poll, 1, 0), 1);
    assert_eq!(call!(connect, full, at, length), -1);
    clients.iter().chain([&listener]).for_each(|socket| {
        call!(close, *socket);
    });
}
