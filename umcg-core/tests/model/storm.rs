//! Servers and workers that do everything: each event that the lists deliver has happened, once,
//! and each event that happened is delivered.
//!
//! A worker is a script. The thread that runs it does its next step, and is the worker's kernel
//! thread for that time. A worker that left has its context saved, and the thread that runs it
//! checks that (I2).

use crate::idle::{EventKind, Hand, IdleSeat, Lists, Node, state};
use crate::{Servers, check, kernel, lists, node, seat};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

const STEPS: u32 = 3;
const LAST_DEADLINE: u64 = 40;

/// A worker: its node, its actions, and the events delivered for it. Plain counters: the checker
/// switches at the operations of the lists only.
struct Worker {
    node: &'static Node,
    saved: AtomicBool,
    steps: AtomicU32,
    blocks: AtomicU32,
    waits: AtomicU32,
    has_deadline: AtomicBool,
    timed_out: AtomicU32,
    told: [AtomicU32; 7],
    /// In a wait with a deadline, for which a server keeps the token until TIMEOUT; or a TIMEOUT
    /// that came before.
    parked: Mutex<(bool, bool)>,
}

struct World {
    lists: &'static Lists,
    hand: Hand,
    workers: Vec<Worker>,
    left: AtomicUsize,
    ended: Mutex<bool>,
    all_ended: Condvar,
    /// The planted bug: a worker that switches to another is posted before its context is saved.
    early: bool,
}

/// A server's next step after a worker left.
enum Next {
    Run(usize),
    Mine(usize),
    Nothing,
}

impl World {
    fn new(hand: Hand, workers: u32, early: bool) -> Arc<World> {
        let worker = |index| Worker {
            node: node(index + 1, state::BLOCKED),
            saved: AtomicBool::new(true),
            steps: AtomicU32::new(STEPS),
            blocks: AtomicU32::new(1), // registering ends like a block
            waits: AtomicU32::new(0),
            has_deadline: AtomicBool::new(false),
            timed_out: AtomicU32::new(0),
            told: [const { AtomicU32::new(0) }; 7],
            parked: Mutex::new((false, false)),
        };
        Arc::new(World {
            lists: lists(),
            hand,
            workers: (0..workers).map(worker).collect(),
            left: AtomicUsize::new(workers as usize),
            ended: Mutex::new(false),
            all_ended: Condvar::new(),
            early,
        })
    }

    /// The worker's flow continues in the caller.
    fn enter(&self, worker: &Worker) {
        assert!(
            worker.saved.swap(false, Relaxed),
            "resumed before its context was saved, or twice"
        );
        worker.has_deadline.store(false, Relaxed);
        thread::yield_now();
        worker
            .timed_out
            .fetch_add(u32::from(worker.node.take_timed_out()), Relaxed);
    }

    fn leave(&self, worker: &Worker) {
        assert!(!worker.saved.swap(true, Relaxed));
    }

    /// Runs a worker until it leaves. The caller has the right to run it.
    fn run(self: &Arc<Self>, at: usize, mine: &mut Vec<usize>) -> Next {
        let worker = &self.workers[at];
        self.enter(worker);
        if worker.steps.fetch_sub(1, Relaxed) == 0 {
            self.leave(worker);
            worker.node.set_state(state::GONE);
            self.end_of_a_worker();
            return Next::Nothing;
        }
        let deadline = thread_rng()
            .gen_bool(0.5)
            .then(|| thread_rng().gen_range(1..=LAST_DEADLINE));
        match thread_rng().gen_range(0..4) {
            0 => self.block(at),
            1 | 2 => match self.choose(mine, at) {
                Some(next) => self.switch(at, next, deadline),
                None => self.wait(at, deadline),
            },
            _ => self.wait(at, deadline),
        }
    }

    /// Gives the caller the right to run another worker.
    fn choose(&self, mine: &mut Vec<usize>, but: usize) -> Option<usize> {
        let next = match self.hand {
            Hand::Held => mine.pop()?,
            Hand::Open => thread_rng().gen_range(0..self.workers.len()),
        };
        (next != but && self.gets(next)).then_some(next)
    }

    fn gets(&self, at: usize) -> bool {
        let node = self.workers[at].node;
        match self.hand {
            Hand::Held => {
                self.lists.take(node);
                true
            }
            Hand::Open => self.lists.claim(node, at as u32 + 1),
        }
    }

    fn block(self: &Arc<Self>, at: usize) -> Next {
        let worker = &self.workers[at];
        worker.blocks.fetch_add(1, Relaxed);
        self.leave(worker);
        worker.node.set_state(state::BLOCKED);
        let world = self.clone();
        thread::spawn(move || {
            let worker = &world.workers[at];
            world.enter(worker);
            world.leave(worker);
            world.lists.post(worker.node, EventKind::Wake, None);
        });
        Next::Nothing
    }

    fn wait(&self, at: usize, deadline: Option<u64>) -> Next {
        let worker = &self.workers[at];
        worker.waits.fetch_add(1, Relaxed);
        worker.has_deadline.store(deadline.is_some(), Relaxed);
        self.leave(worker);
        self.lists.hand_over(worker.node, self.hand, deadline);
        worker.told[EventKind::Wait as usize].fetch_add(1, Relaxed);
        if self.hand == Hand::Held && deadline.is_some() && thread_rng().gen_bool(0.5) {
            let mut parked = worker.parked.lock().unwrap();
            if !std::mem::take(&mut parked.1) {
                parked.0 = true;
                return Next::Nothing;
            }
        }
        Next::Mine(at)
    }

    fn switch(&self, at: usize, next: usize, deadline: Option<u64>) -> Next {
        let worker = &self.workers[at];
        worker.waits.fetch_add(1, Relaxed);
        worker.has_deadline.store(deadline.is_some(), Relaxed);
        if self.early {
            self.lists.post(worker.node, EventKind::Wait, deadline);
            thread::yield_now();
            self.leave(worker);
        } else {
            self.leave(worker);
            self.lists.post(worker.node, EventKind::Wait, deadline);
        }
        Next::Run(next)
    }

    /// The events that a server gets, with or without waiting.
    fn events(&self, seat: &'static IdleSeat, wait: bool) -> Vec<(usize, EventKind)> {
        let mut events = Vec::new();
        let mut give = |node: &'static Node, kind| {
            let at = node.tid() as usize - 1;
            // Delivered under the lock, which a worker with a deadline has to take before it runs.
            assert!(
                kind != EventKind::Timeout || self.workers[at].has_deadline.load(Relaxed),
                "TIMEOUT after the wait"
            );
            events.push((at, kind));
            true
        };
        if wait {
            let room = if self.hand == Hand::Held { 1 } else { 2 };
            self.lists
                .wait(seat, None, self.hand, room, &mut give, &|| false);
        } else if self.lists.has_events() {
            self.lists
                .collect(self.hand, thread_rng().gen_range(1..4), &mut give);
        }
        events
    }

    /// Notes an event that a server got. Returns true when the server may run the worker.
    fn note(&self, at: usize, kind: EventKind) -> bool {
        let worker = &self.workers[at];
        worker.told[kind as usize].fetch_add(1, Relaxed);
        match (kind, self.hand) {
            (EventKind::Exit, _) => {
                self.end_of_a_worker();
                false
            }
            (EventKind::Timeout, Hand::Held) => {
                let mut parked = worker.parked.lock().unwrap();
                parked.1 = !parked.0;
                std::mem::take(&mut parked.0)
            }
            _ => true,
        }
    }

    fn end_of_a_worker(&self) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            *self.ended.lock().unwrap() = true;
            self.all_ended.notify_all();
        }
    }

    fn serve(self: &Arc<Self>, seat: &'static IdleSeat) {
        let mut mine: Vec<usize> = Vec::new();
        while self.left.load(Relaxed) > 0 {
            let told = self.events(seat, mine.is_empty());
            mine.extend(
                told.into_iter()
                    .filter(|&(at, kind)| self.note(at, kind))
                    .map(|(at, _)| at),
            );
            let Some(at) = mine.pop() else { continue };
            let mut next = if self.gets(at) {
                Next::Run(at)
            } else {
                Next::Nothing
            };
            while let Next::Run(at) = next {
                next = self.run(at, &mut mine);
            }
            if let Next::Mine(at) = next {
                mine.insert(0, at);
            }
        }
    }

    fn check(&self) {
        for worker in &self.workers {
            let told = |kind: EventKind| worker.told[kind as usize].load(Relaxed);
            assert_eq!(told(EventKind::Wake), worker.blocks.load(Relaxed));
            assert_eq!(told(EventKind::Wait), worker.waits.load(Relaxed));
            let timed_out = worker.timed_out.load(Relaxed);
            assert!(
                told(EventKind::Timeout) <= timed_out && timed_out <= worker.waits.load(Relaxed)
            );
            // By tid a worker runs only after its TIMEOUT was delivered, if that is due.
            assert!(self.hand == Hand::Held || told(EventKind::Timeout) == timed_out);
        }
        assert!(
            !self.lists.collect(self.hand, 2, &mut |_, _| true),
            "an event is left over"
        );
    }
}

fn storm(hand: Hand, early: bool) {
    let world = World::new(hand, 3, early);
    let serving = world.clone();
    let servers = Servers::spawn(2, move || serving.serve(seat()));
    let clock =
        thread::spawn(|| (1..=4).for_each(|part| kernel::advance(part * LAST_DEADLINE / 4)));
    let signals = thread::spawn(|| [(); 2].map(|()| kernel::interrupt()));
    for worker in &world.workers {
        world.lists.post(worker.node, EventKind::Wake, None);
    }
    let mut ended = world.ended.lock().unwrap();
    while !*ended {
        ended = world.all_ended.wait(ended).unwrap();
    }
    drop(ended);
    servers.end(world.lists);
    clock.join().unwrap();
    signals.join().unwrap();
    world.check();
}

#[test]
fn by_tokens_nothing_is_lost() {
    check(|| storm(Hand::Held, false));
}

#[test]
fn by_tids_nothing_is_lost() {
    check(|| storm(Hand::Open, false));
}

/// The models find a violation of I2.
#[test]
#[should_panic(expected = "resumed before its context was saved")]
fn posting_before_saving_is_found() {
    check(|| storm(Hand::Held, true));
}
