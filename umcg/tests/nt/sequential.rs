//! Random sequences of operations, against their effects in the document of ntsync, one after the
//! other.
//!
//! Each wait that has to wait is a worker. The model says which of them go on with each step, and
//! with which result. When a step is done those have gone on, and the others stand in as many
//! queues as the model has.

use crate::id;
use crate::parties::{abort, waiters};
use crate::support::{eventually, with};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use umcg::nt::{BorrowedHandle, Event, Handle, Mutex, Owned, Semaphore, Wait, WaitError, Woken};
use umcg::{JoinHandle, Runtime};

type Ended = Result<Woken, WaitError>;

/// An object, as a sentence of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Event {
        is_manual: bool,
        is_set: bool,
    },
    Semaphore {
        count: u32,
        most: u32,
    },
    Mutex {
        owner: u32,
        depth: u32,
        is_abandoned: bool,
    },
}

const MUTEX: Thing = Thing::Mutex {
    owner: 0,
    depth: 0,
    is_abandoned: false,
};

/// Two of each: events, semaphores, mutexes.
const THINGS: [Thing; 6] = [
    Thing::Event {
        is_manual: false,
        is_set: false,
    },
    Thing::Event {
        is_manual: true,
        is_set: false,
    },
    Thing::Semaphore { count: 0, most: 1 },
    Thing::Semaphore { count: 1, most: 3 },
    MUTEX,
    MUTEX,
];

impl Thing {
    fn is_signaled(self, by: u32) -> bool {
        match self {
            Thing::Event { is_set, .. } => is_set,
            Thing::Semaphore { count, .. } => count > 0,
            Thing::Mutex { owner, .. } => owner == 0 || owner == by,
        }
    }

    /// Whether it was abandoned.
    fn take(&mut self, by: u32) -> bool {
        match self {
            Thing::Event { is_manual, is_set } => *is_set = *is_manual,
            Thing::Semaphore { count, .. } => *count -= 1,
            Thing::Mutex {
                owner,
                depth,
                is_abandoned,
            } => {
                (*owner, *depth) = (by, *depth + 1);
                return std::mem::take(is_abandoned);
            }
        }
        false
    }
}

#[derive(Clone, Debug)]
struct Asked {
    list: Vec<usize>,
    is_all: bool,
    alert: Option<usize>,
    owner: u32,
}

impl Asked {
    fn is_invalid(&self) -> bool {
        let is_twice =
            |n: usize| self.list[..n].contains(&self.list[n]) || self.alert == Some(self.list[n]);
        self.is_all && (0..self.list.len()).any(is_twice)
    }

    fn places_at(&self, thing: usize) -> usize {
        self.list
            .iter()
            .chain(&self.alert)
            .filter(|at| **at == thing)
            .count()
    }

    fn call<R>(&self, handles: &[Handle], call: impl FnOnce(Wait<'_>) -> R) -> R {
        let list: Vec<BorrowedHandle<'_>> = self
            .list
            .iter()
            .map(|at| handles[*at].as_handle())
            .collect();
        let wait = if self.is_all {
            Wait::all(&list)
        } else {
            Wait::any(&list)
        };
        let wait = wait.owner(id(self.owner));
        call(
            self.alert
                .map_or(wait, |alert| wait.alert(handles[alert].as_handle())),
        )
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(Asked),
    Poll(Asked),
    Set(usize),
    Reset(usize),
    Pulse(usize),
    Release(usize, u32),
    Unlock(usize, u32),
    Kill(usize, u32),
    Abort(usize),
}

struct Model {
    things: [Thing; 6],
    waiting: Vec<(usize, Asked)>,
}

impl Model {
    fn try_wait(&mut self, asked: &Asked) -> Option<Ended> {
        if asked.is_invalid() {
            return Some(Err(WaitError::Invalid));
        }
        let things = &mut self.things;
        let taken = if asked.is_all {
            let are_all = asked
                .list
                .iter()
                .all(|at| things[*at].is_signaled(asked.owner));
            are_all.then(|| {
                (
                    0,
                    asked
                        .list
                        .iter()
                        .fold(false, |before, at| things[*at].take(asked.owner) | before),
                )
            })
        } else {
            let first = asked
                .list
                .iter()
                .position(|at| things[*at].is_signaled(asked.owner));
            first.map(|first| (first, things[asked.list[first]].take(asked.owner)))
        };
        if let Some((index, is_abandoned)) = taken {
            return Some(Ok(if is_abandoned {
                Woken::Abandoned(index)
            } else {
                Woken::Object(index)
            }));
        }
        let alert = asked
            .alert
            .filter(|alert| things[*alert].is_signaled(asked.owner))?;
        things[alert].take(asked.owner);
        Some(Ok(Woken::Alert))
    }

    /// Those that stand at this object have the choice, in the order in which they came.
    fn serve(&mut self, at: usize) -> Vec<(usize, Ended)> {
        let mut ended = Vec::new();
        for (id, asked) in std::mem::take(&mut self.waiting) {
            let woken = if asked.places_at(at) > 0 {
                self.try_wait(&asked)
            } else {
                None
            };
            match woken {
                Some(woken) => ended.push((id, woken)),
                None => self.waiting.push((id, asked)),
            }
        }
        ended
    }

    /// The previous state: whether it was set, its count, or its depth; none for an error.
    fn change(&mut self, step: &Step) -> (Option<u32>, usize) {
        match *step {
            Step::Set(at) | Step::Reset(at) | Step::Pulse(at) => {
                let Thing::Event { is_set, .. } = &mut self.things[at] else {
                    unreachable!()
                };
                (
                    Some(u32::from(std::mem::replace(
                        is_set,
                        !matches!(step, Step::Reset(_)),
                    ))),
                    at,
                )
            }
            Step::Release(at, add) => {
                let Thing::Semaphore { count, most } = &mut self.things[at] else {
                    unreachable!()
                };
                let before = *count;
                if before + add > *most {
                    return (None, at);
                }
                *count += add;
                (Some(before), at)
            }
            Step::Unlock(at, by) | Step::Kill(at, by) => {
                let Thing::Mutex {
                    owner,
                    depth,
                    is_abandoned,
                } = &mut self.things[at]
                else {
                    unreachable!()
                };
                if *owner != by {
                    return (None, at);
                }
                let before = *depth;
                *is_abandoned = matches!(step, Step::Kill(..));
                *depth = if *is_abandoned { 0 } else { before - 1 };
                *owner = if *depth == 0 { 0 } else { by };
                (Some(before), at)
            }
            Step::Wait(_) | Step::Poll(_) | Step::Abort(_) => unreachable!(),
        }
    }
}

fn change(handles: &[Handle], step: &Step) -> Option<u32> {
    match *step {
        Step::Set(at) => Some(handles[at].as_event().unwrap().set().into()),
        Step::Reset(at) => Some(handles[at].as_event().unwrap().reset().into()),
        Step::Pulse(at) => Some(handles[at].as_event().unwrap().pulse().into()),
        Step::Release(at, add) => handles[at].as_semaphore().unwrap().release(add).ok(),
        Step::Unlock(at, by) => handles[at].as_mutex().unwrap().unlock_as(id(by)).ok(),
        Step::Kill(at, by) => {
            let mutex = handles[at].as_mutex().unwrap();
            let Owned::By(_, depth) = mutex.owned() else {
                return mutex.kill(id(by)).ok().map(|()| 0);
            };
            mutex.kill(id(by)).ok().map(|()| depth)
        }
        Step::Wait(_) | Step::Poll(_) | Step::Abort(_) => unreachable!(),
    }
}

fn is_like(handle: &Handle, thing: Thing) -> bool {
    match thing {
        Thing::Event { is_manual, is_set } => handle
            .as_event()
            .is_some_and(|event| event.is_set() == is_set && event.is_manual() == is_manual),
        Thing::Semaphore { count, .. } => handle
            .as_semaphore()
            .is_some_and(|semaphore| semaphore.count() == count),
        Thing::Mutex {
            owner,
            depth,
            is_abandoned,
        } => handle.as_mutex().is_some_and(|mutex| match mutex.owned() {
            Owned::Free => owner == 0 && !is_abandoned,
            Owned::Abandoned => owner == 0 && is_abandoned,
            Owned::By(by, so_deep) => (owner, depth) == (by.get(), so_deep) && !is_abandoned,
        }),
    }
}

/// A change of an object, and the ends of the waits that it serves.
fn play_change(
    model: &mut Model,
    handles: &[Handle],
    pending: &mut Vec<(usize, JoinHandle<Ended>)>,
    step: &Step,
) {
    let (expected, at) = model.change(step);
    let ended = if expected.is_some() {
        model.serve(at)
    } else {
        Vec::new()
    };
    if let (Step::Pulse(_), Thing::Event { is_set, .. }) = (step, &mut model.things[at]) {
        *is_set = false;
    }
    assert_eq!(change(handles, step), expected, "{step:?}");
    for (number, expected) in ended {
        let mut numbers = pending.iter().map(|(number, _)| *number);
        let index = numbers.position(|pending| pending == number).unwrap();
        let ended = pending.remove(index).1.join().unwrap();
        assert_eq!(ended, expected, "{step:?}");
    }
}

/// Whether the objects are as the model says, and no worker goes on that should not.
fn compare(model: &Model, handles: &[Handle], pending: &[(usize, JoinHandle<Ended>)], step: &Step) {
    for (at, handle) in handles.iter().enumerate() {
        let waiting = model.waiting.iter();
        let places: usize = waiting.map(|(_, asked)| asked.places_at(at)).sum();
        eventually("the others wait", || waiters(handle) == places);
        let thing = model.things[at];
        assert!(
            is_like(handle, thing),
            "{step:?}: {handle:?} is not {thing:?}"
        );
    }
    let goes_on = pending.iter().any(|(_, worker)| worker.is_finished());
    assert!(!goes_on, "{step:?}: nobody else goes on");
}

fn play(runtime: &Runtime, steps: Vec<Step>) {
    let mut model = Model {
        things: THINGS,
        waiting: Vec::new(),
    };
    let handles: Arc<[Handle]> = Arc::new([
        Event::auto(false).into(),
        Event::manual(false).into(),
        Semaphore::new(0, 1).unwrap().into(),
        Semaphore::new(1, 3).unwrap().into(),
        Mutex::new(false).into(),
        Mutex::with_owner(0, 0).unwrap().into(),
    ]);
    let mut pending: Vec<(usize, JoinHandle<Ended>)> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        match &step {
            Step::Poll(asked) => {
                let expected = model.try_wait(asked).unwrap_or(Err(WaitError::TimedOut));
                assert_eq!(
                    asked.call(&handles, |wait| wait.try_wait()),
                    expected,
                    "{step:?}"
                );
            }
            Step::Wait(asked) => match model.try_wait(asked) {
                Some(expected) => assert_eq!(
                    asked.call(&handles, |wait| wait.wait()),
                    expected,
                    "{step:?}"
                ),
                None => {
                    model.waiting.push((number, asked.clone()));
                    let (inside, asked) = (handles.clone(), asked.clone());
                    pending.push((
                        number,
                        runtime.spawn(move || asked.call(&inside, |wait| wait.wait())),
                    ));
                }
            },
            Step::Abort(_) if pending.is_empty() => {}
            Step::Abort(which) => {
                let (number, worker) = pending.remove(which % pending.len());
                abort(worker);
                model.waiting.retain(|(waiting, _)| *waiting != number);
            }
            step => play_change(&mut model, &handles, &mut pending, step),
        }
        compare(&model, &handles, &pending, &step);
    }
    pending.into_iter().for_each(|(_, worker)| abort(worker));
    assert!(handles.iter().all(|handle| waiters(handle) == 0));
}

fn asked() -> impl Strategy<Value = Asked> {
    let list = proptest::collection::vec(0..6_usize, 0..5);
    let alert = prop_oneof![3 => Just(None), 1 => (0..2_usize).prop_map(Some)];
    (list, any::<bool>(), alert, 1..3_u32).prop_map(|(mut list, is_all, alert, owner)| {
        // Seldom twice the same, where that is an error.
        if is_all && list.first() != Some(&0) {
            let mut seen = Vec::new();
            list.retain(|at| alert != Some(*at) && !seen.contains(at) && (seen.push(*at), true).1);
        }
        Asked {
            list,
            is_all,
            alert,
            owner,
        }
    })
}

#[test]
fn as_the_document_says() {
    let step = prop_oneof![
        8 => asked().prop_map(Step::Wait),
        3 => asked().prop_map(Step::Poll),
        2 => (0..2_usize).prop_map(Step::Set),
        1 => (0..2_usize).prop_map(Step::Reset),
        2 => (0..2_usize).prop_map(Step::Pulse),
        3 => (2..4_usize, 0..3_u32).prop_map(|(at, count)| Step::Release(at, count)),
        5 => (4..6_usize, 1..3_u32).prop_map(|(at, owner)| Step::Unlock(at, owner)),
        1 => (4..6_usize, 1..3_u32).prop_map(|(at, owner)| Step::Kill(at, owner)),
        1 => any::<usize>().prop_map(Step::Abort),
    ];
    with("sequences", 2, Runtime::builder(), |runtime| {
        let config = Config {
            cases: 600,
            failure_persistence: None,
            max_shrink_iters: 0,
            ..Config::default()
        };
        let result =
            TestRunner::new(config).run(&proptest::collection::vec(step, 1..40), |steps| {
                play(runtime, steps);
                Ok(())
            });
        if let Err(error) = result {
            panic!("{error}");
        }
    });
}
