//! Reports of stalls: their contents and where they go. Stalls are noticed in
//! [`run::stall`](crate::rt::run).

use crate::rt::base::last;
use crate::rt::base::sync::HoldLock;
use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// How long a server is blocked before the library reports it, if the program has set no other
/// time.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The most lines a runtime writes on standard error on its own account. The line about helpers
/// does not count.
const MOST: usize = 10;

/// An event that keeps workers from running for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The runtime's name.
    pub runtime: String,
    /// The number of the server that is kept. None where workers wait for something else.
    pub server: Option<usize>,
    /// The id of the worker that keeps the server. None where the server itself is kept, for
    /// example by its scheduler.
    pub worker: Option<u64>,
    /// The worker's name, or an empty one.
    pub name: String,
    /// How long it has lasted so far, at least.
    pub lasted: Duration,
    /// The cause.
    pub cause: StallCause,
}

/// Why workers could not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// The worker computes, or makes one short system call after another.
    Computes,
    /// The worker blocks in this system call: its name, and its first argument.
    Blocks(String),
    /// All helper threads block, and there are as many as there may be
    /// ([`RuntimeBuilder::helpers`](crate::rt::RuntimeBuilder::helpers)). Workers that are about to
    /// block wait until a helper comes back, or one more is made. Reported to all runtimes.
    ///
    /// Or the system gives no thread for a helper. Workers that are about to block
    /// ([`blocking`](crate::blocking)) then block their servers instead, and `workers` is 0.
    NoHelper {
        /// How many helper threads there were.
        helpers: usize,
        /// How many workers waited for a helper.
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

/// A runtime's policy for stalls.
pub(crate) struct StallPolicy {
    /// Nanoseconds until a stay on a server is reported; none for never.
    pub(crate) after: Option<u64>,
    /// Whether workers that compute are reported, too.
    pub(crate) computing: bool,
    tell: Tell,
}

enum Tell {
    Function(Box<dyn Fn(&Stall) + Send + Sync>),
    /// The value: the pairs of a worker's name and its call that have been reported already.
    StandardError(HoldLock<Option<HashSet<(String, String)>>>),
}

impl StallPolicy {
    /// The policy that the environment sets, or the default.
    pub(crate) fn of_environment() -> StallPolicy {
        let told = Tell::StandardError(HoldLock::new(None));
        match std::env::var("UMCG_STALLS")
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
        {
            Some(0) => StallPolicy {
                after: None,
                computing: false,
                tell: told,
            },
            Some(milliseconds) => StallPolicy {
                after: Some(milliseconds.saturating_mul(1_000_000)),
                computing: true,
                tell: told,
            },
            None => StallPolicy {
                after: Some(PATIENCE.as_nanos() as u64),
                computing: false,
                tell: told,
            },
        }
    }

    /// A policy that calls `f` for each stay on a server that lasts longer than `after`.
    pub(crate) fn calling(after: Duration, f: Box<dyn Fn(&Stall) + Send + Sync>) -> StallPolicy {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        StallPolicy {
            after: Some(after),
            computing: true,
            tell: Tell::Function(f),
        }
    }

    /// Whether this policy reports a lack of helpers. On standard error one runtime has to report
    /// it.
    pub(crate) fn tells_of_helpers(&self) -> bool {
        static IS_TOLD: AtomicBool = AtomicBool::new(false);
        self.after.is_some()
            && (matches!(self.tell, Tell::Function(_)) || !IS_TOLD.swap(true, Relaxed))
    }

    pub(crate) fn tell(&self, stall: &Stall, site: &str) {
        match &self.tell {
            // A panic in it would end the watch, which all servers rely on.
            Tell::Function(f) => last::contained(|| f(stall)),
            Tell::StandardError(told) => {
                let mut told = told.lock();
                let told = told.get_or_insert_default();
                // No other runtime will report a lack of helpers.
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
