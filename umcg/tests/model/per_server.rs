//! Values that belong to a server, under their owner and others.

use crate::check;
use crate::rt::here::Here;
use crate::rt::per_server::{Load, PerServer};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A number that knows when two are at it, or one finds it half-way. Plain values: the checker
/// switches where `yield_now` says.
#[derive(Default)]
struct Guarded {
    taken: AtomicBool,
    number: usize,
}

impl Load for Guarded {
    fn load(&self) -> usize {
        self.number
    }
}

impl Guarded {
    fn add(&mut self) {
        assert!(!self.taken.swap(true, Relaxed), "two are inside");
        let before = self.number;
        thread::yield_now();
        self.number = before + 1;
        assert!(self.taken.swap(false, Relaxed));
    }
}

fn run(owner_turns: usize, others: [fn(&PerServer<Guarded>) -> usize; 2]) {
    let cells = Arc::new(PerServer::new(1, |_| Guarded::default()));
    let others = others.map(|other| {
        let cells = cells.clone();
        thread::spawn(move || other(&cells))
    });
    // SAFETY: used on this thread only.
    let here = unsafe { Here::new(0) };
    (0..owner_turns).for_each(|_| cells.own(&here, Guarded::add));
    let added = others
        .into_iter()
        .map(|other| other.join().unwrap())
        .sum::<usize>()
        + owner_turns;
    assert_eq!(cells.hint(0), added);
    assert_eq!(cells.own(&here, |guarded| guarded.number), added);
    assert_eq!(cells.other(0, |guarded| guarded.number), added);
}

fn waits(cells: &PerServer<Guarded>) -> usize {
    cells.other(0, Guarded::add);
    cells.other(0, Guarded::add);
    2
}

fn tries(cells: &PerServer<Guarded>) -> usize {
    let added = [
        cells.try_other(0, Guarded::add),
        cells.try_other(0, Guarded::add),
    ];
    added.iter().flatten().count()
}

/// One at a time, owner or other; the changes of one are seen by the next.
#[test]
fn one_is_inside() {
    check(|| run(3, [waits, waits]));
    check(|| run(3, [waits, tries]));
}

/// A caller that gives up leaves nothing behind that keeps the owner out.
#[test]
fn giving_up_is_harmless() {
    check(|| run(4, [tries, tries]));
}
