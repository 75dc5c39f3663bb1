//! Random sequences of operations, against their effects one after the other.
//!
//! Each request is a worker that waits until it is served. A model of a few lines says which ones
//! are served by each step. When a step is done, those have gone on, and the others wait, as the
//! objects' own count has it.

use crate::parties::waiters;
use crate::support::{eventually, flag, with};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;
use umcg::sync::{RawRwLock, Semaphore, wait_all, wait_any};
use umcg::{JoinHandle, Runtime};

/// The request, and the worker that answers.
trait Subject: Default + Send + Sync + 'static {
    type Want: Copy + std::fmt::Debug + Send;
    type Give: Copy + std::fmt::Debug;

    /// Waits until it is served.
    fn wait(&self, want: Self::Want);

    fn give(&self, give: Self::Give);

    /// How many places there are in its queues.
    fn places(&self) -> usize;
}

/// The same, one step after the other. Requests have numbers.
trait Model: Default {
    type Subject: Subject;

    /// The fate of a gift when there may be no holder to give it.
    fn give(
        &mut self,
        give: <Self::Subject as Subject>::Give,
    ) -> Option<<Self::Subject as Subject>::Give>;

    fn may_ask(&self, _want: <Self::Subject as Subject>::Want) -> bool {
        true
    }

    fn ask(&mut self, id: usize, want: <Self::Subject as Subject>::Want);

    fn forget(&mut self, id: usize);

    /// The requests that are served in the present state.
    fn serve(&mut self) -> Vec<usize>;

    fn places(&self) -> usize;
}

#[derive(Clone, Copy, Debug)]
enum Step<W, G> {
    Ask(W),
    Give(G),
    /// One of those that wait is aborted.
    Abort(usize),
}

struct Request {
    id: usize,
    worker: JoinHandle<()>,
    is_served: Arc<AtomicBool>,
}

type Steps<S> = Vec<Step<<S as Subject>::Want, <S as Subject>::Give>>;

fn play<M: Model>(runtime: &Runtime, steps: Steps<M::Subject>) {
    let (mut model, subject) = (M::default(), Arc::new(M::Subject::default()));
    let mut pending: Vec<Request> = Vec::new();
    for (id, step) in steps.into_iter().enumerate() {
        match step {
            Step::Ask(want) if !model.may_ask(want) => continue,
            Step::Ask(want) => {
                let is_served = flag();
                let (inside, served) = (subject.clone(), is_served.clone());
                let worker = runtime.spawn(move || {
                    inside.wait(want);
                    served.store(true, Release);
                });
                pending.push(Request {
                    id,
                    worker,
                    is_served,
                });
                model.ask(id, want);
            }
            Step::Give(give) => {
                let Some(give) = model.give(give) else {
                    continue;
                };
                subject.give(give);
            }
            Step::Abort(_) if pending.is_empty() => continue,
            Step::Abort(index) => {
                let request = pending.remove(index % pending.len());
                crate::parties::abort(request.worker);
                model.forget(request.id);
            }
        }
        for id in model.serve() {
            let index = pending.iter().position(|request| request.id == id).unwrap();
            let request = pending.remove(index);
            eventually("it is served", || request.is_served.load(Acquire));
            request.worker.join().unwrap();
        }
        let places = model.places();
        eventually("the others wait", || subject.places() == places);
        assert!(
            !pending
                .iter()
                .any(|request| request.is_served.load(Acquire)),
            "nobody else is served"
        );
    }
    // A request that goes may make way for another.
    pending.iter().for_each(|request| request.worker.abort());
    pending
        .into_iter()
        .for_each(|request| drop(request.worker.join()));
    assert_eq!(subject.places(), 0);
}

fn check<M: Model>(
    name: &'static str,
    step: impl Strategy<Value = Step<<M::Subject as Subject>::Want, <M::Subject as Subject>::Give>>,
) {
    with(name, 2, Runtime::builder(), |runtime| {
        let config = Config {
            cases: 400,
            failure_persistence: None,
            max_shrink_iters: 0,
            ..Config::default()
        };
        let steps = proptest::collection::vec(step, 1..40);
        let result = TestRunner::new(config).run(&steps, |steps| {
            play::<M>(runtime, steps);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    });
}

/// Two semaphores.
struct Pair([Semaphore; 2]);

impl Default for Pair {
    fn default() -> Pair {
        Pair([Semaphore::new(0), Semaphore::new(0)])
    }
}

#[derive(Clone, Copy, Debug)]
enum Taking {
    Of(usize, u32),
    Any,
    All,
}

impl Taking {
    /// How much of that semaphore; none if it does not stand there.
    fn wants(self, semaphore: usize) -> Option<u32> {
        match self {
            Taking::Of(which, count) => (which == semaphore).then_some(count),
            Taking::Any | Taking::All => Some(1),
        }
    }
}

impl Subject for Pair {
    type Want = Taking;
    type Give = (usize, u32);

    fn wait(&self, want: Taking) {
        let [one, other] = &self.0;
        match want {
            Taking::Of(semaphore, count) => self.0[semaphore].acquire_many(count).unwrap(),
            Taking::Any => assert!(wait_any(&[one, other]).is_ok()),
            Taking::All => wait_all(&[one, other]).unwrap(),
        }
    }

    fn give(&self, (semaphore, count): (usize, u32)) {
        self.0[semaphore].release(count).unwrap();
    }

    fn places(&self) -> usize {
        self.0.iter().map(waiters).sum()
    }
}

#[derive(Default)]
struct PairModel {
    saved: [u32; 2],
    queue: Vec<(usize, Taking)>,
}

impl PairModel {
    /// Whether every request that stands before this one, in that queue, wants all.
    fn is_first(&self, position: usize, semaphore: usize) -> bool {
        self.queue[..position]
            .iter()
            .all(|(_, want)| matches!(want, Taking::All) || want.wants(semaphore).is_none())
    }

    /// The things taken for the one at this position, if it can be served.
    fn takes(&self, position: usize) -> Option<[u32; 2]> {
        let want = self.queue[position].1;
        let has = |semaphore: usize| {
            let count = want.wants(semaphore)?;
            (self.saved[semaphore] >= count && self.is_first(position, semaphore)).then_some(count)
        };
        match (want, has(0), has(1)) {
            (Taking::All, Some(one), Some(other)) => Some([one, other]),
            (Taking::All, _, _) => None,
            (_, Some(count), _) => Some([count, 0]),
            (_, _, Some(count)) => Some([0, count]),
            _ => None,
        }
    }
}

impl Model for PairModel {
    type Subject = Pair;

    fn give(&mut self, (semaphore, count): (usize, u32)) -> Option<(usize, u32)> {
        self.saved[semaphore] += count;
        Some((semaphore, count))
    }

    fn ask(&mut self, id: usize, want: Taking) {
        self.queue.push((id, want));
    }

    fn forget(&mut self, id: usize) {
        self.queue.retain(|(other, _)| *other != id);
    }

    fn serve(&mut self) -> Vec<usize> {
        let mut served = Vec::new();
        while let Some((position, takes)) =
            (0..self.queue.len()).find_map(|at| self.takes(at).map(|takes| (at, takes)))
        {
            (0..2).for_each(|semaphore| self.saved[semaphore] -= takes[semaphore]);
            served.push(self.queue.remove(position).0);
        }
        served
    }

    fn places(&self) -> usize {
        self.queue
            .iter()
            .map(|(_, want)| {
                (0..2)
                    .filter(|semaphore| want.wants(*semaphore).is_some())
                    .count()
            })
            .sum()
    }
}

#[test]
fn semaphores_one_any_and_all() {
    let step = prop_oneof![
        3 => (0..2usize, 0..4u32)
            .prop_map(|(semaphore, count)| Step::Ask(Taking::Of(semaphore, count))),
        1 => Just(Step::Ask(Taking::Any)),
        2 => Just(Step::Ask(Taking::All)),
        5 => (0..2usize, 0..4u32).prop_map(Step::Give),
        2 => any::<usize>().prop_map(Step::Abort),
    ];
    check::<PairModel>("semaphores, one after the other", step);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    Read,
    Write,
    Upgradable,
    /// By the upgradable holder.
    Upgrade,
}

const FOREVER: Duration = Duration::MAX;

impl Subject for RawRwLock {
    type Want = Locking;
    type Give = Locking;

    fn wait(&self, want: Locking) {
        use lock_api::{RawRwLockTimed as _, RawRwLockUpgradeTimed as _};
        assert!(match want {
            Locking::Read => self.try_lock_shared_for(FOREVER),
            Locking::Write => self.try_lock_exclusive_for(FOREVER),
            Locking::Upgradable => self.try_lock_upgradable_for(FOREVER),
            // SAFETY: `may_ask`: it is upgradable, and the asking party holds it.
            Locking::Upgrade => unsafe { self.try_upgrade_for(FOREVER) },
        });
    }

    fn give(&self, give: Locking) {
        use lock_api::{RawRwLock as _, RawRwLockUpgrade as _};
        match give {
            // SAFETY: the model has found it locked so, here and below.
            Locking::Read => unsafe { self.unlock_shared() },
            // SAFETY: as above.
            Locking::Write => unsafe { self.unlock_exclusive() },
            // SAFETY: as above.
            _ => unsafe { self.unlock_upgradable() },
        }
    }

    fn places(&self) -> usize {
        waiters(self)
    }
}

#[derive(Default)]
struct LockModel {
    readers: usize,
    is_written: bool,
    is_upgradable: bool,
    queue: Vec<(usize, Locking)>,
}

impl LockModel {
    fn upgrades(&self) -> bool {
        self.queue
            .first()
            .is_some_and(|(_, want)| *want == Locking::Upgrade)
    }

    fn is_room(&self, want: Locking) -> bool {
        match want {
            Locking::Read => !self.is_written,
            Locking::Write => !self.is_written && !self.is_upgradable && self.readers == 0,
            Locking::Upgradable => !self.is_written && !self.is_upgradable,
            Locking::Upgrade => self.readers == 0,
        }
    }
}

impl Model for LockModel {
    type Subject = RawRwLock;

    /// Unlocks the lock, if it is locked so, and not in the midst of an upgrade.
    fn give(&mut self, give: Locking) -> Option<Locking> {
        match give {
            Locking::Read if self.readers > 0 => self.readers -= 1,
            Locking::Write if self.is_written => self.is_written = false,
            Locking::Upgradable if self.is_upgradable && !self.upgrades() => {
                self.is_upgradable = false
            }
            _ => return None,
        }
        Some(give)
    }

    fn may_ask(&self, want: Locking) -> bool {
        want != Locking::Upgrade || (self.is_upgradable && !self.upgrades())
    }

    fn ask(&mut self, id: usize, want: Locking) {
        let position = if want == Locking::Upgrade {
            0
        } else {
            self.queue.len()
        };
        self.queue.insert(position, (id, want));
    }

    fn forget(&mut self, id: usize) {
        self.queue.retain(|(other, _)| *other != id);
    }

    fn serve(&mut self) -> Vec<usize> {
        let mut served = Vec::new();
        while let Some((id, want)) = self
            .queue
            .first()
            .copied()
            .filter(|(_, want)| self.is_room(*want))
        {
            match want {
                Locking::Read => self.readers += 1,
                Locking::Upgradable => self.is_upgradable = true,
                Locking::Write | Locking::Upgrade => {
                    (self.is_written, self.is_upgradable) = (true, false)
                }
            }
            self.queue.remove(0);
            served.push(id);
        }
        served
    }

    fn places(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn rwlocks() {
    let locking = || {
        prop_oneof![
            4 => Just(Locking::Read),
            2 => Just(Locking::Write),
            2 => Just(Locking::Upgradable),
            1 => Just(Locking::Upgrade)
        ]
    };
    let step = prop_oneof![
        4 => locking().prop_map(Step::Ask),
        5 => locking().prop_map(Step::Give),
        2 => any::<usize>().prop_map(Step::Abort),
    ];
    check::<LockModel>("rwlocks, one after the other", step);
}
