//! Stalls: a worker keeps its server for long, and no other server is free; or workers wait for a
//! helper thread to block on.
//!
//! The commonest cause is a call that blocks the kernel thread where one that parks the worker was
//! meant: a lock of the standard library held across a wait, `std::net` in place of `umcg::net`, a
//! sleep. The watch sees such a server, and says which worker it is, for how long it has been so,
//! and in which call of the kernel. A worker that computes is told of only where the program asks
//! for that, since many have a reason.
//!
//! By default there is a line on standard error after [`PATIENCE`], once for each name of a worker
//! and each call, and [`MOST`] in all of a runtime's servers. `UMCG_STALLS` in the environment, or
//! the builder, say otherwise.
//!
//! Helper threads are the process's. Where there are as many as there may be, all of them block,
//! and one more has to be made, the thread that makes it hurries the watches of all
//! runtimes, and each tells that in the same way: once for a shortage, on standard error once a
//! process. Where the system gives no thread for a helper, and a worker blocks its server instead,
//! nobody is hurried: the watch of a runtime that runs a worker is awake, and sees it by itself.

use super::kernel_call::{Call, Doing, of_thread};
use super::runtime::Shared;
use super::sync::HoldLock;
use super::{last, quit, time};
use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;
use umcg_core::raw;

/// How long a server is blocked before the library says so where the program has set nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many lines a runtime writes on standard error by itself, but for that about helpers.
const MOST: usize = 10;

/// Something that keeps workers from running for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The runtime's name.
    pub runtime: String,
    /// The number of the server that is kept; none where workers wait for something else.
    pub server: Option<usize>,
    /// The id of the worker that keeps it; none where the server itself is kept, by its scheduler
    /// for example.
    pub worker: Option<u64>,
    /// The worker's name, or an empty one.
    pub name: String,
    /// For how long, so far, at least.
    pub lasted: Duration,
    /// Why.
    pub cause: StallCause,
}

/// Why workers could not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// The worker computes, or makes one short call of the kernel after the other.
    Computes,
    /// It blocks in this call of the kernel: the name, and the first argument.
    Blocks(String),
    /// All helper threads block, and there are as many as there may be
    /// ([`RuntimeBuilder::helpers`](super::RuntimeBuilder::helpers)): so workers that are to block
    /// wait until one comes back, or one more is made. Told to all runtimes.
    ///
    /// Or the system gives no thread for a helper, and workers that are to block
    /// ([`blocking`](crate::blocking)) block their servers instead: `workers` is 0 then.
    NoHelper {
        /// How many helper threads there were.
        helpers: usize,
        /// How many workers waited for one.
        workers: usize,
    },
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(server) = self.server else {
            return self.cause.fmt(f);
        };
        match self.worker {
            Some(id) if self.name.is_empty() => write!(f, "worker {id:#x} (no name)")?,
            Some(_) => write!(f, "worker `{}`", self.name)?,
            None => f.write_str("its own scheduling")?,
        }
        let lasted = self.lasted.as_secs_f64();
        write!(
            f,
            " has kept server {server} of runtime `{}` for {lasted:.1} s{}",
            self.runtime, self.cause
        )
    }
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StallCause::Computes => f.write_str(" without a stop"),
            StallCause::Blocks(call) => write!(f, " and blocks it in {call}"),
            StallCause::NoHelper {
                helpers,
                workers: 0,
            } => write!(
                f,
                "the system gives no thread for a helper beside the {helpers} that there are, so \
                 workers that block \
                 (`umcg::blocking`) keep their servers meanwhile"
            ),
            StallCause::NoHelper { helpers, workers } => write!(
                f,
                "all {helpers} helper threads block, and workers wait for one ({workers} now): one \
                 more is made \
                 each 10 ms while none comes back (`RuntimeBuilder::helpers` or \
                 UMCG_HELPERS sets how many there may be)"
            ),
        }
    }
}

/// What is done about stalls.
pub(crate) struct Policy {
    /// Nanoseconds; none for never.
    after: Option<u64>,
    /// Workers that compute, too.
    computing: bool,
    tell: Tell,
}

enum Tell {
    Function(Box<dyn Fn(&Stall) + Send + Sync>),
    /// What has been said already: the worker's name, and its call.
    StandardError(HoldLock<Option<HashSet<(String, String)>>>),
}

impl Policy {
    /// What the environment says, or the default.
    pub(crate) fn of_environment() -> Policy {
        let told = Tell::StandardError(HoldLock::new(None));
        match std::env::var("UMCG_STALLS")
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
        {
            Some(0) => Policy {
                after: None,
                computing: false,
                tell: told,
            },
            Some(milliseconds) => Policy {
                after: Some(milliseconds.saturating_mul(1_000_000)),
                computing: true,
                tell: told,
            },
            None => Policy {
                after: Some(PATIENCE.as_nanos() as u64),
                computing: false,
                tell: told,
            },
        }
    }

    /// Calls `f` for each stay on a server that lasts so long.
    pub(crate) fn calling(after: Duration, f: Box<dyn Fn(&Stall) + Send + Sync>) -> Policy {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Policy {
            after: Some(after),
            computing: true,
            tell: Tell::Function(f),
        }
    }

    /// Whether a lack of helpers is told here. On standard error it has to be told by one runtime.
    fn tells_of_helpers(&self) -> bool {
        static IS_TOLD: AtomicBool = AtomicBool::new(false);
        self.after.is_some()
            && (matches!(self.tell, Tell::Function(_)) || !IS_TOLD.swap(true, Relaxed))
    }

    fn tell(&self, stall: &Stall, site: &str) {
        match &self.tell {
            // A panic in it would end the watch, on which all servers count.
            Tell::Function(f) => last::contained(|| f(stall)),
            Tell::StandardError(told) => {
                let mut told = told.lock();
                let told = told.get_or_insert_default();
                // Of helpers no other runtime will tell.
                let is_process_wide = stall.server.is_none();
                if is_process_wide
                    || told.len() < MOST && told.insert((stall.name.clone(), site.to_owned()))
                {
                    let _ = writeln!(std::io::stderr().lock(), "umcg: {stall}");
                }
            }
        }
    }
}

/// How often a helper has been made beyond the bound, or could not be made; how many there were
/// then, and how many workers waited.
static EXCEEDED: AtomicU64 = AtomicU64::new(0);
static HELPERS: AtomicUsize = AtomicUsize::new(0);
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// For so long no helper came back ([`raw::set_helpers`]).
const WAITED: Duration = Duration::from_millis(10);

/// A helper is made beyond the bound: the watches are to tell. Called by the thread that makes it.
/// Or none can be made, for no workers that wait: by one that does without, so nothing is done here
/// that could switch, and it has to be short.
pub(crate) fn helpers_block(helpers: usize, workers: usize) {
    HELPERS.store(helpers, Relaxed);
    WAITING.store(workers, Relaxed);
    // ORDERING(exceeded.1): Release, pairs with exceeded.2: the numbers are of this time, or of a
    // later one.
    EXCEEDED.fetch_add(1, Release);
    if workers > 0 {
        quit::each_runtime(|shared| shared.watch.look_now(&shared.driver));
    }
}

/// The lack of helpers, as the watch sees it from look to look.
#[derive(Clone, Copy)]
pub(crate) struct Lack {
    exceeded: u64,
    /// When it was seen last.
    seen: Option<u64>,
}

impl Lack {
    /// Nothing that came before is its runtime's: so it is made with that, and not as late as the
    /// watch's thread.
    pub(crate) fn new() -> Lack {
        Lack {
            exceeded: EXCEEDED.load(Relaxed),
            seen: None,
        }
    }

    /// Whether there is one that has not been told.
    fn is_new(&mut self) -> bool {
        // ORDERING(exceeded.2): Acquire, pairs with exceeded.1.
        let exceeded = EXCEEDED.load(Acquire);
        if std::mem::replace(&mut self.exceeded, exceeded) == exceeded {
            return false;
        }
        let now = time::now();
        let before = self.seen.replace(now);
        before.is_none_or(|before| now - before >= PATIENCE.as_nanos() as u64)
    }

    /// Tells it if there is one that has not been told.
    pub(crate) fn look(&mut self, shared: &Shared) {
        if self.is_new() && shared.stalls.tells_of_helpers() {
            let cause = StallCause::NoHelper {
                helpers: HELPERS.load(Relaxed),
                workers: WAITING.load(Relaxed),
            };
            let (runtime, name) = (shared.name.clone(), String::new());
            let lasted = if matches!(cause, StallCause::NoHelper { workers: 0, .. }) {
                Duration::ZERO
            } else {
                WAITED
            };
            let stall = Stall {
                runtime,
                server: None,
                worker: None,
                name,
                lasted,
                cause,
            };
            shared.stalls.tell(&stall, "helpers");
        }
    }
}

/// One server's stay with one worker, as the watch sees it from look to look.
#[derive(Default)]
pub(crate) struct Stay {
    /// How many workers had begun to run there.
    turns: u64,
    since: u64,
    /// What it did after half of the time.
    halfway: Option<Doing>,
    told: bool,
}

impl Stay {
    /// The server looks around, so nobody keeps it.
    pub(crate) fn ended(&mut self, shared: &Shared, index: usize) {
        if self.since != 0 {
            *self = Stay::default();
            shared.seats[index].kept_since.store(0, Relaxed);
        }
    }

    /// The server has not looked around since the last time.
    pub(crate) fn goes_on(&mut self, shared: &Shared, index: usize) {
        let seat = &shared.seats[index];
        let Some(server) = seat.server() else { return };
        let now = time::now();
        let turns = server.turns();
        if self.since == 0 || turns != self.turns {
            *self = Stay {
                turns,
                since: now,
                halfway: None,
                told: false,
            };
            seat.kept_since.store(now, Relaxed);
            return;
        }
        let Some(after) = shared.stalls.after.filter(|_| !self.told) else {
            return;
        };
        let lasted = now - self.since;
        if lasted >= after / 2 && self.halfway.is_none() {
            self.halfway = Some(of_thread(server.carried_by()));
        }
        // While a server is idle nobody waits for this one. What is bound to it does, but is not
        // known here.
        let others_wait = shared.sleepers.asleep() == 0 && shared.live() > 1;
        if lasted >= after && others_wait {
            self.told = true;
            self.report(shared, index, server, lasted);
        }
    }

    fn report(&self, shared: &Shared, index: usize, server: raw::Server, lasted: u64) {
        let doing = of_thread(server.carried_by());
        let worker = server.current();
        let (cause, site) = match &doing {
            Doing::Gone => return,
            Doing::Blocks(call) if self.halfway.as_ref() == Some(&doing) => {
                (StallCause::Blocks(call.to_string()), call.name())
            }
            _ if !shared.stalls.computing => return,
            _ => (StallCause::Computes, String::new()),
        };
        let stall = Stall {
            runtime: shared.name.clone(),
            server: Some(index),
            worker: worker.map(raw::Worker::id),
            name: worker.map_or(String::new(), raw::Worker::name),
            lasted: Duration::from_nanos(lasted),
            cause,
        };
        if server.turns() == self.turns {
            shared.stalls.tell(&stall, &site);
        }
    }
}

/// For a dump: how long this server's worker has kept it, and its call of the kernel if it blocks.
pub(crate) fn describe(shared: &Shared, index: usize) -> String {
    let seat = &shared.seats[index];
    let Some(server) = seat.server() else {
        return String::new();
    };
    let kept_since = seat.kept_since.load(Relaxed);
    let lasted = match kept_since {
        0 => String::new(),
        since => format!(
            " for {:.1} s",
            Duration::from_nanos(time::now().saturating_sub(since)).as_secs_f64()
        ),
    };
    let doing: Option<Call> = match of_thread(server.carried_by()) {
        Doing::Blocks(call) => Some(call),
        Doing::Runs | Doing::Gone => None,
    };
    doing.map_or(lasted.clone(), |call| format!("{lasted}, in {call}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::watch::Watch;

    /// A watch begins to look when its thread gets to run, and by then its runtime may have
    /// workers.
    #[test]
    fn a_lack_before_the_watch_looks_first_is_its_to_tell() {
        let watch = Watch::new(None);
        helpers_block(1, 1);
        assert!(watch.lack().is_new());
    }
}
