//! `umcg bench waitv`: producers post to one of many objects, and each consumer waits for the first
//! to be posted; the scenario of the patches that brought FUTEX_WAIT_MULTIPLE to Linux.
//!
//! Each object counts. A producer must have a credit for each thing it posts, and there are as many
//! credits as producers: a consumer gives one back for each thing it has taken. So a cycle of one
//! producer and one consumer is a hand-over there and back; and more of them contend for the
//! objects, without running ahead of each other.

use super::Bench;
use super::bars::{self, Bar, Limit::*};
use super::choice::{Many, Order};
use super::experiment::{Experiment, Grid, Side, params};
use super::flow::{Flow, Threads, Workers, together};
use super::request::{Answer, Request};
use super::semaphores::{eventfd, last};
use crate::harness::{Finding, Params, Report, Row, Section, lower};
use anyhow::{Context, Result, ensure};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use umcg::futex::{ChangedAt, Wait, WaitSet, wait_multiple};

pub(super) const BENCH: Bench = Bench {
    name: "waitv",
    title: "One of many words",
    params: &[
        "cpus",
        "objects",
        "producers",
        "consumers",
        "kind",
        "object",
    ],
    sections: SECTIONS,
    graphs: &[],
    usual: &[
        "cpus=2 producers=1 consumers=1",
        "cpus=2 producers=4 consumers=4 objects=16",
    ],
    experiments: EXPERIMENTS,
    work,
};

const SIDES: &[Side] = &[
    Side::of("umcg", &[("kind", "worker")]),
    Side::of("umcg", &[("kind", "thread")]),
    Side::of("umcg", &[("kind", "worker"), ("object", "list")]),
    Side::of("umcg", &[("kind", "thread"), ("object", "list")]),
    Side::new("futex_waitv"),
    Side::new("poll"),
    Side::new("epoll"),
];

const EXPERIMENTS: &[Experiment] = &[Experiment::of(&[lower("cycle", "ns")], SIDES, cycle_grid)];

/// Producers and consumers.
const PARTIES: [(u64, u64); 4] = [(1, 1), (4, 4), (1, 4), (4, 1)];

fn cycle_grid(grid: &Grid) -> Vec<Params> {
    let mut list = Vec::new();
    for cpus in grid.cpus() {
        for &(producers, consumers) in grid.pick(&PARTIES[..], &[(1, 1), (2, 1), (2, 2)]) {
            let all = grid.pick(&[1, 2, 8, 16, 32, 64, 128][..], &[1, 8]);
            // Where one side has more, a few numbers show it.
            let few = grid.pick(&[1, 16, 128][..], &[8]);
            for &objects in if producers == consumers { all } else { few } {
                let parties = [
                    ("producers", producers.into()),
                    ("consumers", consumers.into()),
                ];
                list.push(
                    params([("cpus", cpus.into()), ("objects", objects.into())])
                        .into_iter()
                        .chain(params(parties))
                        .collect(),
                );
            }
        }
    }
    list
}

const SECTIONS: &[Section] = &[Section {
    title: "To post to one of many objects, and to wait for all of them",
    metric: "cycle",
    heading: "ns",
    columns: &[],
    bar: Some(bar),
    references: &["futex_waitv", "poll", "epoll"],
}];

const BARS: &[Bar] = &[
    Bar {
        metric: "cycle",
        rows: &["worker"],
        limit: Times(1.0 / 20.0, &["futex_waitv"]),
    },
    Bar {
        metric: "cycle",
        rows: &["thread"],
        limit: Times(1.05, &["futex_waitv"]),
    },
    Bar {
        metric: "cycle",
        rows: &["thread"],
        limit: Times(1.0 / 1.2, &["poll"]),
    },
    Bar {
        metric: "cycle",
        rows: &["thread", "objects 128"],
        limit: Times(1.0 / 10.0, &["poll"]),
    },
];

fn bar(report: &Report, row: &Row) -> Vec<Finding> {
    bars::findings(BARS, report, row)
}

type Kept = Ours<WaitSet<'static>>;
type Listed = Ours<Vec<Wait<'static>>>;

fn work(request: &Request) -> Result<Answer> {
    match (&*request.case, request.word("kind"), request.word("object")) {
        ("umcg", "worker", "") => cycles::<Workers, Kept>(request),
        ("umcg", "thread", "") => cycles::<Threads, Kept>(request),
        ("umcg", "worker", "list") => cycles::<Workers, Listed>(request),
        ("umcg", "thread", "list") => cycles::<Threads, Listed>(request),
        ("futex_waitv", ..) => cycles::<Threads, Kernels>(request),
        ("poll", ..) => cycles::<Threads, Polled>(request),
        ("epoll", ..) => cycles::<Threads, Epolled>(request),
        _ => request.refuse(),
    }
}

/// A producer posts this often before it looks at the clock.
const CLOCK: u64 = 16;

fn cycles<F: Flow, M: Many>(request: &Request) -> Result<Answer> {
    let (producers, consumers) = (request.number("producers")?, request.number("consumers")?);
    let (objects, budget) = (request.number("objects")?, request.budget());
    let [items, credits] =
        [M::new(objects)?, M::new(1)?].map(|many| -> &'static M { Box::leak(Box::new(many)) });
    (0..producers).for_each(|_| credits.put(0));
    let (running, is_over) = (AtomicUsize::new(producers), AtomicBool::new(false));
    let first = Arc::new(OnceLock::new());
    let start = Arc::clone(&first);
    let body = move |index| {
        let start = *start.get_or_init(Instant::now);
        let mut count = 0;
        if index < producers {
            let (mut taker, mut order) = (credits.taker(), Order::of(objects));
            while count == 0 || count % CLOCK != 0 || start.elapsed() < budget {
                M::take(&mut taker);
                items.put(order.next());
                count += 1;
            }
            let took = start.elapsed();
            // ORDERING(bench-posted.1): AcqRel, pairs with itself: the last one is behind all that
            // was posted.
            if running.fetch_sub(1, AcqRel) == 1 {
                // All credits are back when everything was taken.
                (0..producers).for_each(|_| assert_eq!(M::take(&mut taker), 0));
                is_over.store(true, Relaxed);
                (0..consumers).for_each(|_| items.put(0));
            }
            return (count, took);
        }
        let mut taker = items.taker();
        loop {
            M::take(&mut taker);
            // The data that came with it are seen.
            if is_over.load(Relaxed) {
                return (count, start.elapsed());
            }
            count += 1;
            credits.put(0);
        }
    };
    let all = together::<F, _>(request, producers + consumers, body)?;
    let sum = |part: &[(u64, _)]| part.iter().map(|(count, _)| count).sum::<u64>();
    let (posted, taken) = (sum(&all[..producers]), sum(&all[producers..]));
    ensure!(posted == taken, "{taken} of {posted} were taken");
    let took = all[..producers]
        .iter()
        .map(|(_, took)| *took)
        .max()
        .context("nobody")?;
    Answer::of(took.as_secs_f64() * 1e9 / posted as f64)
}

/// Words that count, each on a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Word(AtomicU32);

impl Word {
    fn many(count: usize) -> Box<[Word]> {
        (0..count).map(|_| Word::default()).collect()
    }

    #[inline(always)]
    fn add(&self) {
        // ORDERING(bench-item.1): Release, pairs with bench-item.2: the taker sees the earlier
        // changes.
        self.0.fetch_add(1, Release);
    }

    #[inline(always)]
    fn take(&self) -> bool {
        let mut value = self.0.load(Relaxed);
        while value > 0 {
            // ORDERING(bench-item.2): Acquire, pairs with bench-item.1.
            match self
                .0
                .compare_exchange_weak(value, value - 1, Acquire, Relaxed)
            {
                Ok(_) => return true,
                Err(other) => value = other,
            }
        }
        false
    }
}

/// Ours: words, and a waiter's handles of them.
struct Ours<W>(Box<[Word]>, PhantomData<fn() -> W>);

/// How a waiter waits for words until one is not 0.
trait Waits: 'static {
    fn of(words: &'static [Word]) -> Self;
    fn wait(&mut self) -> usize;
}

/// A set, which is kept from one wait to the next.
impl Waits for WaitSet<'static> {
    fn of(words: &'static [Word]) -> Self {
        let mut set = WaitSet::with_capacity(words.len());
        words.iter().for_each(|word| {
            set.push(Wait::new(&word.0, 0));
        });
        set
    }

    #[inline(always)]
    fn wait(&mut self) -> usize {
        let (Ok(index) | Err(ChangedAt(index))) = WaitSet::wait(self);
        index
    }
}

/// `wait_multiple`, which is told of all words each time.
impl Waits for Vec<Wait<'static>> {
    fn of(words: &'static [Word]) -> Self {
        words.iter().map(|word| Wait::new(&word.0, 0)).collect()
    }

    #[inline(always)]
    fn wait(&mut self) -> usize {
        let (Ok(index) | Err(ChangedAt(index))) = wait_multiple(self);
        index
    }
}

impl<W: Waits> Many for Ours<W> {
    type Taker = (&'static Self, W);

    fn new(count: usize) -> Result<Self> {
        Ok(Self(Word::many(count), PhantomData))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0[index].add();
        umcg::futex::wake(&self.0[index].0, 1);
    }

    fn taker(&'static self) -> Self::Taker {
        (self, W::of(&self.0))
    }

    #[inline(always)]
    fn take((all, waits): &mut Self::Taker) -> usize {
        loop {
            let index = waits.wait();
            if all.0[index].take() {
                return index;
            }
        }
    }
}

/// The kernel's futexes and `futex_waitv`.
struct Kernels(Box<[Word]>);

/// The entry for a word that `futex_waitv` gets.
#[repr(C)]
struct Waitv {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// 32 bits, and of one process.
const FLAGS: u32 = 2 | libc::FUTEX_PRIVATE_FLAG as u32;

impl Many for Kernels {
    type Taker = (&'static Self, Vec<Waitv>);

    fn new(count: usize) -> Result<Self> {
        // SAFETY: no word to wait for: it fails, in one way or another.
        unsafe {
            libc::syscall(
                libc::SYS_futex_waitv,
                null::<Waitv>(),
                0,
                0,
                null::<libc::timespec>(),
                0,
            )
        };
        ensure!(
            last().raw_os_error() != Some(libc::ENOSYS),
            "futex_waitv: {}",
            last()
        );
        Ok(Self(Word::many(count)))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        let word = &self.0[index];
        word.add();
        // SAFETY: an aligned word of ours.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            )
        };
    }

    fn taker(&'static self) -> Self::Taker {
        let entry = |word: &Word| Waitv {
            value: 0,
            address: word.0.as_ptr() as u64,
            flags: FLAGS,
            reserved: 0,
        };
        (self, self.0.iter().map(entry).collect())
    }

    #[inline(always)]
    fn take((all, list): &mut Self::Taker) -> usize {
        let timeout = null::<libc::timespec>();
        loop {
            if let Some(index) = all.0.iter().position(Word::take) {
                return index;
            }
            // SAFETY: entries that name words of ours to compare.
            unsafe {
                libc::syscall(
                    libc::SYS_futex_waitv,
                    list.as_ptr(),
                    list.len() as u32,
                    0,
                    timeout,
                    libc::CLOCK_MONOTONIC,
                )
            };
        }
    }
}

/// Eventfds that count.
struct EventFds(Box<[OwnedFd]>);

impl EventFds {
    fn new(count: usize) -> Result<EventFds> {
        Ok(EventFds(
            (0..count)
                .map(|_| eventfd(0, libc::EFD_NONBLOCK))
                .collect::<Result<_>>()?,
        ))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        let value = 1_u64;
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.0[index].as_raw_fd(), (&raw const value).cast(), 8) };
    }

    #[inline(always)]
    fn take(&self, index: usize) -> bool {
        let mut value = 0_u64;
        // SAFETY: room for eight bytes.
        unsafe { libc::read(self.0[index].as_raw_fd(), (&raw mut value).cast(), 8) == 8 }
    }
}

/// All of them polled.
struct Polled(EventFds);

impl Many for Polled {
    type Taker = (&'static Self, Vec<libc::pollfd>);

    fn new(count: usize) -> Result<Self> {
        Ok(Self(EventFds::new(count)?))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0.put(index);
    }

    fn taker(&'static self) -> Self::Taker {
        let entry = |fd: &OwnedFd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        (self, self.0.0.iter().map(entry).collect())
    }

    #[inline(always)]
    fn take((all, list): &mut Self::Taker) -> usize {
        loop {
            // SAFETY: as many entries, writable.
            unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, -1) };
            let mut ready = list
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.revents != 0);
            if let Some((index, _)) = ready.find(|(index, _)| all.0.take(*index)) {
                return index;
            }
        }
    }
}

/// All of them in an epoll set, of which each consumer has one.
struct Epolled(EventFds);

impl Many for Epolled {
    type Taker = (&'static Self, OwnedFd);

    fn new(count: usize) -> Result<Self> {
        Ok(Self(EventFds::new(count)?))
    }

    #[inline(always)]
    fn put(&self, index: usize) {
        self.0.put(index);
    }

    fn taker(&'static self) -> Self::Taker {
        // SAFETY: plain system call.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0, "epoll_create1: {}", last());
        // SAFETY: just opened, and owned by this function only.
        let set = unsafe { OwnedFd::from_raw_fd(fd) };
        for (index, member) in self.0.0.iter().enumerate() {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: index as u64,
            };
            // SAFETY: an event, which is copied.
            let rc = unsafe {
                libc::epoll_ctl(
                    set.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    member.as_raw_fd(),
                    &mut event,
                )
            };
            assert!(rc == 0, "epoll_ctl: {}", last());
        }
        (self, set)
    }

    #[inline(always)]
    fn take((all, set): &mut Self::Taker) -> usize {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        loop {
            // SAFETY: room for one event.
            let count = unsafe { libc::epoll_wait(set.as_raw_fd(), &mut event, 1, -1) };
            let index = event.u64 as usize;
            if count == 1 && all.0.take(index) {
                return index;
            }
        }
    }
}
