//! The party that runs a scenario: a plain thread, or a worker.

use crate::ledger::Ledger;
use crate::support::{self, Kind, say, silence_what_is_expected};
use crate::trap::{BADS, Bad};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use umcg::{JoinError, JoinHandle, Runtime};

/// If it is set each case is named before it is tried: for those that hang.
const SAY: &str = "UMCG_CALLBACKS_SAY";

/// The party that runs a scenario, with the means to abort it.
#[derive(Clone, Default)]
pub(crate) struct Myself(Arc<Mutex<Option<JoinHandle<()>>>>);

impl Myself {
    pub(crate) fn abort(&self) {
        if let Some(worker) = &*self.0.lock().unwrap() {
            worker.abort();
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Party {
    Thread,
    Worker(Kind),
}

const PARTIES: [Party; 3] = [
    Party::Thread,
    Party::Worker(Kind::Full),
    Party::Worker(Kind::Light),
];

impl Party {
    /// Runs it to its end, which may be that it was aborted, if `may_be_cut`.
    #[track_caller]
    fn run(
        self,
        runtime: &Runtime,
        may_be_cut: bool,
        scenario: impl FnOnce(&Myself) + Send + 'static,
    ) {
        let myself = Myself::default();
        let inside = myself.clone();
        match self {
            Party::Thread => {
                let ended = std::thread::spawn(move || scenario(&inside)).join();
                ended.unwrap_or_else(|panic| resume_unwind(panic));
            }
            Party::Worker(kind) => {
                let worker = kind.spawn_on(runtime, move || {
                    while inside.0.lock().unwrap().is_none() {
                        umcg::yield_now();
                    }
                    scenario(&inside);
                });
                *myself.0.lock().unwrap() = Some(worker);
                while !myself
                    .0
                    .lock()
                    .unwrap()
                    .as_ref()
                    .is_some_and(JoinHandle::is_finished)
                {
                    std::thread::yield_now();
                }
                let worker = myself.0.lock().unwrap().take();
                match worker.map(JoinHandle::join) {
                    Some(Err(JoinError::Cancelled)) if may_be_cut => {}
                    Some(Ok(())) => {}
                    Some(Err(error)) => error.resume_unwind(),
                    None => unreachable!(),
                }
            }
        }
    }
}

/// Runs all cases with each bad callback, by each party, on two servers. A case that aborts its
/// party has a party of its own, as the abort is for good. The ledger is checked after each.
#[track_caller]
pub(crate) fn each<C: Clone + Send + 'static>(
    name: &'static str,
    cases: impl Fn(Bad) -> Vec<C>,
    scenario: impl Fn(&C, Bad, &'static Ledger, &Myself) + Copy + Send + 'static,
    what: fn(&C) -> String,
) {
    silence_what_is_expected();
    support::with(
        name,
        2,
        Runtime::builder().stack_size(256 << 10),
        |runtime| {
            for party in PARTIES {
                for bad in BADS
                    .into_iter()
                    .filter(|bad| *bad != Bad::Aborts || !matches!(party, Party::Thread))
                {
                    let cases = cases(bad);
                    let together = if bad == Bad::Aborts {
                        1
                    } else {
                        cases.len().max(1)
                    };
                    for some in cases.chunks(together).map(<[C]>::to_vec) {
                        party.run(runtime, bad == Bad::Aborts, move |myself| {
                            for case in &some {
                                let ledger = Ledger::new();
                                let what = format!(
                                    "{name}, by {party:?}, {}, a callback that is bad: {bad:?}",
                                    what(case)
                                );
                                if std::env::var_os(SAY).is_some() {
                                    say(&what);
                                }
                                let ended = catch_unwind(AssertUnwindSafe(|| {
                                    scenario(case, bad, ledger, myself)
                                }));
                                if let Err(panic) = ended {
                                    say(&what);
                                    resume_unwind(panic);
                                }
                                ledger.check(&what);
                            }
                        });
                    }
                }
            }
        },
    );
}

/// Makes a call that may panic or be cut short by a bad callback, and goes on with the errors it is
/// not to blame for.
pub(crate) fn forgive<R>(bad: Bad, f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(panic) => {
            let says = panic
                .downcast_ref::<&str>()
                .is_some_and(|words| words.starts_with("expected"));
            let is_cut = bad == Bad::Aborts && !panic.is::<&str>() && !panic.is::<String>();
            let is_its_own = says && matches!(bad, Bad::Panics | Bad::Panic);
            if is_cut || is_its_own {
                None
            } else {
                resume_unwind(panic)
            }
        }
    }
}
