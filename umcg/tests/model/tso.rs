//! The stores to which shuttle is blind: those that stay in a processor's store buffer. Protocols
//! that stand on `light` and `heavy`, a few lines each, under every interleaving that an x86-64
//! allows (Sewell, Sarkar, Owens and others, "x86-TSO", 2010).
//!
//! A thread's stores go into its own first-in, first-out buffer; its loads look there first, then
//! in the memory; at any time the oldest store of any buffer may reach the memory. A fence waits
//! until the thread's buffer is empty. `Heavy` is a membarrier as the kernel promises it, and no
//! stronger: between its begin and its end each other thread's buffer is emptied once, in any
//! order, each at a time of its own. `light` is nothing at all.

use std::collections::HashSet;

const THREADS: usize = 3;
const PLACES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    Store(usize, u8),
    /// Adds to a place by a load and a store: not atomic.
    Add(usize, u8),
    Load(usize),
    /// To this line if the last load gave this value.
    If(u8, usize),
    Goto(usize),
    Fence,
    Heavy,
    /// A locked operation: waits until the place holds 0, and makes it 1.
    Lock(usize),
    /// The same back; locked as well.
    Unlock(usize),
    /// Sleeps until the place is not 0.
    Sleep(usize),
    /// Counts the threads inside; more than one is a failure.
    Enter,
    Leave,
    End,
}
use Op::*;

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct Thread {
    line: usize,
    loaded: u8,
    buffer: Vec<(usize, u8)>,
    /// The threads that a membarrier in progress still has to reach.
    barrier: Option<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct State {
    memory: [u8; PLACES],
    threads: [Thread; THREADS],
    inside: u8,
}

impl State {
    fn value(&self, of: usize, place: usize) -> u8 {
        let own = self.threads[of]
            .buffer
            .iter()
            .rev()
            .find(|store| store.0 == place);
        own.map_or(self.memory[place], |store| store.1)
    }

    fn drain(&mut self, of: usize) {
        for (place, value) in std::mem::take(&mut self.threads[of].buffer) {
            self.memory[place] = value;
        }
    }

    /// The possible next steps of one thread: none while it waits, several inside a membarrier.
    fn steps(&self, of: usize, program: &[Op]) -> Vec<State> {
        let mut next = self.clone();
        let thread = &mut next.threads[of];
        let empty = thread.buffer.is_empty();
        thread.line += 1;
        match program[self.threads[of].line] {
            Store(place, value) => thread.buffer.push((place, value)),
            Add(place, value) => {
                let sum = self.value(of, place) + value;
                thread.buffer.push((place, sum));
            }
            Load(place) => thread.loaded = self.value(of, place),
            If(value, line) if thread.loaded == value => thread.line = line,
            If(..) => {}
            Goto(line) => thread.line = line,
            Fence if empty => {}
            Heavy => return self.barrier(of),
            Lock(place) if empty && self.memory[place] == 0 => next.memory[place] = 1,
            Unlock(place) if empty => next.memory[place] = 0,
            Sleep(place) if self.memory[place] != 0 => {}
            Enter => next.inside += 1,
            Leave => next.inside -= 1,
            Fence | Lock(_) | Unlock(_) | Sleep(_) | End => return vec![],
        }
        vec![next]
    }

    fn barrier(&self, of: usize) -> Vec<State> {
        if !self.threads[of].buffer.is_empty() {
            return vec![]; // it begins and ends with a fence of the caller's
        }
        let left = self.threads[of]
            .barrier
            .unwrap_or(((1 << THREADS) - 1) & !(1 << of));
        if left == 0 {
            let mut next = self.clone();
            next.threads[of].barrier = None;
            next.threads[of].line += 1;
            return vec![next];
        }
        let reach = |other: usize| {
            let mut next = self.clone();
            next.drain(other);
            next.threads[of].barrier = Some(left & !(1 << other));
            next
        };
        (0..THREADS)
            .filter(|other| left & (1 << other) != 0)
            .map(reach)
            .collect()
    }

    /// The oldest store of a buffer reaches the memory.
    fn flushed(&self, of: usize) -> Option<State> {
        let mut next = self.clone();
        let (place, value) = *self.threads[of].buffer.first()?;
        next.threads[of].buffer.remove(0);
        next.memory[place] = value;
        Some(next)
    }
}

/// Goes through all that may happen. An error if two are inside at once, if a thread waits for
/// ever, or if `good` rejects an end.
fn explore(
    programs: [&[Op]; THREADS],
    good: fn(&[u8; PLACES], [u8; THREADS]) -> bool,
) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut left = vec![State::default()];
    while let Some(state) = left.pop() {
        if state.inside > 1 {
            return Err(format!("two are inside: {state:?}"));
        }
        let steps = (0..THREADS).flat_map(|of| {
            state
                .steps(of, programs[of])
                .into_iter()
                .chain(state.flushed(of))
        });
        let steps: Vec<State> = steps.collect();
        if steps.is_empty() {
            let ended = (0..THREADS).all(|of| programs[of][state.threads[of].line] == End);
            let loaded = [0, 1, 2].map(|of| state.threads[of].loaded);
            if !ended || !good(&state.memory, loaded) {
                return Err(format!("a bad end: {state:?}"));
            }
        }
        left.extend(steps.into_iter().filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}

const NOBODY: &[Op] = &[End];

/// Store and load crosswise, with a barrier or none between them on either side.
fn crosswise(light: Op, heavy: Op) -> Result<usize, String> {
    let frequent = [Store(0, 1), light, Load(1), End];
    let rare = [Store(1, 1), heavy, Load(0), End];
    explore([&frequent, &rare, NOBODY], |_, loaded| {
        loaded[0] == 1 || loaded[1] == 1
    })
}

/// An operation that does nothing, at line 1: `light`, as it is where there is membarrier, and what
/// is planted for others.
const NOTHING: Op = Goto(2);

#[test]
fn crosswise_holds_with_a_membarrier_and_fails_without() {
    crosswise(NOTHING, Heavy).unwrap();
    crosswise(Fence, Fence).unwrap();
    crosswise(NOTHING, Fence).unwrap_err();
    crosswise(Fence, NOTHING).unwrap_err();
    crosswise(NOTHING, NOTHING).unwrap_err();
}

/// A `light` needs a `heavy` to pair with: two sides that are both light order nothing.
#[test]
fn two_lights_order_nothing() {
    let frequent = [Store(0, 1), NOTHING, Load(1), End];
    let other = [Store(1, 1), NOTHING, Load(0), End];
    let rare = [Store(2, 1), Heavy, End];
    explore([&frequent, &other, &rare], |_, loaded| {
        loaded[0] == 1 || loaded[1] == 1
    })
    .unwrap_err();
}

const BUSY: usize = 0;
const REVOKED: usize = 1;
const MUTEX: usize = 2;
const VALUE: usize = 3;

/// The steps of `PerServer`: the owner comes twice, two others once each; each adds one to the
/// value, not atomically.
fn per_server(heavy: Op, look: Op) -> Result<usize, String> {
    let owner = [
        Store(BUSY, 1),
        NOTHING,
        Load(REVOKED),
        If(0, 8),
        Store(BUSY, 0),
        Lock(MUTEX),
        Store(BUSY, 1),
        Unlock(MUTEX),
        Enter,
        Add(VALUE, 1),
        Leave,
        Store(BUSY, 0),
        // The second time.
        Store(BUSY, 1),
        Load(REVOKED),
        If(0, 19),
        Store(BUSY, 0),
        Lock(MUTEX),
        Store(BUSY, 1),
        Unlock(MUTEX),
        Enter,
        Add(VALUE, 1),
        Leave,
        Store(BUSY, 0),
        End,
    ];
    let other = [
        Lock(MUTEX),
        Store(REVOKED, 1),
        heavy,
        Load(BUSY),
        look,
        Enter,
        Add(VALUE, 1),
        Leave,
        Store(REVOKED, 0),
        Unlock(MUTEX),
        End,
    ];
    explore([&owner, &other, &other], |memory, _| memory[VALUE] == 4)
}

#[test]
fn a_biased_lock_excludes_with_a_membarrier_and_does_not_without() {
    let wait = If(1, 3);
    per_server(Heavy, wait).unwrap();
    per_server(Fence, wait).unwrap_err();
    per_server(Goto(3), wait).unwrap_err();
    per_server(Heavy, Goto(5)).unwrap_err();
}

const QUEUE: usize = 0;
const IDLE: usize = 1;
const WOKEN: usize = 2;

/// The idle protocol. The pusher: push; light; look whether a server is idle; wake it. The server:
/// say so; heavy; look at the queue again; sleep.
fn idle(light: Op, heavy: Op) -> Result<usize, String> {
    let pusher = [
        Store(QUEUE, 1),
        light,
        Load(IDLE),
        If(0, 5),
        Store(WOKEN, 1),
        End,
    ];
    let server = [
        Store(IDLE, 1),
        heavy,
        Load(QUEUE),
        If(1, 5),
        Sleep(WOKEN),
        Store(IDLE, 0),
        End,
    ];
    explore([&pusher, &server, NOBODY], |_, _| true)
}

#[test]
fn nobody_sleeps_over_work_with_a_membarrier_and_somebody_does_without() {
    idle(NOTHING, Heavy).unwrap();
    idle(Fence, Fence).unwrap();
    idle(NOTHING, Fence).unwrap_err();
    idle(Fence, NOTHING).unwrap_err();
    // A server that looks first and says that it is idle afterwards.
    let pusher = [
        Store(QUEUE, 1),
        NOTHING,
        Load(IDLE),
        If(0, 5),
        Store(WOKEN, 1),
        End,
    ];
    let server = [
        Load(QUEUE),
        If(1, 5),
        Store(IDLE, 1),
        Heavy,
        Sleep(WOKEN),
        End,
    ];
    explore([&pusher, &server, NOBODY], |_, _| true).unwrap_err();
}

const X: usize = 0;
const Y: usize = 1;
const LATER: usize = 2;
/// As in `umcg-core/src/os/asymmetric.rs`: 0 where `light` has no fence.
const MODE: usize = 3;
const LEAVING: u8 = 1;
const FENCED: u8 = 2;

/// How the fences of `asymmetric` change from a membarrier to real ones, for the frequent side that
/// loads `loads`. A round of all processors is as good as a membarrier. One makes it; another that
/// comes by meanwhile makes its own, or comes later, and has a fence only.
fn leave(frequent: [Op; 4], loads: usize, says_first: u8, round: Op) -> Result<usize, String> {
    let [first, second, third, fourth] = frequent;
    let frequent = [first, second, third, fourth, Load(loads), End];
    let leaves = [
        Store(Y, 1),
        Store(MODE, says_first),
        Fence,
        round,
        Store(MODE, FENCED),
        Fence,
        Load(X),
        End,
    ];
    let later = [
        Store(LATER, 1),
        Load(MODE),
        If(0, 1),
        If(FENCED, 5),
        Heavy,
        Fence,
        Load(X),
        End,
    ];
    let programs = [&frequent[..], &leaves, &later];
    if loads == Y {
        explore(programs, |_, loaded| loaded[0] == 1 || loaded[1] == 1)
    } else {
        explore(programs, |_, loaded| loaded[0] == 1 || loaded[2] == 1)
    }
}

#[test]
fn fences_take_over_from_a_membarrier_that_is_refused() {
    let light = [Store(X, 1), Load(MODE), If(0, 4), Fence];
    for loads in [Y, LATER] {
        leave(light, loads, LEAVING, Heavy).unwrap();
    }
    // Without a round, for the one that leaves and for those that come later.
    for loads in [Y, LATER] {
        leave(light, loads, LEAVING, Goto(4)).unwrap_err();
    }
    // A caller that comes by meanwhile takes it for over.
    leave(light, LATER, FENCED, Heavy).unwrap_err();
    // The frequent side looks first, and stores then.
    leave(
        [Load(MODE), Store(X, 1), If(0, 4), Fence],
        LATER,
        LEAVING,
        Heavy,
    )
    .unwrap_err();
}
