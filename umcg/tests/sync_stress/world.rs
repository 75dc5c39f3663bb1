//! The shared state of a round.

use crate::harness::{Dump, Rng};
use crate::locks::Locks;
use crate::messages::Messages;
use crate::runtime::Shape;
use crate::takings::Takings;
use crate::words::Words;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::Runtime;

pub(crate) struct World {
    seed: u64,
    pub(crate) shape: Shape,
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// Every party stops where it is, or waits on.
    pub(crate) is_frozen: AtomicBool,
    /// The thing that each of them waits for, without a deadline of its own: see [`Intents`].
    pub(crate) intents: Vec<AtomicU64>,
    pub(crate) takings: Takings,
    pub(crate) messages: Messages,
    pub(crate) locks: Locks,
    pub(crate) words: Words,
    complaint: Mutex<String>,
}

/// The thing that a party waits for: which of the takings (8 bits), how many of it (8), all of them
/// at once (1), which of the words (8).
#[derive(Clone, Copy)]
pub(crate) struct Intents;

impl Intents {
    pub(crate) fn takings(mask: u64, count: u32, is_joint: bool) -> u64 {
        mask | u64::from(count) << 8 | u64::from(is_joint) << 16
    }

    pub(crate) fn words(mask: u64) -> u64 {
        mask << 17
    }

    /// Mask, count, whether they are wanted together; and the mask of words.
    pub(crate) fn parts(intent: u64) -> (u64, u32, bool, u64) {
        (
            intent & 0xff,
            (intent >> 8) as u32 & 0xff,
            intent >> 16 & 1 != 0,
            intent >> 17 & 0xff,
        )
    }
}

impl World {
    pub(crate) fn new(seed: u64, shape: Shape, rng: &mut Rng, runtime: Arc<Runtime>) -> World {
        let parties = 12 + rng.below(24);
        World {
            seed,
            shape,
            runtime: Mutex::new(Some(runtime)),
            is_frozen: AtomicBool::new(false),
            intents: (0..parties).map(|_| AtomicU64::new(0)).collect(),
            takings: Takings::new(rng),
            messages: Messages::new(rng),
            locks: Locks::new(),
            words: Words::new(rng),
            complaint: Mutex::default(),
        }
    }

    pub(crate) fn runtime(&self) -> Option<Arc<Runtime>> {
        self.runtime.lock().unwrap().clone()
    }

    pub(crate) fn forget_runtime(&self) {
        drop(self.runtime.lock().unwrap().take());
    }

    /// Has every party stop, and waits until none waits for something that is there. If one goes on
    /// waiting, the watchdog says so.
    pub(crate) fn freeze(&self) {
        self.is_frozen.store(true, Release);
        std::thread::sleep(Duration::from_millis(2));
        while let Some(what) = self.stranded() {
            *self.complaint.lock().unwrap() = what;
            std::thread::sleep(Duration::from_micros(500));
        }
        self.complaint.lock().unwrap().clear();
        self.is_frozen.store(false, Release);
    }

    fn stranded(&self) -> Option<String> {
        let intents: Vec<_> = self
            .intents
            .iter()
            .map(|intent| intent.load(SeqCst))
            .collect();
        let takings = || self.takings.stranded(&intents);
        let words = || self.words.stranded(&intents);
        takings()
            .or_else(words)
            .or_else(|| self.messages.stranded())
            .or_else(|| self.locks.stranded())
    }

    /// At the end.
    pub(crate) fn check(&self) {
        self.takings.check();
        self.messages.check();
        self.locks.check();
        self.words.check();
    }
}

/// A number that the object's own words have for this.
pub(crate) fn told(object: &impl std::fmt::Debug, name: &str) -> u64 {
    let text = format!("{object:?}");
    let after = text
        .split_once(&format!(" {name}: "))
        .unwrap_or_else(|| panic!("{name}: {text}"))
        .1;
    after
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

impl Dump for World {
    fn dump(&self) -> String {
        // First of all, as the dump may hang itself.
        eprintln!(
            "sync_stress: UMCG_STRESS_SEED={}, {:?}",
            self.seed, self.shape
        );
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(20));
            std::process::abort();
        });
        let complaint = self
            .complaint
            .try_lock()
            .map_or_else(|_| String::new(), |complaint| complaint.clone());
        eprintln!("{complaint}\n{:x?}", self.intents);
        let runtime = self
            .runtime
            .try_lock()
            .ok()
            .and_then(|runtime| runtime.clone());
        let text = runtime.map_or_else(|| "the runtime ends".to_owned(), |runtime| runtime.dump());
        format!(
            "{text}\n{:?}\n{:?}\n{:?}\n{:?}",
            self.takings, self.messages, self.locks, self.words
        )
    }
}
