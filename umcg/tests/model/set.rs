//! Sets of operations that stay in their queues between waits.

use crate::check;
use crate::rt::cancel;
use crate::select::set::Set;
use crate::semaphore::{SOON, party};
use crate::sync::Semaphore;
use shuttle::thread;

fn leak(count: usize) -> &'static [Semaphore] {
    Box::leak((0..count).map(|_| Semaphore::new(0)).collect())
}

/// As many waits as there are wakeups, which come while the set waits, and while it does not.
fn each_once(is_worker: bool, count: usize) {
    let semaphores = leak(count);
    let taker = party(is_worker, move || {
        let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
        for _ in 0..3 {
            let index = set.wait();
            set.outcome(index).unwrap();
        }
    });
    let giver = |index: usize, wakeups: u32| {
        party(true, move || semaphores[index].release(wakeups).unwrap()).1
    };
    let parties = [taker.1, giver(0, 1), giver(count - 1, 2)];
    parties.into_iter().for_each(|party| party.join().unwrap());
    assert!(
        semaphores
            .iter()
            .all(|semaphore| semaphore.available() == 0)
    );
}

#[test]
fn each_wakeup_is_taken_once() {
    check(|| each_once(true, 2));
    check(|| each_once(false, 2));
    check(|| each_once(true, 1));
}

/// Beside a waiter that takes from the same semaphore alone, which an idle set must not keep
/// waiting; and a deadline.
fn beside_another(is_worker: bool, deadline: u64) {
    let semaphores = leak(2);
    let (task, taker) = party(is_worker, move || {
        let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
        let mut taken = 0;
        for _ in 0..2 {
            if let Some(index) = set.wait_nanos(deadline) {
                set.outcome(index).unwrap();
                taken += 1;
            }
        }
        taken
    });
    let (_, other) = party(true, || semaphores[1].acquire().unwrap());
    let givers: Vec<_> = (0..3)
        .map(|turn| party(true, move || semaphores[turn % 2].release(1).unwrap()).1)
        .collect();
    let end = thread::spawn(move || {
        if deadline == u64::MAX {
            cancel::ask(task)
        } else {
            crate::kernel::advance(SOON)
        }
    });
    // It takes one at most from the one that the other needs, unless two were given there: there is
    // one for each.
    givers
        .into_iter()
        .chain([end])
        .for_each(|party| party.join().unwrap());
    let taken = taker.join().unwrap();
    let left = || semaphores.iter().map(Semaphore::available).sum::<u32>();
    if taken > 0 && semaphores[1].available() == 0 {
        // Perhaps it has taken the other's.
        semaphores[1].release(1).unwrap();
        other.join().unwrap();
        assert_eq!(left() + taken, 3);
    } else {
        other.join().unwrap();
        assert_eq!(left() + taken, 2);
    }
}

#[test]
fn an_idle_set_takes_nothing() {
    check(|| beside_another(true, SOON));
    check(|| beside_another(false, SOON));
    check(|| beside_another(true, u64::MAX));
}

/// Two sets over the same semaphores.
#[test]
fn two_sets() {
    check(|| {
        let semaphores = leak(2);
        let take_two = move || {
            let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
            for _ in 0..2 {
                let index = set.wait();
                set.outcome(index).unwrap();
            }
        };
        let takers = [party(true, take_two).1, party(false, take_two).1];
        let givers =
            [0, 1].map(|index| party(true, move || semaphores[index].release(2).unwrap()).1);
        takers
            .into_iter()
            .chain(givers)
            .for_each(|party| party.join().unwrap());
        assert!(
            semaphores
                .iter()
                .all(|semaphore| semaphore.available() == 0)
        );
    });
}
