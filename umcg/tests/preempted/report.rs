//! The report when a worker does not get on: enough to see whether it was passed over, or waits for
//! a lock of a worker that was taken off.
//!
//! Nothing here allocates, as that may wait for the very lock in question. Only the dump at the end
//! does: a thread is kept for that.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::time::Duration;
use umcg::rt::RuntimeHandle;
use umcg_core::raw::{RunningWorker, Server};

/// How long to watch whether anything moves, and how long a dump may take.
const LOOK: Duration = Duration::from_secs(3);
const DUMP: Duration = Duration::from_secs(10);

/// The servers on which workers have run.
#[derive(Default)]
pub(crate) struct Servers([AtomicPtr<()>; 8]);

impl Servers {
    /// Notes that of the calling worker.
    pub(crate) fn note(&self) {
        let Some(running) = RunningWorker::here() else {
            return;
        };
        let server = running.server().into_ptr();
        drop(running);
        for place in &self.0 {
            match place.compare_exchange(std::ptr::null_mut(), server, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(there) if there == server => return,
                Err(_) => {}
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Server> {
        let names = self
            .0
            .iter()
            .map(|place| place.load(Relaxed))
            .filter(|name| !name.is_null());
        // SAFETY: words of servers, which are there as long as their runtime.
        names.map(|name| unsafe { Server::from_ptr(name) })
    }
}

pub(crate) struct Report {
    servers: Arc<Servers>,
    wanted: Arc<AtomicBool>,
    made: Arc<AtomicBool>,
}

impl Report {
    pub(crate) fn prepare(runtime: RuntimeHandle) -> Report {
        let report = Report {
            servers: Arc::default(),
            wanted: Arc::default(),
            made: Arc::default(),
        };
        let (wanted, made) = (report.wanted.clone(), report.made.clone());
        std::thread::spawn(move || {
            while !wanted.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
            eprintln!("{}", runtime.dump());
            made.store(true, Relaxed);
        });
        report
    }

    pub(crate) fn servers(&self) -> Arc<Servers> {
        self.servers.clone()
    }

    /// Prints how far each worker has come, and the state of its server, and ends the process.
    pub(crate) fn fail(&self, rounds: &[AtomicU64], before: &[u64]) -> ! {
        let mut out = Unbuffered;
        let _ = writeln!(
            out,
            "a worker does not get on, though no tick comes but the timer's; rounds before, and \
             now:"
        );
        for (number, (worker, before)) in rounds.iter().zip(before).enumerate() {
            let _ = write!(out, "{number}: {before} {}; ", worker.load(Relaxed));
        }
        let _ = writeln!(out, "\nservers:");
        self.servers
            .all()
            .for_each(|server| describe(&mut out, server));
        let total = || {
            rounds
                .iter()
                .map(|worker| worker.load(Relaxed))
                .sum::<u64>()
        };
        let (rounds, turns) = (total(), self.turns());
        std::thread::sleep(LOOK);
        let (rounds, turns) = (total() - rounds, self.turns() - turns);
        let _ = writeln!(
            out,
            "in {LOOK:?} there were {rounds} rounds of all workers, and {turns} turns of servers"
        );
        self.wanted.store(true, Relaxed);
        let mut left = DUMP;
        while !self.made.load(Relaxed) && !left.is_zero() {
            std::thread::sleep(Duration::from_millis(100));
            left = left.saturating_sub(Duration::from_millis(100));
        }
        if left.is_zero() {
            let _ = writeln!(
                out,
                "there is no dump: somebody keeps a lock that it needs, malloc's for example"
            );
        }
        // SAFETY: no precondition.
        unsafe { libc::_exit(1) }
    }

    fn turns(&self) -> u64 {
        self.servers.all().map(Server::turns).sum()
    }
}

fn describe(out: &mut Unbuffered, server: Server) {
    let thread = server.carried_by();
    let _ = writeln!(out, "thread {thread}: {} turns", server.turns());
    for file in ["stat", "syscall", "wchan", "status"] {
        let mut path = Text::default();
        let _ = write!(path, "/proc/self/task/{thread}/{file}\0");
        // SAFETY: a C string.
        let opened = unsafe { libc::open(path.bytes.as_ptr().cast(), libc::O_RDONLY) };
        let mut text = [0u8; 2048];
        // SAFETY: room for this much.
        let length = unsafe { libc::read(opened, text.as_mut_ptr().cast(), text.len()) };
        // SAFETY: opened above, if it was.
        unsafe { libc::close(opened) };
        let text = &text[..usize::try_from(length).unwrap_or(0)];
        let _ = writeln!(
            out,
            "{file}: {}",
            std::str::from_utf8(text).unwrap_or_default().trim_end()
        );
    }
}

/// Standard error without a lock.
struct Unbuffered;

impl Write for Unbuffered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: bytes that live.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}

/// A short text without an allocation.
struct Text {
    bytes: [u8; 64],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text {
            bytes: [0; 64],
            length: 0,
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self
            .bytes
            .get_mut(self.length..self.length + text.len())
            .ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}
