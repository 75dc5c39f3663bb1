//! Objects of one's own: a waiter is told a hint, and no hint is missed.

use crate::check;
use crate::parties::{deadline_if, ender, join_all, party};
use crate::rt::wait::{Place, SelectQueue};
use crate::select::custom::{Taking, Waitable, Waiters, taking};
use crate::select::engine;
use crate::select::operation::{Operation, OperationParts};
use crate::select::order::LookOrder;
use crate::select::set::Set;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A number of coins.
struct Purse {
    coins: AtomicU32,
    waiters: Waiters,
}

impl Purse {
    fn put(&self) {
        self.coins.fetch_add(1, SeqCst);
        self.waiters.notify_one();
    }
}

impl Waitable for Purse {
    type Output = ();

    fn try_take(&self) -> Option<()> {
        self.coins
            .fetch_update(SeqCst, SeqCst, |coins| coins.checked_sub(1))
            .ok()
            .map(drop)
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

fn purses() -> &'static [Purse; 2] {
    Box::leak(Box::new([0, 1].map(|_| Purse {
        coins: AtomicU32::new(0),
        waiters: Waiters::new(),
    })))
}

/// Both of them, as `select` has them.
struct Either([Taking<'static, Purse>; 2]);

impl engine::Alternatives for Either {
    fn len(&self) -> usize {
        2
    }

    fn queue(&self, index: usize) -> Option<&dyn SelectQueue> {
        self.0[index].queue()
    }

    fn place(&self, index: usize) -> &Place {
        self.0[index].place()
    }

    fn finish(&self, index: usize, note: usize) -> bool {
        self.0[index].finish(note)
    }
}

/// A coin from one of them. False when the deadline has passed.
fn take(purses: &'static [Purse; 2], deadline: u64) -> bool {
    let mut either = Either([taking(&purses[0]), taking(&purses[1])]);
    let index = engine::any(&either, LookOrder::in_turn(2), &"test", deadline);
    index.map(|index| either.0[index].outcome()).is_some()
}

fn left(purses: &[Purse; 2]) -> u32 {
    purses.iter().map(|purse| purse.coins.load(SeqCst)).sum()
}

/// Two wait for one of two, and each gets a coin, though a third borrows the coins that are there.
#[test]
fn each_gets_one() {
    fn each(is_worker: bool) {
        let purses = purses();
        let takers = (0..2).map(|_| party(is_worker, || assert!(take(purses, u64::MAX))).1);
        let givers = purses.iter().map(|purse| party(true, || purse.put()).1);
        let borrower = party(true, || {
            purses[0]
                .try_take()
                .into_iter()
                .for_each(|()| purses[0].put())
        })
        .1;
        let parties: Vec<_> = takers.chain(givers).chain([borrower]).collect();
        join_all(parties);
        assert_eq!(left(purses), 0);
        assert!(
            purses.iter().all(|purse| !purse.waiters.notify_one()),
            "nobody stands there"
        );
    }
    check(|| each(true));
    check(|| each(false));
}

/// A waiter that is late, or asked to end, has a coin or has left it to the other.
#[test]
fn a_revoked_wait_loses_nothing() {
    fn revoked(by_deadline: bool) {
        let purses = purses();
        let (asked, hasty) = party(true, move || take(purses, deadline_if(by_deadline)));
        let patient = party(true, || assert!(take(purses, u64::MAX))).1;
        let giver = party(true, || purses[1].put()).1;
        let end = ender(asked, by_deadline);
        let is_taken = hasty.join().unwrap();
        if is_taken {
            purses[0].put();
        }
        join_all([patient, giver, end]);
        assert_eq!(left(purses), 0);
    }
    check(|| revoked(true));
    check(|| revoked(false));
}

/// A set takes every coin, whether it waits at that moment or not.
#[test]
fn a_set_takes_all() {
    check(|| {
        let purses = purses();
        let taker = party(true, || {
            let mut set = Set::new(purses.iter().map(taking));
            for _ in 0..3 {
                let index = set.wait_nanos(u64::MAX).unwrap();
                set.outcome(index);
            }
        });
        let givers: Vec<_> = [0, 1, 0]
            .map(|index| party(true, move || purses[index].put()).1)
            .into();
        join_all(givers.into_iter().chain([taker.1]));
        assert_eq!(left(purses), 0);
    });
}
