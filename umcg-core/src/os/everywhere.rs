//! A full fence in every thread of the process, where membarrier(2) is refused: the caller goes to
//! each processor on which one of them may run.
//!
//! Where the caller runs no other thread does. So a thread that ran on a processor when the round
//! began was taken off it by the time that the caller has been there. That is a switch of the
//! kernel's, which is a full fence for both (membarrier(2) relies on it, too). A thread that does
//! not run has passed one, and one that goes on, is made, or is moved to another processor passes
//! one. So each thread has passed one at some point between the beginning of the round and its end.
//!
//! Which processors these are the kernel says for each thread. `/proc` lists threads one by one,
//! and may leave some out where others end meanwhile. So a list counts only if it has as many
//! threads as the process had afterwards, and each of them was alive still after that.
//!
//! Where there is no such list (a filter that comes late belongs to a sandbox, which has shut
//! `/proc` out too, perhaps; or no descriptor is left) each number that a thread may have is tried.
//! That takes a second or less, once a process, and finds each thread that was there when the round
//! began. That a processor is not the caller's to go to says nothing: another thread may be in
//! another set of processors.
//!
//! A round takes some ten microseconds a processor, and longer where they are busy: the caller
//! waits for its turn on each. It changes the caller's affinity, and sets it again to what it was,
//! less the processors that do not work just then. Where somebody else sets it meanwhile, that is
//! lost. Who takes over another thread's affinity must not take that for the other one's own:
//! [`affinity`].
//!
//! Whoever has called [`heavy`](crate::os::asymmetric::heavy) is in the midst of a protocol. So
//! there are raw system calls only: many of the C library's are points at which a thread that was
//! cancelled (`pthread_cancel`) unwinds.
//!
//! Not for real-time threads of the deadline class, which have no affinity of their own: the round
//! is refused there.

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

/// For so long a list of threads is made again where some begin and end all the time.
const PATIENCE: Duration = Duration::from_millis(200);
/// So often the caller goes to a processor that somebody else takes it from.
const ATTEMPTS: usize = 100;
/// The kernel gives threads numbers below this one, whatever its settings are.
const NUMBERS: i32 = 1 << 22;

/// In the lower half how many rounds are under way, in the upper half how many have begun.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
const BEGINS: u64 = (1 << 32) + 1;

/// Why there was no such fence.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Nobody tells where the threads may run.
    Threads(Errno),
    /// The caller must not go to this processor.
    Processor(usize, Errno),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Threads(error) => {
                write!(
                    f,
                    "sched_getaffinity(2) or tgkill(2), which would tell where threads may run, as \
                     well ({error})"
                )
            }
            Refused::Processor(number, error) => write!(
                f,
                "sched_setaffinity(2) for processor {number} as well ({error})"
            ),
        }
    }
}

/// Returns after each thread of the process has passed a full fence at some point since the call
/// began. The caller's stores before the call have to be visible: it has a fence of its own first.
pub(crate) fn pass() -> Result<(), Refused> {
    let _hold = Hold::begin(); // it goes on on the kernel thread whose affinity it changes
    let processors = processors().map_err(Refused::Threads)?;
    let own = sched_getaffinity(None).map_err(Refused::Threads)?;
    ROUNDS.fetch_add(BEGINS, Relaxed);
    let passed = visit(&processors);
    let _ = sched_setaffinity(None, &own);
    // ORDERING(rounds.1): Release, pairs with rounds.2: the affinity is the caller's own again.
    // A handler may have forked meanwhile, and the child's count begins anew.
    let _ = ROUNDS.fetch_update(Release, Relaxed, |rounds| {
        (rounds as u32 > 0).then(|| rounds - 1)
    });
    passed
}

/// The affinity of a thread. None while a round is under way, which may be that thread's.
///
/// A round that begins in between is noticed: it is counted before it changes the affinity, and
/// both that and the look at the affinity are made under a lock of the kernel's for that thread.
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

/// Those on which a thread of the process may run.
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
    /// Those of the last thread. Most threads have the same.
    last: CpuSet,
}

impl Processors {
    /// Adds those of this thread. False if it has ended.
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

/// By the list of threads, which costs little. None if it is not whole.
///
/// # Errors
/// There is none, or it does not help.
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
    // Its own end would be the C library's `close`.
    let list = ManuallyDrop::new(rustix::fs::open(c"/proc/self/task", flags, Mode::empty())?);
    let result = f(list.as_fd());
    // SAFETY: opened above, and used by nobody else.
    unsafe { rustix::io::close(list.as_raw_fd()) };
    result
}

/// Which threads there are.
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

/// How many threads there are: each counts as a directory within this one.
fn count(list: BorrowedFd<'_>) -> Result<usize, Errno> {
    Ok((rustix::fs::fstat(list)?.st_nlink as usize).saturating_sub(2))
}

/// By the number of each thread.
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

/// Whether this is a thread of this process, the calling one. Where `/proc` is that of another
/// namespace it most likely is none.
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

/// Goes to each of them.
fn visit(processors: &CpuSet) -> Result<(), Refused> {
    for number in (0..CpuSet::MAX_CPU).filter(|number| processors.is_set(*number)) {
        let mut only = CpuSet::new();
        only.set(number);
        let mut is_there = false;
        for _ in 0..ATTEMPTS {
            sched_setaffinity(None, &only).map_err(|error| Refused::Processor(number, error))?;
            is_there = here() == Some(number);
            if is_there {
                break;
            }
        }
        if !is_there {
            return Err(Refused::Processor(number, Errno::BUSY));
        }
    }
    Ok(())
}

/// The processor that the caller runs on, by the kernel's word: the C library's copy belongs to the
/// storage.
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

    /// The caller has its affinity afterwards, and threads come and go meanwhile.
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

    /// Both ways find the thread that alone may run on a processor.
    #[test]
    fn processors_are_found_without_a_list_too() {
        let (listed, numbered) = (processors().unwrap(), by_number().unwrap());
        assert!(listed.count() >= 1);
        assert!(listed == numbered);
    }

    /// While a round is under way its caller's affinity is no one's to take over.
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
