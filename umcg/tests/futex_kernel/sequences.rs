//! Random sequences of operations, of a conductor and of waiters that it starts: first on the
//! kernel's side, then here with threads, and with workers. After each operation the conductor
//! waits until nothing moves. So all results are determined: those of the operations, and which
//! waiters end by each, with which result.
//!
//! In one point they are not: where two words share a bucket of the kernel's, waiters that are
//! moved from one to the other keep their place in its queue. So the kernel is asked for many
//! buckets, and a sequence that differs is tried again, at other words.

use crate::side::{
    ALL, CMP_REQUEUE, Call, Item, MOST, PRIVATE, REQUEUE, Side, WAIT, WAIT_BITSET, WAKE,
    WAKE_BITSET, WAKE_OP, at, waitv,
};
use crate::support::{KINDS, Kind, eventually, with};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use umcg::Runtime;

const WORDS: usize = 3;
/// How many waiters there are at most at once.
const WAITERS: usize = 12;
const STEPS: usize = 60;

/// Numbers that seem random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// An operation of the conductor; words are indices.
#[derive(Clone, Debug)]
enum Step {
    /// A waiter for a word with these bits, or for a list.
    Wait(usize, usize),
    WaitForAny(Vec<usize>),
    /// One that waits for a value that the word does not have; one whose time is short.
    Vain(usize),
    Late(usize),
    Wake(usize, usize, usize),
    Requeue(usize, usize, usize, usize),
    /// Whether the value is that of the word.
    Compare(usize, usize, usize, usize, bool),
    /// The words and counts, and the code.
    Op([usize; 4], usize),
    Change(usize),
}

fn steps(seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    (0..STEPS).map(|_| step(&mut random)).collect()
}

fn step(random: &mut Random) -> Step {
    const COUNTS: [usize; 6] = [0, 1, 1, 2, 3, MOST];
    const BITS: [usize; 5] = [1, 2, 3, 4, ALL];
    let (one, other) = (random.below(WORDS), random.below(WORDS));
    match random.below(20) {
        0..=5 => Step::Wait(one, random.one_of(&BITS)),
        6 | 7 => Step::WaitForAny(
            (0..random.below(4) + 1)
                .map(|_| random.below(WORDS))
                .collect(),
        ),
        8 => random
            .one_of(&[Some(()), None])
            .map_or(Step::Vain(one), |()| Step::Late(one)),
        9..=11 => Step::Wake(one, random.one_of(&COUNTS[..5]), ALL),
        12..=14 => Step::Wake(one, random.one_of(&COUNTS[..5]), random.one_of(&BITS)),
        15 => Step::Requeue(one, other, random.one_of(&COUNTS), random.one_of(&COUNTS)),
        16 | 17 => {
            let (wake, others) = (random.one_of(&COUNTS[..4]), random.one_of(&COUNTS));
            Step::Compare(one, other, wake, others, random.below(4) > 0)
        }
        18 => {
            let code = random.below(8) << 28 | random.below(7) << 24 | random.below(9) << 12;
            let counts = [random.one_of(&COUNTS[..4]), random.one_of(&COUNTS[..4])];
            Step::Op([one, other, counts[0], counts[1]], code | random.below(9))
        }
        _ => Step::Change(one),
    }
}

/// How waiters are started.
#[derive(Clone, Copy)]
enum Parties<'a> {
    Threads,
    Workers(&'a Runtime, Kind),
}

/// The results of the steps; and with each the waiters that ended by it, and their results.
type Log = Vec<(isize, Vec<(usize, isize)>)>;

/// The waiters of one run.
struct Run<'a> {
    side: Side,
    parties: Parties<'a>,
    words: &'static [AtomicU32; WORDS],
    started: usize,
    /// At how many words each of them stands.
    places: Vec<usize>,
    /// The results of those that have ended.
    ended: Arc<Mutex<BTreeMap<usize, isize>>>,
    log: Log,
}

impl Run<'_> {
    fn begin(side: Side, parties: Parties<'_>) -> Run<'_> {
        Run {
            side,
            parties,
            words: Box::leak(Box::new([const { AtomicU32::new(5) }; WORDS])),
            started: 0,
            places: Vec::new(),
            ended: Arc::default(),
            log: Vec::new(),
        }
    }

    fn word(&self, index: usize) -> usize {
        at(&self.words[index])
    }

    fn value(&self, index: usize) -> usize {
        self.words[index].load(SeqCst) as usize
    }

    fn standing(&self) -> isize {
        self.words.iter().map(|word| self.side.waiting(word)).sum()
    }

    fn ended(&self) -> usize {
        self.ended.lock().unwrap().len()
    }

    /// Starts a waiter, and waits until it stands at so many words more, or has ended.
    fn start(&mut self, places: usize, wait: impl FnOnce(Side) -> isize + Send + 'static) {
        let (number, side, ended) = (self.started, self.side, self.ended.clone());
        let (before, done) = (self.standing(), self.ended());
        self.started += 1;
        self.places.push(places);
        let body = move || {
            let result = wait(side);
            ended.lock().unwrap().insert(number, result);
        };
        match self.parties {
            Parties::Threads => drop(std::thread::spawn(body)),
            Parties::Workers(runtime, kind) => drop(kind.spawn_on(runtime, body)),
        }
        eventually("it waits, or does not", || {
            self.ended() > done || self.standing() == before + places as isize
        });
    }

    fn wait(&mut self, index: usize, bits: usize) {
        let (word, value) = (self.word(index), self.value(index));
        self.start(1, move |side| {
            side.futex([word, WAIT_BITSET | PRIVATE, value, 0, 0, bits])
        });
    }

    /// One that ends by itself.
    fn wait_in_vain(&mut self, index: usize, is_late: bool) {
        let (word, value) = (self.word(index), self.value(index));
        let done = self.ended();
        self.start(1, move |side| {
            let soon = [0i64, 500_000];
            let (value, time) = if is_late {
                (value, at(&soon))
            } else {
                (value + 1, 0)
            };
            side.futex([word, WAIT | PRIVATE, value, time, 0, 0])
        });
        eventually("it ends by itself", || self.ended() > done);
    }

    fn wait_for_any(&mut self, list: &[usize]) {
        let list: Vec<_> = list
            .iter()
            .map(|index| Item::new(self.word(*index), self.value(*index) as u32))
            .collect();
        self.start(list.len(), move |side| {
            side.call(Call::Waitv, waitv(&list, 0, 0))
        });
    }

    fn take(&mut self, step: &Step) {
        let alive = self.started - self.ended();
        let result = match step {
            Step::Wait(..) | Step::WaitForAny(_) if alive >= WAITERS => 0,
            Step::Wait(index, bits) => {
                self.wait(*index, *bits);
                0
            }
            Step::WaitForAny(list) => {
                self.wait_for_any(list);
                0
            }
            Step::Vain(index) | Step::Late(index) => {
                self.wait_in_vain(*index, matches!(step, Step::Late(_)));
                0
            }
            Step::Change(index) => self.words[*index].fetch_add(1, SeqCst) as isize,
            _ => self.act(step),
        };
        self.settle(result);
    }

    fn act(&mut self, step: &Step) -> isize {
        let word = |index: &usize| self.word(*index);
        let arguments = match step {
            Step::Wake(one, count, ALL) => [word(one), WAKE | PRIVATE, *count, 0, 0, 0],
            Step::Wake(one, count, bits) => [word(one), WAKE_BITSET | PRIVATE, *count, 0, 0, *bits],
            Step::Requeue(one, other, wake, others) => {
                [word(one), REQUEUE | PRIVATE, *wake, *others, word(other), 0]
            }
            Step::Compare(one, other, wake, others, is_right) => {
                let value = self.value(*one) + usize::from(!is_right);
                let command = CMP_REQUEUE | PRIVATE;
                [word(one), command, *wake, *others, word(other), value]
            }
            Step::Op([one, other, here, there], code) => [
                word(one),
                WAKE_OP | PRIVATE,
                *here,
                *there,
                word(other),
                *code,
            ],
            _ => unreachable!(),
        };
        self.side.futex(arguments)
    }

    /// Waits until nothing moves: those that have not ended stand at all their words. (One that was
    /// woken stands at fewer, until it has ended.)
    fn settle(&mut self, result: isize) {
        eventually("it is quiet", || {
            let before = self.ended();
            let standing = self.standing();
            let ended = self.ended.lock().unwrap();
            let alive = (0..self.started).filter(|number| !ended.contains_key(number));
            let places: usize = alive.map(|number| self.places[number]).sum();
            before == ended.len() && standing == places as isize
        });
        let ended = self.ended.lock().unwrap().clone();
        let new: Vec<_> = ended
            .iter()
            .filter(|(number, _)| !self.is_logged(**number))
            .map(|(number, result)| (*number, *result))
            .collect();
        self.log.push((result, new));
    }

    fn is_logged(&self, number: usize) -> bool {
        self.log
            .iter()
            .any(|(_, ended)| ended.iter().any(|(one, _)| *one == number))
    }

    /// All go on. The log, and what is in the words.
    fn end(self) -> (Log, Vec<u32>) {
        let words = self.words;
        eventually("all end", || {
            for word in words {
                self.side.wake(word, MOST);
            }
            self.ended() == self.started
        });
        (
            self.log,
            words.iter().map(|word| word.load(SeqCst)).collect(),
        )
    }
}

fn run(steps: &[Step], side: Side, parties: Parties<'_>) -> (Log, Vec<u32>) {
    let mut run = Run::begin(side, parties);
    steps.iter().for_each(|step| run.take(step));
    run.end()
}

/// Many buckets for the process, where the kernel can (since 6.16).
fn ask_for_buckets() {
    const PR_FUTEX_HASH: i32 = 78;
    const SET_SLOTS: usize = 1;
    // SAFETY: no memory is concerned.
    unsafe { libc::prctl(PR_FUTEX_HASH, SET_SLOTS, 4096usize, 0usize, 0usize) };
}

fn compare(seed: u64, parties: Parties<'_>) {
    let steps = steps(seed);
    let mut difference = String::new();
    for _ in 0..4 {
        let kernel = run(&steps, Side::Kernel, Parties::Threads);
        let ours = run(&steps, Side::Ours, parties);
        if kernel == ours {
            return;
        }
        let first = (0..steps.len()).find(|step| kernel.0[*step] != ours.0[*step]);
        let first = first.unwrap_or(0);
        difference = format!(
            "seed {seed}: {:?}\nkernel {:?}\nours {:?}\n{:?} {:?}",
            &steps[..=first],
            kernel.0[first],
            ours.0[first],
            kernel.1,
            ours.1
        );
    }
    panic!("{difference}");
}

/// Seeds that differ from run to run; `UMCG_FUTEX_SEED` is the first of them.
fn seeds() -> impl Iterator<Item = u64> {
    let first = std::env::var("UMCG_FUTEX_SEED").ok();
    let first = first.map_or_else(
        || u64::from(std::process::id()) * 1_000_003,
        |text| text.parse().unwrap(),
    );
    let runs = std::env::var("UMCG_FUTEX_RUNS").map_or(20, |text| text.parse().unwrap());
    first..first + runs
}

#[test]
fn threads() {
    ask_for_buckets();
    seeds().for_each(|seed| compare(seed, Parties::Threads));
}

#[test]
fn workers() {
    ask_for_buckets();
    for kind in KINDS {
        for servers in [1, 2] {
            with("sequences", servers, Runtime::builder(), |runtime| {
                seeds().for_each(|seed| compare(seed, Parties::Workers(runtime, kind)));
            });
        }
    }
}
