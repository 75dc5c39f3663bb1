//! `nt`, `futex`, `segment`. Their objects hold no values of the program's, and are given no
//! closures and no wakers: they have words and numbers, and messages that are plain copies, without
//! destructors. So waiting, waking, sending, receiving and counting there run none of the program's
//! code. The operations that do run such code are in the table below, and no others:
//!
//! - collecting or extending a `WaitSet` asks an iterator;
//! - making or opening a segment asks for a path, or for a descriptor;
//! - showing an object (`Debug`) writes to something of the program's;
//! - the mutexes of `nt` that a worker has left are abandoned when its worker-locals are dropped,
//!   between the program's own, which may use objects of `nt` themselves.

use crate::ledger::Thing;
use crate::rows::{self, Row, World};
use crate::trap::{Point, Trap};
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::futex::{self, ChangedAt, WaitMultipleError, WaitSet};
use umcg::nt::{self, Owned, WaitError, Woken};
use umcg::segment::Segment;

const SHORT: Duration = Duration::from_millis(1);

/// An iterator that is bad at its second element.
fn words<'a>(w: &World, words: &'a [AtomicU32]) -> impl Iterator<Item = futex::Wait<'a>> {
    let (trap, own) = (w.trap, w.thing());
    words.iter().enumerate().map(move |(index, word)| {
        let _own = &own;
        if index == 1 {
            trap.at(Point::Call);
        }
        futex::Wait::new(word, 0)
    })
}

/// A value that becomes a path, or a descriptor.
struct Given<T> {
    value: T,
    trap: &'static Trap,
    own: Thing,
}

impl<T> Given<T> {
    fn new(w: &World, value: T) -> Given<T> {
        Given {
            value,
            trap: w.trap,
            own: w.thing(),
        }
    }
}

impl AsRef<Path> for Given<PathBuf> {
    fn as_ref(&self) -> &Path {
        self.trap.at(Point::Call);
        &self.value
    }
}

impl From<Given<OwnedFd>> for OwnedFd {
    fn from(given: Given<OwnedFd>) -> OwnedFd {
        given.trap.at(Point::Call);
        drop(given.own);
        given.value
    }
}

/// Something to write to.
struct Paper<'a>(&'a World);

impl Write for Paper<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        self.0.call();
        Ok(())
    }
}

/// A file that is not there yet.
struct File(PathBuf);

impl File {
    fn new() -> File {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "umcg-callbacks-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        File(std::env::temp_dir().join(name))
    }

    fn given(&self, w: &World) -> Given<PathBuf> {
        Given::new(w, self.0.clone())
    }

    /// A segment in it, whether there is one already or not.
    fn anew(&self) -> Segment {
        let _ = std::fs::remove_file(&self.0);
        Segment::create_file(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A segment is in order, and no waiter is left in it.
fn is_usable(segment: &Segment) {
    let semaphore = segment.semaphore("s", 1).unwrap();
    assert_eq!(
        (
            semaphore.try_acquire(),
            semaphore.release(1),
            semaphore.waiters()
        ),
        (Ok(()), Ok(()), Ok(0))
    );
}

/// Not all processes for which there is room, and of those only the ones that have it open.
fn has_room_for_all_but(segment: &Segment, open: usize) {
    let again = || Segment::open(segment.as_fd().try_clone_to_owned().unwrap());
    let all: Vec<_> = std::iter::from_fn(|| again().ok()).collect();
    assert_eq!(all.len(), PROCESSES - open);
}

const PROCESSES: usize = 4;

fn new_segment() -> Segment {
    Segment::options()
        .processes(PROCESSES as u32)
        .create()
        .unwrap()
}

umcg::worker_local! {
    static FIRST: RefCell<Vec<Thing>> = RefCell::new(Vec::new());
    static LAST: RefCell<Vec<Late>> = RefCell::new(Vec::new());
}

/// Takes a mutex when it is dropped, and its other member is bad.
struct Late(
    nt::Mutex,
    #[allow(dead_code, reason = "it is dropped")] Thing,
);

impl Drop for Late {
    fn drop(&mut self) {
        assert!(nt::Wait::any(&[self.0.as_handle()]).try_wait().is_ok());
    }
}

/// In the kernel, as the party may be one that was aborted.
fn until(so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "it does not come to that"
        );
        umcg::blocking(|| std::thread::sleep(Duration::from_micros(100)));
    }
}

const ROWS: &[Row] = &[
    ("WaitSet, collected", |w| {
        let words: &'static [AtomicU32] = Box::leak(Box::new([const { AtomicU32::new(0) }; 3]));
        w.trap.reenters(|| {
            let mut other: WaitSet<'_> =
                words.iter().map(|word| futex::Wait::new(word, 0)).collect();
            assert_eq!(other.wait_timeout(SHORT), Err(WaitMultipleError::TimedOut));
            futex::wake(&words[0], 9);
        });
        let set = w.forgive(|| self::words(w, words).collect::<WaitSet<'_>>());
        assert!(set.is_none_or(|set| set.len() == 3));
        assert!(words.iter().all(|word| futex::wake(word, 9) == 0));
    }),
    ("WaitSet, extended between its waits", |w| {
        let words = [const { AtomicU32::new(0) }; 40];
        let mut set = WaitSet::with_capacity(1);
        set.push(futex::Wait::new(&words[0], 0));
        assert_eq!(
            set.wait_timeout(Duration::ZERO),
            Err(WaitMultipleError::TimedOut)
        );
        let ended = w.forgive(|| set.extend(self::words(w, &words[1..])));
        assert!(
            (2..=words.len()).contains(&set.len()) && (ended.is_none() || set.len() == words.len())
        );
        // The elements that were added are a set like any other.
        let last = set.len() - 1;
        words[last].store(1, Relaxed);
        assert_eq!(
            (set.changed(), set.wait()),
            (Some(last), Err(ChangedAt(last)))
        );
        drop(set);
        assert!(words.iter().all(|word| futex::wake(word, 9) == 0));
    }),
    ("Segment::create_file", |w| {
        let file = File::new();
        let made = w.forgive(|| Segment::create_file(file.given(w)).unwrap());
        is_usable(&made.unwrap_or_else(|| file.anew()));
    }),
    ("Options::create_file", |w| {
        let file = File::new();
        let made = w.forgive(|| {
            Segment::options()
                .objects(3)
                .create_file(file.given(w))
                .unwrap()
        });
        is_usable(&made.unwrap_or_else(|| file.anew()));
    }),
    ("Segment::open_file", |w| {
        let file = File::new();
        let segment = Segment::options()
            .processes(PROCESSES as u32)
            .create_file(&file.0)
            .unwrap();
        w.forgive(|| Segment::open_file(file.given(w)).unwrap());
        is_usable(&segment);
        has_room_for_all_but(&segment, 1);
    }),
    ("Segment::open", |w| {
        let segment = new_segment();
        let fd = segment.as_fd().try_clone_to_owned().unwrap();
        w.trap.reenters({
            let fd = fd.try_clone().unwrap();
            move || is_usable(&Segment::open(fd.try_clone().unwrap()).unwrap())
        });
        w.trap.holds(segment.clone());
        w.forgive(|| Segment::open(Given::new(w, fd)).unwrap());
        is_usable(&segment);
        has_room_for_all_but(&segment, 1);
    }),
    ("Debug of words, and of what is in a segment", |w| {
        let (word, segment) = (AtomicU32::new(0), new_segment());
        let set: WaitSet<'_> = [futex::Wait::new(&word, 0)].into_iter().collect();
        let semaphore = segment.semaphore("s", 1).unwrap();
        let (event, tube) = (
            segment.auto_event("e", false).unwrap(),
            segment.tube::<u64>("t", 2).unwrap(),
        );
        w.trap.reenters({
            let (semaphore, event, tube) = (semaphore.clone(), event.clone(), tube.clone());
            move || {
                assert!(semaphore.try_acquire().is_ok() && semaphore.release(1).is_ok());
                assert!(
                    event.set().is_ok() && tube.try_send(1).is_ok() && tube.try_recv() == Ok(1)
                );
            }
        });
        let shown: [&dyn fmt::Debug; 5] = [&set, &segment, &semaphore, &event, &tube];
        for what in shown {
            w.forgive(|| write!(Paper(w), "{what:?}").unwrap());
        }
        is_usable(&segment);
        assert!(event.set().is_ok() && tube.try_send(1).is_ok() && tube.try_recv() == Ok(1));
    }),
    ("Debug of objects of nt", |w| {
        let (event, semaphore) = (nt::Event::auto(false), nt::Semaphore::new(0, 1).unwrap());
        let (mutex, timer) = (nt::Mutex::new(false), nt::Timer::new(true));
        w.trap.reenters({
            let (event, mutex) = (event.clone(), mutex.clone());
            move || {
                let both = [event.as_handle(), mutex.as_handle()];
                assert_eq!(
                    (nt::Wait::any(&both).try_wait(), mutex.unlock()),
                    (Ok(Woken::Object(1)), Ok(1))
                );
                assert_eq!(nt::Wait::all(&both).try_wait(), Err(WaitError::TimedOut));
            }
        });
        let handles = [
            event.as_handle(),
            semaphore.as_handle(),
            mutex.as_handle(),
            timer.as_handle(),
        ];
        let wait = nt::Wait::any(&handles);
        let shown: [&dyn fmt::Debug; 5] = [&event, &semaphore, &mutex, &timer, &wait];
        for what in shown {
            w.forgive(|| write!(Paper(w), "{what:?}").unwrap());
        }
        event.set();
        assert_eq!(wait.try_wait(), Ok(Woken::Object(0)));
        assert_eq!(
            (wait.try_wait(), mutex.unlock()),
            (Ok(Woken::Object(2)), Ok(1))
        );
    }),
    (
        "mutexes of nt that are left, between worker-locals that are dropped",
        |w| {
            let mutexes: [_; 3] = std::array::from_fn(|_| nt::Mutex::new(false));
            let (own, [first, second, late]) = ([w.thing(), w.thing(), w.thing()], mutexes.clone());
            w.trap.holds(mutexes.clone());
            w.forgive(|| {
                let worker = umcg::spawn(move || {
                    let [before, after, own] = own;
                    FIRST.with(|things| things.borrow_mut().push(before));
                    assert_eq!(
                        nt::Wait::any(&[first.as_handle()]).wait(),
                        Ok(Woken::Object(0))
                    );
                    assert_eq!(
                        nt::Wait::all(&[second.as_handle()]).wait(),
                        Ok(Woken::Object(0))
                    );
                    LAST.with(|last| last.borrow_mut().push(Late(late, own)));
                    FIRST.with(|things| things.borrow_mut().push(after));
                });
                worker.join().unwrap();
            });
            until(|| {
                mutexes
                    .iter()
                    .all(|mutex| mutex.owned() == Owned::Abandoned)
            });
            for mutex in &mutexes {
                assert_eq!(
                    nt::Wait::any(&[mutex.as_handle()]).try_wait(),
                    Ok(Woken::Abandoned(0))
                );
                assert_eq!(mutex.unlock(), Ok(1));
            }
            w.ledger.settle();
        },
    ),
];

#[test]
fn objects_without_values() {
    rows::all("objects without values", ROWS);
}
