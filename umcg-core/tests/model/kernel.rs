//! The kernel's part in the protocols: sleeping on a word, and the time. Here the time stands still
//! until a test advances it, so a deadline for which no thread is awake shows as a deadlock.

use rustix::io::Errno;
use shuttle::lazy_static;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::sync::{Condvar, Mutex};

struct Sleeper {
    number: u64,
    address: usize,
    bits: u32,
    deadline: u64,
    end: Option<Result<(), Errno>>,
}

#[derive(Default)]
struct Table {
    now: u64,
    count: u64,
    sleepers: Vec<Sleeper>,
}

lazy_static! {
    static ref TABLE: Mutex<Table> = Mutex::new(Table::default());
    static ref CHANGED: Condvar = Condvar::new();
}

impl Table {
    /// Ends the sleep of up to `most` of the sleepers that `who` chooses. Returns of how many.
    fn end(&mut self, most: u32, end: Result<(), Errno>, who: impl Fn(&Sleeper) -> bool) -> usize {
        let chosen = self
            .sleepers
            .iter_mut()
            .filter(|sleeper| sleeper.end.is_none() && who(sleeper))
            .take(most as usize);
        let count = chosen.map(|sleeper| sleeper.end = Some(end)).count();
        CHANGED.notify_all();
        count
    }
}

pub(crate) fn sleep(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    sleep_for(word, expected, u32::MAX, deadline)
}

/// Until it is woken by a waker that has one of these bits.
pub(crate) fn sleep_for(
    word: &AtomicU32,
    expected: u32,
    bits: u32,
    deadline: u64,
) -> Result<(), Errno> {
    let mut table = TABLE.lock().unwrap();
    if word.load(SeqCst) != expected {
        return Err(Errno::AGAIN);
    }
    if deadline <= table.now {
        return Err(Errno::TIMEDOUT);
    }
    table.count += 1;
    let number = table.count;
    table.sleepers.push(Sleeper {
        number,
        address: std::ptr::from_ref(word).addr(),
        bits,
        deadline,
        end: None,
    });
    loop {
        table = CHANGED.wait(table).unwrap();
        let at = table
            .sleepers
            .iter()
            .position(|sleeper| sleeper.number == number)
            .unwrap();
        if let Some(end) = table.sleepers[at].end {
            table.sleepers.swap_remove(at);
            return end;
        }
    }
}

pub(crate) fn wake(word: *const AtomicU32, count: u32) {
    wake_for(word, count, u32::MAX);
}

/// Those that have one of these bits; returns how many.
pub(crate) fn wake_for(word: *const AtomicU32, count: u32, bits: u32) -> usize {
    let address = word.addr();
    let stands = |sleeper: &Sleeper| sleeper.address == address && sleeper.bits & bits != 0;
    TABLE.lock().unwrap().end(count, Ok(()), stands)
}

/// Runs a signal handler on some sleeper's thread. Returns false when no thread sleeps.
pub(crate) fn interrupt() -> bool {
    TABLE.lock().unwrap().end(1, Err(Errno::INTR), |_| true) > 0
}

pub(crate) fn now() -> u64 {
    TABLE.lock().unwrap().now
}

/// Advances the time.
pub(crate) fn advance(to: u64) {
    let mut table = TABLE.lock().unwrap();
    // Never back, even if another thread advances it too.
    let to = table.now.max(to);
    table.now = to;
    table.end(u32::MAX, Err(Errno::TIMEDOUT), |sleeper| {
        sleeper.deadline <= to
    });
}

/// Makes the first failure end the process, if `UMCG_MODEL_STOP` is set.
pub(crate) fn stop_at_the_first_failure() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if std::env::var_os("UMCG_MODEL_STOP").is_some() {
        ONCE.call_once(|| {
            std::panic::set_hook(Box::new(|panic| {
                // Write past the test runner, which would capture the message.
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    format!("{panic}\n").as_bytes(),
                );
                std::process::exit(101);
            }));
        });
    }
}
