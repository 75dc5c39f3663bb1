//! A full fence in every thread of the process, where membarrier(2) is refused: the caller goes to
//! each processor on which one of them may run.
//!
//! Where the caller runs no other thread does. So a thread that ran on a processor when the round
//! began was taken off it by the time that the caller has been there. That is a switch of the
//! kernel's, which is a full fence for both (membarrier(2) relies on it, too). A thread that does
//! not run has passed one, and one that goes on, is made, or is moved to another processor passes
//! one. So each thread has passed one at some point between the beginning of the round and its end.
//!
//! Which processors these are the kernel says for each thread. It lists threads one by one, and may
//! leave some out where others end meanwhile. So a list counts only if it has as many threads as
//! the process had afterwards, and each of them was alive still after that.
//!
//! A round takes some ten microseconds a processor, and longer where they are busy: the caller
//! waits for its turn on each. It changes the caller's affinity, and sets it again to what it was,
//! less the processors that do not work just then. Where somebody else sets it meanwhile, that is
//! lost.
//!
//! Not for real-time threads of the deadline class, which have no affinity of their own: the round
//! is refused there.

use rustix::io::Errno;
use rustix::process::getpid;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::time::{Duration, Instant};
use umcg_context::local::Hold;

/// For so long a list of threads is made again where some begin and end all the time.
const PATIENCE: Duration = Duration::from_secs(2);
/// So often the caller goes to a processor that somebody else takes it from.
const ATTEMPTS: usize = 100;

/// Why there was no such fence.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no list of threads.
    Threads,
    /// The caller must not go to this processor.
    Processor(usize, Errno),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Threads => {
                write!(f, "/proc/self/task, sched_getaffinity(2) or tgkill(2) does not tell which threads there are")
            }
            Refused::Processor(number, error) => write!(f, "sched_setaffinity(2) for processor {number} as well ({error})"),
        }
    }
}

/// Returns after each thread of the process has passed a full fence at some point since the call
/// began. The caller's stores before the call have to be visible: it has a fence of its own first.
pub(crate) fn pass() -> Result<(), Refused> {
    let _hold = Hold::begin(); // it goes on on the kernel thread whose affinity it changes
    let own = sched_getaffinity(None).map_err(|_| Refused::Threads)?;
    let passed = processors().and_then(|processors| visit(&processors));
    let _ = sched_setaffinity(None, &own);
    passed
}

/// Those on which a thread of the process may run.
fn processors() -> Result<CpuSet, Refused> {
    let began = Instant::now();
    loop {
        if let Some(processors) = look() {
            return Ok(processors);
        }
        if began.elapsed() > PATIENCE {
            return Err(Refused::Threads);
        }
    }
}

/// The same, if the list of threads is whole.
fn look() -> Option<CpuSet> {
    let (mut all, mut last) = (CpuSet::new(), CpuSet::new());
    let threads = threads()?;
    for thread in &threads {
        let theirs = sched_getaffinity(Some(*thread)).ok()?;
        if theirs != last {
            (0..CpuSet::MAX_CPU).filter(|number| theirs.is_set(*number)).for_each(|number| all.set(number));
            last = theirs;
        }
    }
    let is_whole = count()? == threads.len() && threads.into_iter().all(is_alive);
    is_whole.then_some(all)
}

/// By the kernel's list.
fn threads() -> Option<Vec<Pid>> {
    let entries = std::fs::read_dir("/proc/self/task").ok()?;
    entries.map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// How many threads there are.
fn count() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

/// Whether this is a thread of the process. Where `/proc` is that of another namespace it most
/// likely is none.
fn is_alive(thread: Pid) -> bool {
    let process = getpid().as_raw_nonzero().get();
    // SAFETY: no signal is sent.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread.as_raw_nonzero().get(), 0) == 0 }
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
    (unsafe { libc::syscall(libc::SYS_getcpu, &raw mut number, nothing, nothing) } == 0).then_some(number as usize)
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
        let threads: Vec<_> = (0..5).map(|_| std::thread::spawn(std::thread::park)).collect();
        let listed = super::threads().unwrap();
        assert!(listed.len() > 5 && listed.contains(&rustix::thread::gettid()));
        assert!(listed.into_iter().filter(|thread| is_alive(*thread)).count() > 5);
        assert!(!is_alive(Pid::from_raw(1 << 28).unwrap()));
        assert!(processors().unwrap().count() >= 1);
        threads.into_iter().for_each(|thread| {
            thread.thread().unpark();
            thread.join().unwrap();
        });
    }
}
