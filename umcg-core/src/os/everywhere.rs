//! A full fence in every thread of the process, where membarrier(2) is refused: the caller goes to
//! each processor on which one of them may run.
//!
//! While the caller runs on a processor, no other thread does. So a thread that ran there when the
//! round began has been taken off it by the time the caller has been there. That is a kernel
//! switch, which is a full fence for both (membarrier(2) relies on it, too). A thread that does not
//! run has passed one. A thread that resumes, is made, or is moved to another processor passes one.
//! So each thread has passed one at some point between the beginning of the round and its end.
//!
//! The kernel tells for each thread which processors these are. `/proc` lists threads one by one,
//! and may leave some out while others end. So a list counts only if it has as many threads as the
//! process had afterwards, and each of them was still alive after that.
//!
//! If there is no such list, each number that a thread may have is tried. (A late filter belongs to
//! a sandbox, which perhaps has shut out `/proc` too; or no descriptor is left.) That takes a
//! second or less, once a process, and finds each thread that existed when the round began. A
//! processor that the caller must not use cannot be skipped: another thread may be in another set
//! of processors.
//!
//! A round takes some ten microseconds a processor, and longer where they are busy: the caller
//! waits for its turn on each. It changes the caller's affinity, and then restores it, less the
//! processors that are offline at that time. If another thread sets the affinity meanwhile, that
//! change is lost. Code that copies another thread's affinity must not copy one that a round has
//! set: use [`affinity`].
//!
//! The caller of [`heavy`](crate::os::asymmetric::heavy) is in the middle of a protocol. So this
//! module uses raw system calls only: many of the C library's functions are points at which a
//! cancelled thread (`pthread_cancel`) unwinds.
//!
//! Real-time threads of the deadline class have no affinity of their own. The kernel refuses the
//! round there.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use umcg_context::local::Hold;

/// How long to remake the list of threads while threads begin and end all the time.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the caller goes to a processor that another thread moves it away from.
const ATTEMPTS: usize = 100;
/// Threads have numbers below this one, whatever the kernel's settings are.
const NUMBERS: i32 = 1 << 22;

/// In the lower half how many rounds are under way, in the upper half how many have begun.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
const BEGINS: u64 = (1 << 32) + 1;

/// Why there was no such fence.
#[derive(Debug)]
pub(crate) enum FenceError {
    /// There is no information where the threads may run.
    Threads(Errno),
    /// The caller must not go to this processor.
    Processor(usize, Errno),
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FenceError::Threads(error) => {
                write!(
                    f,
                    "sched_getaffinity(2) or tgkill(2), which would tell where threads may run, as \
                     well ({error})"
                )
            }
            FenceError::Processor(number, error) => write!(
                f,
                "sched_setaffinity(2) for processor {number} as well ({error})"
            ),
        }
    }
}

/// Returns after each thread of the process has passed a full fence at some point since the call
/// began. The caller's stores before the call have to be visible: it has a fence of its own first.
pub(crate) fn pass() -> Result<(), FenceError> {
    let _hold = Hold::begin(); // it stays on the kernel thread whose affinity it changes
    let processors = processors().map_err(FenceError::Threads)?;
    let own = sched_getaffinity(None).map_err(FenceError::Threads)?;
    ROUNDS.fetch_add(BEGINS, Relaxed);
    let passed = visit(&processors);
    let _ = sched_setaffinity(None, &own);
    // ORDERING(rounds.1): Release, pairs with rounds.2. The affinity is the caller's own again. A
    // handler may have forked meanwhile, and the child's count begins anew.
    let _ = ROUNDS.fetch_update(Release, Relaxed, |rounds| {
        (rounds as u32 > 0).then(|| rounds - 1)
    });
    passed
}

/// The affinity of a thread. None while any round is under way, because it may be that thread's.
///
/// A round that begins in between is noticed. It is counted before it changes the affinity, and the
/// kernel changes and reads a thread's affinity under one lock.
pub(crate) fn affinity(of: Pid) -> Option<CpuSet> {
    // ORDERING(rounds.2): Acquire, pairs with rounds.1.
    let before = ROUNDS.load(Acquire);
    let affinity = sched_getaffinity(Some(of)).ok()?;
    (before as u32 == 0 && ROUNDS.load(Relaxed) == before).then_some(affinity)
}

/// In the child of a fork no other thread is in a round.
pub(crate) fn forked_in_child() {
    ROUNDS.store(0, Relaxed);
}

/// The processors on which a thread of the process may run.
fn processors() -> Result<CpuSet, Errno> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match by_list() {
            Ok(Some(processors)) => return Ok(processors),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    by_number()
}

/// Where threads may run.
#[derive(Default)]
struct Processors {
    all: CpuSet,
    /// The last thread's processors. Most threads have the same.
    last: CpuSet,
}

impl Processors {
    /// Adds the processors of this thread. Returns false if it has ended.
    fn add(&mut self, thread: Pid) -> Result<bool, Errno> {
        let theirs = match sched_getaffinity(Some(thread)) {
            Err(Errno::SRCH) => return Ok(false),
            theirs => theirs?,
        };
        if theirs != self.last {
            (0..CpuSet::MAX_CPU)
                .filter(|number| theirs.is_set(*number))
                .for_each(|number| self.all.set(number));
            self.last = theirs;
        }
        Ok(true)
    }
}

/// Finds the processors by the list of threads, which costs little. None if the list is incomplete.
///
/// # Errors
/// There is no list, or it does not help.
fn by_list() -> Result<Option<CpuSet>, Errno> {
    with_list(|list| {
        let mut processors = Processors::default();
        let threads = threads(list)?;
        for thread in &threads {
            if !processors.add(*thread)? {
                return Ok(None);
            }
        }
        if count(list)? != threads.len() {
            return Ok(None);
        }
        let process = getpid();
        for thread in threads {
            if !is_alive(process, thread)? {
                return Ok(None);
            }
        }
        Ok(Some(processors.all))
    })
}

/// Calls `f` with the directory that has an entry for each thread.
fn with_list<R>(f: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>) -> Result<R, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Its `drop` would call the C library's `close`.
    let list = ManuallyDrop::new(rustix::fs::open(c"/proc/self/task", flags, Mode::empty())?);
    let result = f(list.as_fd());
    // SAFETY: opened above, and used nowhere else.
    unsafe { rustix::io::close(list.as_raw_fd()) };
    result
}

/// The threads in the list.
fn threads(list: BorrowedFd<'_>) -> Result<Vec<Pid>, Errno> {
    let (mut room, mut threads) = ([MaybeUninit::uninit(); 1024], Vec::new());
    let mut entries = RawDir::new(list, &mut room);
    while let Some(entry) = entries.next() {
        let name = entry?;
        // The directory itself, and the one above it, have no numbers.
        let number = name
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse().ok());
        threads.extend(number.and_then(Pid::from_raw));
    }
    Ok(threads)
}

/// How many threads there are: each counts as a subdirectory.
fn count(list: BorrowedFd<'_>) -> Result<usize, Errno> {
    Ok((rustix::fs::fstat(list)?.st_nlink as usize).saturating_sub(2))
}

/// Finds the processors by trying each thread number.
///
/// # Errors
/// A refusal.
fn by_number() -> Result<CpuSet, Errno> {
    let (mut processors, process) = (Processors::default(), getpid());
    for thread in (1..NUMBERS).filter_map(Pid::from_raw) {
        if is_alive(process, thread)? {
            // It may have ended since.
            processors.add(thread)?;
        }
    }
    Ok(processors.all)
}

/// Whether `thread` is a thread of this process. If `/proc` belongs to another namespace, it most
/// likely is none.
fn is_alive(process: Pid, thread: Pid) -> Result<bool, Errno> {
    let (process, thread) = (
        process.as_raw_nonzero().get(),
        thread.as_raw_nonzero().get(),
    );
    // SAFETY: no signal is sent.
    if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) } == 0 {
        return Ok(true);
    }
    match Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) {
        Errno::SRCH => Ok(false),
        error => Err(error),
    }
}

/// Moves the caller to each of the processors.
fn visit(processors: &CpuSet) -> Result<(), FenceError> {
    for number in (0..CpuSet::MAX_CPU).filter(|number| processors.is_set(*number)) {
        let mut only = CpuSet::new();
        only.set(number);
        let mut is_there = false;
        for _ in 0..ATTEMPTS {
            sched_setaffinity(None, &only).map_err(|error| FenceError::Processor(number, error))?;
            is_there = here() == Some(number);
            if is_there {
                break;
            }
        }
        if !is_there {
            return Err(FenceError::Processor(number, Errno::BUSY));
        }
    }
    Ok(())
}

/// The processor that the caller runs on, as the kernel tells it: the C library's copy belongs to
/// the storage.
fn here() -> Option<usize> {
    let mut number = 0u32;
    let nothing = std::ptr::null_mut::<u32>();
    // SAFETY: writes the number.
    (unsafe { libc::syscall(libc::SYS_getcpu, &raw mut number, nothing, nothing) } == 0)
        .then_some(number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// The caller has its affinity back afterwards, even while threads come and go.
    #[test]
    fn a_round_leaves_affinity_alone_and_bears_with_threads_that_come_and_go() {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::thread::spawn(|| ()).join().unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let before = sched_getaffinity(None).unwrap();
            for _ in 0..20 {
                pass().unwrap();
                assert!(sched_getaffinity(None).unwrap() == before);
            }
            over.store(true, Relaxed);
        });
    }

    #[test]
    fn all_threads_are_listed() {
        let threads: Vec<_> = (0..5)
            .map(|_| std::thread::spawn(std::thread::park))
            .collect();
        let listed = with_list(super::threads).unwrap();
        assert!(listed.len() > 5 && listed.contains(&rustix::thread::gettid()));
        assert!(
            listed
                .into_iter()
                .filter(|thread| is_alive(getpid(), *thread).unwrap())
                .count()
                > 5
        );
        assert!(!is_alive(getpid(), Pid::from_raw(1 << 28).unwrap()).unwrap());
        assert!(processors().unwrap().count() >= 1);
        threads.into_iter().for_each(|thread| {
            thread.thread().unpark();
            thread.join().unwrap();
        });
    }

    /// Both ways find the only thread that may run on a processor.
    #[test]
    fn processors_are_found_without_a_list_too() {
        let (listed, numbered) = (processors().unwrap(), by_number().unwrap());
        assert!(listed.count() >= 1);
        assert!(listed == numbered);
    }

    /// While a round is under way, its caller's affinity must not be copied.
    #[test]
    fn an_affinity_within_a_round_is_not_told() {
        let me = rustix::thread::gettid();
        let before = ROUNDS.load(Relaxed);
        ROUNDS.fetch_add(BEGINS, Relaxed);
        assert!(affinity(me).is_none());
        ROUNDS.fetch_sub(1, Relaxed);
        assert!(ROUNDS.load(Relaxed) >> 32 > before >> 32);
        // Other tests make rounds, too.
        let told = std::iter::repeat_with(|| affinity(me)).flatten().next();
        assert!(told.unwrap() == sched_getaffinity(None).unwrap());
    }
}
