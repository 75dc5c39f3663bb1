//! Reports of stalls: what is told, and to whom. Stalls are noticed in
//! [`run::stall`](crate::rt::run).

use crate::rt::base::last;
use crate::rt::base::sync::HoldLock;
use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// How long a server is blocked before the library says so where the program has set nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
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
    /// ([`RuntimeBuilder::helpers`](crate::rt::RuntimeBuilder::helpers)): so workers that are to
    /// block wait until one comes back, or one more is made. Told to all runtimes.
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
    pub(crate) after: Option<u64>,
    /// Workers that compute, too.
    pub(crate) computing: bool,
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
    pub(crate) fn tells_of_helpers(&self) -> bool {
        static IS_TOLD: AtomicBool = AtomicBool::new(false);
        self.after.is_some()
            && (matches!(self.tell, Tell::Function(_)) || !IS_TOLD.swap(true, Relaxed))
    }

    pub(crate) fn tell(&self, stall: &Stall, site: &str) {
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
