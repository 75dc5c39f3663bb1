//! Locks with something in them, condition variables, and a gate that opens and shuts.

use crate::harness::Rng;
use crate::party::Party;
use crate::world::told;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg::sync::{
    Condvar, Event, Mutex, MutexGuard, RawMutex, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};

/// Alike, whenever another may look.
type Values = [u64; 3];

/// Items that are put and taken, and room for few of them.
#[derive(Debug)]
struct Stock {
    items: Mutex<usize>,
    some: Condvar,
    room: Condvar,
}

const ROOM: usize = 2;

#[derive(Debug)]
pub(crate) struct Locks {
    barging: Mutex<Values>,
    fair: Mutex<Values>,
    shared: RwLock<Values>,
    /// So often each of the three was written.
    written: [AtomicU64; 3],
    stock: Stock,
    gate: Event,
}

fn change(values: &mut Values, written: &AtomicU64) {
    for value in values.iter_mut() {
        *value += 1;
        std::hint::black_box(value);
    }
    look(values);
    written.fetch_add(1, Relaxed);
}

fn look(values: &Values) {
    assert!(
        values.iter().all(|value| *value == values[0]),
        "two at once: {values:?}"
    );
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            barging: Mutex::new([0; 3]),
            fair: Mutex::from_raw(RawMutex::fair(), [0; 3]),
            shared: RwLock::new([0; 3]),
            written: Default::default(),
            stock: Stock {
                items: Mutex::new(0),
                some: Condvar::new(),
                room: Condvar::new(),
            },
            gate: Event::manual(false),
        }
    }

    pub(crate) fn move_gate(&self, rng: &mut Rng) {
        match rng.below(3) {
            0 => self.gate.set(),
            1 => self.gate.pulse(),
            _ => drop(self.gate.reset()),
        }
    }

    /// For good.
    pub(crate) fn open_gate(&self) {
        self.gate.set();
    }

    pub(crate) fn stranded(&self) -> Option<String> {
        if self.gate.is_set() && told(&self.gate, "waiters") > 0 {
            return Some(format!("somebody waits at the open gate, {:?}", self.gate));
        }
        let items = self.stock.items.try_lock().map(|items| *items);
        let some = items.is_some_and(|items| items > 0) && waiters(&self.stock.some) > 0;
        let room = items.is_some_and(|items| items < ROOM) && waiters(&self.stock.room) > 0;
        (some || room).then(|| format!("somebody waits for {:?}", self.stock))
    }

    pub(crate) fn check(&self) {
        let values = [
            *self.barging.lock(),
            *self.fair.lock(),
            *self.shared.write(),
        ];
        values.iter().for_each(look);
        assert_eq!(
            values.map(|values| values[0]),
            self.written.each_ref().map(|written| written.load(SeqCst))
        );
        assert_eq!(*self.stock.items.lock(), 0, "put and taken");
        assert_eq!(
            (
                waiters(&self.stock.some),
                waiters(&self.stock.room),
                told(&self.gate, "waiters")
            ),
            (0, 0, 0)
        );
    }
}

fn waiters(condvar: &Condvar) -> u64 {
    told(condvar, "waiters")
}

pub(crate) fn one(party: &mut Party) {
    match party.rng.below(8) {
        0..=2 => drop(party.cut(mutex)),
        3..=5 => drop(party.cut(rwlock)),
        6 => stock(party),
        _ => {
            let _ = party.cut(|party| {
                let world = party.world.clone();
                match party.rng.below(3) {
                    0 => drop(world.locks.gate.try_wait()),
                    1 => drop(world.locks.gate.wait_timeout(party.short())),
                    _ => world.locks.gate.wait(),
                }
            });
        }
    }
}

fn mutex(party: &mut Party) {
    let world = party.world.clone();
    let which = party.rng.below(2) as usize;
    let mutex = [&world.locks.barging, &world.locks.fair][which];
    let guard = match party.rng.below(3) {
        0 => mutex.try_lock(),
        1 => mutex.try_lock_for(party.short()),
        _ => Some(mutex.lock()),
    };
    let Some(mut guard) = guard else { return };
    look(&guard);
    if party.rng.one_in(4) {
        party.step();
    }
    change(&mut guard, &world.locks.written[which]);
}

fn rwlock(party: &mut Party) {
    let world = party.world.clone();
    let (lock, written) = (&world.locks.shared, &world.locks.written[2]);
    let short = party.short();
    match party.rng.below(8) {
        0..=2 => {
            let guard = if party.rng.one_in(2) {
                lock.try_read_for(short)
            } else {
                Some(lock.read())
            };
            let Some(guard) = guard else { return };
            look(&guard);
            party.step();
            look(&guard);
        }
        3 => drop(lock.try_read().map(|guard| look(&guard))),
        4 | 5 => {
            let guard = if party.rng.one_in(2) {
                lock.try_write_for(short)
            } else {
                Some(lock.write())
            };
            let Some(mut guard) = guard else { return };
            change(&mut guard, written);
            if party.rng.one_in(2) {
                let guard = RwLockWriteGuard::downgrade(guard);
                party.step();
                look(&guard);
            }
        }
        _ => {
            let guard = if party.rng.one_in(2) {
                lock.try_upgradable_read_for(short)
            } else {
                Some(lock.upgradable_read())
            };
            let Some(guard) = guard else { return };
            let before = *guard;
            party.step();
            let upgraded = match party.rng.below(2) {
                0 => RwLockUpgradableReadGuard::try_upgrade_for(guard, short).ok(),
                _ => Some(RwLockUpgradableReadGuard::upgrade(guard)),
            };
            let Some(mut guard) = upgraded else { return };
            assert_eq!(*guard, before, "nobody writes meanwhile");
            change(&mut guard, written);
        }
    }
}

/// Puts one item, and takes one. A party that cannot wait for that any more takes one all the same.
fn stock(party: &mut Party) {
    /// The number still to be taken.
    struct Owed<'a>(&'a Stock);
    impl Drop for Owed<'_> {
        fn drop(&mut self) {
            let mut items = self.0.items.lock();
            self.0.some.wait_while(&mut items, |items| *items == 0);
            taken(self.0, items);
        }
    }
    fn taken(stock: &Stock, mut items: MutexGuard<'_, usize>) {
        *items -= 1;
        drop(items);
        stock.room.notify_one();
    }
    let world = party.world.clone();
    let stock = &world.locks.stock;
    let put = party.cut(|_| {
        let mut items = stock.items.lock();
        stock.room.wait_while(&mut items, |items| *items == ROOM);
        *items += 1;
        drop(items);
        stock.some.notify_one();
        Owed(stock)
    });
    let Some(owed) = put else { return };
    party.step();
    let short = party.short();
    let took = party.cut(|_| {
        let mut items = stock.items.lock();
        if stock
            .some
            .wait_while_timeout(&mut items, |items| *items == 0, short)
            .timed_out()
        {
            return false;
        }
        taken(stock, items);
        true
    });
    if took == Some(true) {
        std::mem::forget(owed);
    }
}
