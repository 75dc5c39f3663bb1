//! Things that are taken and given back: semaphores, events that are reset automatically, and
//! mutexes; one at a time, one of many, or all at once.

use crate::harness::Rng;
use crate::party::Party;
use crate::world::{Intents, World, told};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg::select::{Operation, Select, Selectable, after};
use umcg::sync::{
    Event, Mutex, Object, RawMutex, Semaphore, acquire_any, acquire_any_timeout, locking,
    try_acquire_any, try_wait_all, try_wait_any, wait_all, wait_all_timeout, wait_any,
    wait_any_timeout,
};

#[derive(Debug)]
pub(crate) enum Thing {
    Strong(Semaphore),
    Barging(Semaphore),
    Event(Event),
    Mutex(Mutex<()>),
}

/// A thing, and how much of it there is altogether.
#[derive(Debug)]
pub(crate) struct Taking {
    pub(crate) thing: Thing,
    tokens: u32,
    in_hands: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct Takings(pub(crate) Vec<Taking>);

/// This many tokens of one thing in a party's hands; they go back when this is dropped.
pub(crate) struct Hold {
    world: Arc<World>,
    index: usize,
    count: u32,
}

impl Hold {
    /// They were taken.
    pub(crate) fn new(party: &Party, index: usize, count: u32) -> Hold {
        let taking = &party.world.takings.0[index];
        let before = taking.in_hands.fetch_add(count, SeqCst);
        assert!(
            before + count <= taking.tokens,
            "{before} + {count} of {taking:?}"
        );
        Hold {
            world: party.world.clone(),
            index,
            count,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let taking = &self.world.takings.0[self.index];
        taking.in_hands.fetch_sub(self.count, SeqCst);
        match &taking.thing {
            Thing::Strong(semaphore) | Thing::Barging(semaphore) => {
                semaphore.release(self.count).unwrap()
            }
            Thing::Event(event) => event.set(),
            // SAFETY: it is locked, without a guard: this value holds that lock.
            Thing::Mutex(mutex) => unsafe { mutex.force_unlock() },
        }
    }
}

impl Taking {
    fn new(rng: &mut Rng) -> Taking {
        let tokens = 1 + rng.below(3) as u32;
        let (thing, tokens) = match rng.below(8) {
            0..=2 => (Thing::Strong(Semaphore::new(tokens)), tokens),
            3 | 4 => (Thing::Barging(Semaphore::barging(tokens)), tokens),
            5 | 6 => (Thing::Event(Event::auto(true)), 1),
            _ => (
                Thing::Mutex(Mutex::from_raw(
                    if rng.one_in(2) {
                        RawMutex::fair()
                    } else {
                        RawMutex::new()
                    },
                    (),
                )),
                1,
            ),
        };
        Taking {
            thing,
            tokens,
            in_hands: AtomicU32::new(0),
        }
    }

    fn available(&self) -> u32 {
        match &self.thing {
            Thing::Strong(semaphore) | Thing::Barging(semaphore) => semaphore.available(),
            Thing::Event(event) => u32::from(event.is_set()),
            Thing::Mutex(mutex) => u32::from(!mutex.is_locked()),
        }
    }

    fn object(&self) -> &dyn Object {
        match &self.thing {
            Thing::Strong(semaphore) | Thing::Barging(semaphore) => semaphore,
            Thing::Event(event) => event,
            Thing::Mutex(mutex) => mutex,
        }
    }

    pub(crate) fn semaphore(&self) -> Option<&Semaphore> {
        match &self.thing {
            Thing::Strong(semaphore) | Thing::Barging(semaphore) => Some(semaphore),
            _ => None,
        }
    }
}

impl Takings {
    pub(crate) fn new(rng: &mut Rng) -> Takings {
        Takings((0..1 + rng.below(6)).map(|_| Taking::new(rng)).collect())
    }

    pub(crate) fn close_one(&self, rng: &mut Rng) {
        if let Some(semaphore) = self.0[rng.below(self.0.len() as u64) as usize].semaphore() {
            semaphore.close();
        }
    }

    /// The parties that wait for something that is there.
    pub(crate) fn stranded(&self, intents: &[u64]) -> Option<String> {
        let parts: Vec<_> = intents
            .iter()
            .map(|intent| Intents::parts(*intent))
            .collect();
        // The most that a party wants of this, if it wants it without others.
        let plain = |index: usize| {
            let wants = parts
                .iter()
                .filter(|(mask, _, is_joint, _)| mask >> index & 1 != 0 && !is_joint);
            wants.map(|(_, count, ..)| *count).max()
        };
        let plainly =
            self.0.iter().enumerate().find(|(index, taking)| {
                plain(*index).is_some_and(|most| most <= taking.available())
            });
        if let Some((index, taking)) = plainly {
            return Some(format!("somebody waits for number {index}, {taking:?}"));
        }
        let all_there = |mask: u64| {
            (0..self.0.len()).all(|index| {
                mask >> index & 1 == 0 || self.0[index].available() > 0 && plain(index).is_none()
            })
        };
        let joint = parts
            .iter()
            .find(|(mask, _, is_joint, _)| *is_joint && all_there(*mask));
        joint.map(|(mask, ..)| format!("somebody waits for all of {mask:b}"))
    }

    pub(crate) fn check(&self) {
        for taking in &self.0 {
            assert_eq!(
                (taking.available(), taking.in_hands.load(SeqCst)),
                (taking.tokens, 0),
                "{taking:?}"
            );
            let waiters = match &taking.thing {
                Thing::Strong(semaphore) | Thing::Barging(semaphore) => told(semaphore, "waiters"),
                Thing::Event(event) => told(event, "waiters"),
                Thing::Mutex(_) => 0,
            };
            assert_eq!(waiters, 0, "{taking:?}");
        }
    }
}

/// Takes something, has it for a while, and perhaps something else as well.
pub(crate) fn one(party: &mut Party) {
    let Some(holds) = party.cut(|party| take(party, true)) else {
        return;
    };
    if holds.is_empty() {
        return;
    }
    party.step();
    if party.rng.one_in(3) {
        // A holder waits for a short time only.
        let more = party.cut(|party| take(party, false));
        party.step();
        drop(more);
    }
    drop(holds);
}

fn take(party: &mut Party, may_wait: bool) -> Vec<Hold> {
    match party.rng.below(4) {
        0 | 1 => take_one(party, may_wait).into_iter().collect(),
        2 => take_any(party, may_wait).into_iter().collect(),
        _ => take_all(party, may_wait),
    }
}

fn pick(party: &mut Party) -> usize {
    party.rng.below(party.world.takings.0.len() as u64) as usize
}

fn take_one(party: &mut Party, may_wait: bool) -> Option<Hold> {
    let (index, world) = (pick(party), party.world.clone());
    let taking = &world.takings.0[index];
    let how = party.rng.below(if may_wait { 6 } else { 4 });
    let count = 1 + party.rng.below(u64::from(taking.tokens)) as u32;
    let (soon, short) = (party.soon(), party.short());
    let forever = |count| party.intends(Intents::takings(1 << index, count, false));
    let taken = match (&taking.thing, how) {
        (Thing::Strong(semaphore) | Thing::Barging(semaphore), how) => match how {
            0 => semaphore.try_acquire().is_ok().then_some(1),
            1 => semaphore.try_acquire_many(count).is_ok().then_some(count),
            2 => semaphore.acquire_timeout(short).is_ok().then_some(1),
            3 => semaphore
                .acquire_many_deadline(count, soon)
                .is_ok()
                .then_some(count),
            4 => (forever(1), semaphore.acquire().is_ok()).1.then_some(1),
            _ => (forever(count), semaphore.acquire_many(count).is_ok())
                .1
                .then_some(count),
        },
        (Thing::Event(event), how) => match how {
            0 | 1 => event.try_wait().then_some(1),
            2 => event.wait_timeout(short).is_ok().then_some(1),
            3 => event.wait_deadline(soon).is_ok().then_some(1),
            _ => Some((forever(1), event.wait(), 1).2),
        },
        (Thing::Mutex(mutex), how) => {
            let guard = match how {
                0 | 1 => mutex.try_lock(),
                2 | 3 => mutex.try_lock_for(short),
                _ => Some((forever(1), mutex.lock()).1),
            };
            guard.map(std::mem::forget).map(|()| 1)
        }
    };
    taken.map(|count| Hold::new(party, index, count))
}

/// A few of them, perhaps the same twice.
fn some(party: &mut Party, is_wanted: impl Fn(&Taking) -> bool) -> Vec<usize> {
    let world = party.world.clone();
    (0..1 + party.rng.below(4))
        .map(|_| pick(party))
        .filter(|index| is_wanted(&world.takings.0[*index]))
        .collect()
}

fn mask(list: &[usize]) -> u64 {
    list.iter().fold(0, |mask, index| mask | 1 << index)
}

fn take_any(party: &mut Party, may_wait: bool) -> Option<Hold> {
    let world = party.world.clone();
    let (short, how) = (party.short(), party.rng.below(if may_wait { 3 } else { 2 }));
    let which = party.rng.below(3);
    let list = some(party, |taking| which != 0 || taking.semaphore().is_some());
    if list.is_empty() {
        return None;
    }
    if which == 2 {
        return select_any(party, &list, how);
    }
    let takings = || list.iter().map(|index| &world.takings.0[*index]);
    let forever = || party.intends(Intents::takings(mask(&list), 1, false));
    let taken = if which == 0 {
        let semaphores: Vec<_> = takings().filter_map(Taking::semaphore).collect();
        match how {
            0 => try_acquire_any(&semaphores).ok(),
            1 => acquire_any_timeout(&semaphores, short).ok(),
            _ => (forever(), acquire_any(&semaphores).ok()).1,
        }
    } else {
        let objects: Vec<_> = takings().map(Taking::object).collect();
        match how {
            0 => try_wait_any(&objects).ok(),
            1 => wait_any_timeout(&objects, short).ok(),
            _ => (forever(), wait_any(&objects).ok()).1,
        }
    };
    taken.map(|at| Hold::new(party, list[at], 1))
}

fn select_any(party: &mut Party, list: &[usize], how: u64) -> Option<Hold> {
    let world = party.world.clone();
    let (mut acquiring, mut waiting, mut locked) = (Vec::new(), Vec::new(), Vec::new());
    for index in list {
        match &world.takings.0[*index].thing {
            Thing::Strong(semaphore) | Thing::Barging(semaphore) => {
                acquiring.push((*index, semaphore.acquiring()))
            }
            Thing::Event(event) => waiting.push((*index, event.waiting())),
            Thing::Mutex(mutex) => locked.push((*index, locking(mutex))),
        }
    }
    let select = if party.rng.one_in(2) {
        Select::new()
    } else {
        Select::new().biased()
    };
    let (short, mut timer) = (party.short(), after(party.short()));
    let with_timer = how == 1 && party.rng.one_in(2);
    let selected = {
        let mut operations: Vec<&mut dyn Selectable> = Vec::new();
        for (_, operation) in &mut acquiring {
            operations.push(operation);
        }
        for (_, operation) in &mut waiting {
            operations.push(operation);
        }
        for (_, operation) in &mut locked {
            operations.push(operation);
        }
        if with_timer {
            operations.push(&mut timer);
        }
        match how {
            0 => select.try_wait(&mut operations),
            1 if with_timer => Some(select.wait(&mut operations)),
            1 => select.wait_timeout(&mut operations, short),
            _ => {
                let _intent = party.intends(Intents::takings(mask(list), 1, false));
                Some(select.wait(&mut operations))
            }
        }
    };
    let mut at = selected?;
    if let Some((index, operation)) = acquiring.get_mut(at) {
        return operation
            .outcome()
            .is_ok()
            .then(|| Hold::new(party, *index, 1));
    }
    at -= acquiring.len();
    if let Some((index, _)) = waiting.get(at) {
        return Some(Hold::new(party, *index, 1));
    }
    let (index, operation) = locked.get_mut(at - waiting.len())?;
    std::mem::forget(operation.outcome());
    Some(Hold::new(party, *index, 1))
}

fn take_all(party: &mut Party, may_wait: bool) -> Vec<Hold> {
    let world = party.world.clone();
    let mut list = some(party, |_| true);
    list.sort_unstable();
    list.dedup();
    let objects: Vec<_> = list
        .iter()
        .map(|index| world.takings.0[*index].object())
        .collect();
    let taken = match party.rng.below(if may_wait { 3 } else { 2 }) {
        0 => try_wait_all(&objects).is_ok(),
        1 => wait_all_timeout(&objects, party.short()).is_ok(),
        _ => {
            (
                party.intends(Intents::takings(mask(&list), 1, true)),
                wait_all(&objects).is_ok(),
            )
                .1
        }
    };
    if taken {
        list.iter()
            .map(|index| Hold::new(party, *index, 1))
            .collect()
    } else {
        Vec::new()
    }
}
