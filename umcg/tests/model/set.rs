//! Sets of operations that stay in their queues between waits: beside others.

use crate::check;
use crate::parties::{SOON, ender, join_all, party};
use crate::select::set::Set;
use crate::sync::Semaphore;

#[path = "../checked/set.rs"]
mod checked;
use checked::semaphores;

/// Beside a waiter that takes from the same semaphore alone, which an idle set must not keep
/// waiting; and a deadline.
fn beside_another(is_worker: bool, deadline: u64) {
    let semaphores = semaphores(2);
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
    let end = ender(task, deadline == SOON);
    // It takes one at most from the one that the other needs, unless two were given there: there is
    // one for each.
    join_all(givers.into_iter().chain([end]));
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
        let semaphores = semaphores(2);
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
        join_all(takers.into_iter().chain(givers));
        assert!(
            semaphores
                .iter()
                .all(|semaphore| semaphore.available() == 0)
        );
    });
}
