//! Segments: processes that die at any of their steps, as threads that stop there.
//!
//! The sources as they are, on words of the checker's. A process dies when it looks up a word: its
//! operations on the words it has are done. From then on the byte that it had locked is free, and
//! it touches nothing.

use crate::check;
use crate::rt::{task, time};
use shuttle::rand::Rng;
use shuttle::thread::{self, JoinHandle};
use sources::{Fault, Opening};
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the sources are a part of the library, and not all of them is used here"
)]
#[path = "../../src/segment"]
mod sources {
    pub(crate) mod any;
    pub(crate) mod directory;
    pub(crate) mod error;
    pub(crate) mod event;
    pub(crate) mod handle;
    pub(crate) mod layout;
    pub(crate) mod object;
    pub(crate) mod patrol;
    pub(crate) mod plain;
    pub(crate) mod queue;
    pub(crate) mod ring;
    pub(crate) mod semaphore;
    pub(crate) mod shared;
    pub(crate) mod stopwatch;
    pub(crate) mod tube;
    pub(crate) mod wait;

    pub(crate) mod kernel {
        use shuttle::sync::atomic::AtomicU32;

        pub(super) fn wake(word: &AtomicU32) {
            crate::kernel::wake(word, 1);
        }

        pub(super) fn sleep(word: &AtomicU32, expected: u32, until: u64) {
            let _ = crate::kernel::sleep(word, expected, until);
        }

        pub(super) fn looks() -> u32 {
            0
        }

        pub(super) fn give_way() {
            shuttle::thread::yield_now();
        }

        /// Some time passes: a waiter here waits no longer than this.
        pub(super) fn pause() {
            crate::kernel::advance(crate::rt::time::now() + 200_000);
            shuttle::thread::yield_now();
        }
    }

    pub(crate) mod memory {
        use crate::segment::{File, Process};
        use shuttle::sync::atomic::{AtomicU32, AtomicU64};
        use std::sync::Arc;

        pub(crate) struct Memory(pub(crate) Arc<File>);

        impl Memory {
            pub(super) fn len(&self) -> usize {
                self.0.singles.len() * 4
            }

            pub(super) fn u32(&self, at: usize) -> &AtomicU32 {
                Process::step();
                &self.0.singles[at / 4]
            }

            pub(super) fn u64(&self, at: usize) -> &AtomicU64 {
                Process::step();
                &self.0.doubles[at / 8]
            }

            /// Messages only.
            pub(super) fn u64s(&self, at: usize, count: usize) -> &[AtomicU64] {
                Process::note_message();
                &self.0.doubles[at / 8..][..count]
            }
        }
    }

    pub(crate) mod liveness {
        use super::memory::Memory;
        use crate::segment::Process;
        use std::io;
        use std::sync::Arc;

        /// The process by which it was opened.
        pub(crate) struct Liveness(Arc<Process>);

        impl Drop for Liveness {
            fn drop(&mut self) {
                self.0.unlock_all();
            }
        }

        impl Liveness {
            pub(super) fn open(_: &Memory) -> io::Result<Liveness> {
                Ok(Liveness(Process::current()))
            }

            /// No other process may tidy up in a dead process's name.
            pub(super) fn is_inherited(&self) -> bool {
                self.0.is_dead()
            }

            pub(super) fn try_lock(&self, byte: u32) -> bool {
                self.0.try_lock(byte)
            }

            /// Locks are to be had here.
            pub(super) fn refusal(&self) -> Option<io::Error> {
                None
            }

            pub(super) fn unlock(&self, byte: u32) {
                self.0.unlock(byte);
            }
        }
    }

    use super::{File, KeptBy, Process};
    use directory::Wanted;
    pub(crate) use error::Fault;
    use handle::ObjectHandle;
    use layout::SegmentLayout;
    use shuttle::sync::atomic::Ordering::SeqCst;
    use std::sync::Arc;
    use wait::{SegmentWait, WishOutcome};

    const LAYOUT: SegmentLayout = SegmentLayout {
        objects: 2,
        records: 6,
        parties: 5,
        bytes: 64,
    };

    pub(crate) fn size() -> usize {
        LAYOUT.end() as usize
    }

    /// A segment as the calling process has it.
    pub(crate) struct Opening(Arc<shared::OpenSegment>);

    impl Opening {
        pub(crate) fn new(file: &Arc<File>) -> Opening {
            let shared = shared::OpenSegment::new(memory::Memory(file.clone()), LAYOUT).unwrap();
            // Time goes on at any speed the main thread chooses.
            shared.patience.store(u64::MAX, SeqCst);
            Opening(Arc::new(shared))
        }

        pub(crate) fn semaphore(&self, name: &str) -> semaphore::Semaphore {
            semaphore::Semaphore(self.object(name, Wanted::Semaphore(0)))
        }

        pub(crate) fn tube(&self) -> tube::ByteTube {
            tube::ByteTube::new(&self.0, "t", 8, 1).unwrap()
        }

        fn object(&self, name: &str, wanted: Wanted) -> ObjectHandle {
            ObjectHandle::new(&self.0, name, wanted).unwrap()
        }

        /// Waits for one of these, and takes it; says at once that it has.
        pub(crate) fn wait(
            &self,
            names: &[&str],
            first: usize,
            kept: &KeptBy,
        ) -> Result<(), Fault> {
            let handles: Vec<_> = names
                .iter()
                .map(|name| self.object(name, Wanted::Semaphore(0)))
                .collect();
            let wishes: Vec<_> = handles
                .iter()
                .map(|handle| handle.wish(object::FIRST, 1))
                .collect();
            let (wait, outcome) = SegmentWait::wait(&self.0, &wishes, 0, u64::MAX)?;
            let WishOutcome::Given(at) = outcome else {
                panic!("{outcome:?}")
            };
            // It dies before or after that, but not in between: so it is known which.
            Process::current().spare();
            wait.taken(at);
            kept.take(first + at);
            Process::current().is_mortal_again();
            Ok(())
        }

        /// Buries the dead processes.
        pub(crate) fn patrol(&self) {
            self.0.patrol(self.0.party().unwrap());
        }

        /// Whether a process is dead, and not buried.
        pub(crate) fn has_dead(&self) -> bool {
            let is_left =
                |party| self.0.mark(party).load(SeqCst) != 0 && !self.0.memory.0.is_locked(party);
            (0..LAYOUT.parties).any(is_left)
        }
    }
}

/// The file of a segment: its words, each of which is always used with one size; and its locked
/// bytes.
pub(crate) struct File {
    singles: Vec<shuttle::sync::atomic::AtomicU32>,
    doubles: Vec<shuttle::sync::atomic::AtomicU64>,
    locks: Mutex<HashMap<u32, u64>>,
}

impl File {
    fn new() -> Arc<File> {
        let len = sources::size();
        Arc::new(File {
            singles: (0..len / 4).map(|_| 0.into()).collect(),
            doubles: (0..len / 8).map(|_| 0.into()).collect(),
            locks: Mutex::default(),
        })
    }

    fn is_locked(&self, byte: u32) -> bool {
        self.locks.lock().unwrap().contains_key(&byte)
    }
}

/// How many were taken, by the object.
#[derive(Default)]
pub(crate) struct KeptBy([AtomicU64; 2]);

impl KeptBy {
    fn new() -> &'static KeptBy {
        Box::leak(Box::default())
    }

    fn take(&self, at: usize) {
        self.0[at].fetch_add(1, Relaxed);
    }

    fn of(&self, at: usize) -> u64 {
        self.0[at].load(Relaxed)
    }
}

/// The kernel's view of a process. One thread is all of it. It is no part of the checked protocol,
/// so nothing of it is the checker's.
pub(crate) struct Process {
    number: u64,
    file: Arc<File>,
    /// How many steps it lives.
    steps: AtomicU64,
    is_spared: AtomicBool,
    is_dead: AtomicBool,
    /// It has read or written a message.
    has_moved: AtomicBool,
}

/// The payload with which a dead process unwinds.
struct Died;

shuttle::thread_local! {
    static PROCESS: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
}

impl Process {
    pub(crate) fn current() -> Arc<Process> {
        PROCESS
            .with(|process| process.borrow().clone())
            .expect("a thread of no process")
    }

    pub(crate) fn step() {
        let process = Process::current();
        if process.is_spared.load(Relaxed) || process.steps.load(Relaxed) == u64::MAX {
            return;
        }
        if process.steps.fetch_sub(1, Relaxed) == 0 {
            process.is_dead.store(true, Relaxed);
            process.unlock_all();
            resume_unwind(Box::new(Died));
        }
    }

    pub(crate) fn note_message() {
        Process::current().has_moved.store(true, Relaxed);
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Relaxed)
    }

    fn spare(&self) {
        self.is_spared.store(true, Relaxed);
    }

    fn is_mortal_again(&self) {
        self.is_spared.store(false, Relaxed);
    }

    fn try_lock(&self, byte: u32) -> bool {
        *self
            .file
            .locks
            .lock()
            .unwrap()
            .entry(byte)
            .or_insert(self.number)
            == self.number
    }

    fn unlock_all(&self) {
        self.file
            .locks
            .lock()
            .unwrap()
            .retain(|_, owner| *owner != self.number);
    }

    fn unlock(&self, byte: u32) {
        self.file.locks.lock().unwrap().remove(&byte);
    }
}

/// Lives in this process from now on, for this many steps.
fn become_process(file: &Arc<File>, number: u64, steps: u64) -> Arc<Process> {
    task::enter(task::make(false));
    let process = Arc::new(Process {
        number,
        file: file.clone(),
        steps: steps.into(),
        is_spared: false.into(),
        is_dead: false.into(),
        has_moved: false.into(),
    });
    PROCESS.with(|current| *current.borrow_mut() = Some(process.clone()));
    process
}

/// A process that does something with the segment. None if it has died.
fn process<R: Send + 'static>(
    file: &Arc<File>,
    number: u64,
    steps: u64,
    f: impl FnOnce(Opening) -> R + Send + 'static,
) -> JoinHandle<Option<R>> {
    let file = file.clone();
    thread::spawn(move || {
        become_process(&file, number, steps);
        match catch_unwind(AssertUnwindSafe(|| f(Opening::new(&file)))) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Died>() => None,
            Err(payload) => resume_unwind(payload),
        }
    })
}

/// A random number of steps to live; sometimes without end.
fn some_steps(most: u64) -> u64 {
    let steps = shuttle::rand::thread_rng().gen_range(0..most + 20);
    if steps < most { steps } else { u64::MAX }
}

/// How often the time goes on before a process that has not come to an end is taken to hang.
const ROUNDS: u64 = 40;
/// How often others may run in between: a patrol takes some hundred steps.
const LOOKS: u64 = 300;

/// Lets the time go on until this is so.
#[track_caller]
fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..ROUNDS {
        for _ in 0..LOOKS {
            if is_so() {
                return;
            }
            thread::yield_now();
        }
        crate::kernel::advance(time::now() + 150_000_000);
    }
    panic!("somebody is left hanging");
}

fn flag() -> &'static AtomicBool {
    Box::leak(Box::default())
}

/// Says that it is done, however it ends.
struct Done(&'static AtomicBool);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Mortal processes wait for a wakeup of any of the semaphores, and one that lives for one of the
/// last. It gets it, whatever the dead were given, or is told that a process died with the lock. In
/// the end the wakeups released and not taken are there.
fn given_on(mortals: u64, names: &'static [&'static str]) {
    let file = File::new();
    become_process(&file, 0, u64::MAX);
    let opening = Opening::new(&file);
    let semaphores: Vec<_> = names.iter().map(|name| opening.semaphore(name)).collect();
    let (kept, last) = (KeptBy::new(), names.len() - 1);
    let start = |number, steps, first| {
        let done = Done(flag());
        let is_done = done.0;
        let ended = process(&file, number, steps, move |opening| {
            let _done = done;
            opening.wait(&names[first..], first, kept)
        });
        (ended, is_done, steps)
    };
    let mut all: Vec<_> = (1..=mortals)
        .map(|number| start(number, some_steps(110), 0))
        .collect();
    all.push(start(mortals + 1, u64::MAX, last));
    let (living, mut released) = (all[mortals as usize].1, vec![0; names.len()]);
    eventually(|| {
        // One, and one for each that was taken.
        for (at, semaphore) in semaphores.iter().enumerate() {
            if released[at] <= kept.of(at) && semaphore.release(1).is_ok() {
                released[at] += 1;
            }
        }
        living.load(Relaxed)
    });
    released[last] += if semaphores[last].release(mortals as u32).is_ok() {
        mortals
    } else {
        0
    };
    eventually(|| all.iter().all(|(_, is_done, _)| is_done.load(Relaxed)));
    let died = all.iter().any(|(_, _, steps)| *steps != u64::MAX);
    for (ended, _, _) in all {
        let said = ended.join().unwrap();
        assert!(
            said.is_none_or(|said| said == Ok(()) || (said == Err(Fault::Dead) && died)),
            "{said:?}"
        );
    }
    eventually(|| {
        opening.patrol();
        !opening.has_dead()
    });
    for (at, semaphore) in semaphores.iter().enumerate() {
        match semaphore.fault() {
            Some(fault) => assert!(died && fault == Fault::Dead),
            None => assert_eq!(
                (u64::from(semaphore.available()), semaphore.waiters()),
                (released[at] - kept.of(at), Ok(0))
            ),
        }
    }
}

#[test]
fn what_the_dead_were_given_is_given_on() {
    check(|| given_on(1, &["a"]));
    check(|| given_on(2, &["a"]));
}

#[test]
fn altsems_of_the_dead() {
    check(|| given_on(1, &["a", "b"]));
}

/// The process that gives may die at any step: it has given or not, or the semaphore is dead. The
/// waiter is served by the next.
#[test]
fn givers_that_die() {
    check(|| {
        let file = File::new();
        become_process(&file, 0, u64::MAX);
        let opening = Opening::new(&file);
        let (semaphore, kept, done) = (opening.semaphore("a"), KeptBy::new(), flag());
        let living = process(&file, 1, u64::MAX, move |opening| {
            let _done = Done(done);
            opening.wait(&["a"], 0, kept)
        });
        let steps = some_steps(60);
        let giver = process(&file, 2, steps, |opening| {
            opening.semaphore("a").release(1).is_ok()
        });
        let given = giver.join().unwrap();
        if given.is_none() {
            // It may have served the waiter, and not have woken it.
            let _ = semaphore.release(1);
        }
        eventually(|| done.load(Relaxed));
        match living.join().unwrap().unwrap() {
            Ok(()) => assert!(
                semaphore.fault().is_some() || semaphore.available() <= u32::from(given.is_none())
            ),
            Err(fault) => assert!(fault == Fault::Dead && given != Some(true)),
        }
    });
}

/// A message that was promised to a process that dies goes to another; one that was received does
/// not.
#[test]
fn receivers_that_die() {
    check(|| {
        let file = File::new();
        become_process(&file, 0, u64::MAX);
        let opening = Opening::new(&file);
        let tube = opening.tube();
        let done = flag();
        let receive = |opening: Opening| {
            let mut message = [0; 8];
            opening.tube().recv(&mut message).map(|()| message)
        };
        let (moved, ended, steps) = (flag(), flag(), some_steps(140));
        let dying_file = file.clone();
        let dying = thread::spawn(move || {
            let _done = Done(ended);
            let own = become_process(&dying_file, 1, steps);
            let _ = catch_unwind(AssertUnwindSafe(|| receive(Opening::new(&dying_file))));
            moved.store(own.has_moved.load(Relaxed), Relaxed);
        });
        let living = process(&file, 2, u64::MAX, move |opening| {
            let _done = Done(done);
            receive(opening)
        });
        let mut sent = 0;
        eventually(|| {
            // Another one for the other, if he is there.
            let all = [moved, done]
                .iter()
                .filter(|flag| flag.load(Relaxed))
                .count()
                + 1;
            if sent < all && tube.try_send(&[sent as u8; 8]).is_ok() {
                sent += 1;
            }
            done.load(Relaxed) && ended.load(Relaxed)
        });
        dying.join().unwrap();
        match living.join().unwrap().unwrap() {
            Ok(message) => assert!(message == [0; 8] || (message == [1; 8] && moved.load(Relaxed))),
            Err(error) => assert!(error == Fault::Dead.into() && steps != u64::MAX),
        }
    });
}
