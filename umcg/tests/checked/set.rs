//! Sets of operations that stay in their queues between waits.

use crate::checker::{check, check_large, leak};
use crate::parties::{Data, be, join_all, party, worker};
use crate::select::set::Set;
use crate::sync::Semaphore;

pub(crate) fn semaphores(count: usize) -> &'static [Semaphore] {
    leak((0..count).map(|_| Semaphore::new(0)).collect::<Vec<_>>())
}

/// As many waits as there are wakeups, which come while the set waits, and while it does not: one
/// of each semaphore, and so many more of the last one, by another party.
fn each_once(is_worker: bool, count: usize, more: u32) {
    let semaphores = semaphores(count);
    let data = leak((0..count).map(|_| Data::new()).collect::<Vec<_>>());
    let (_, taker) = party(is_worker, move || {
        let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
        for _ in 0..count as u32 + more {
            let index = set.wait();
            set.outcome(index).unwrap();
            assert!(more > 0 || data[index].read() == 1);
        }
    });
    let giver = (more > 0).then(|| worker(move || semaphores[count - 1].release(more).unwrap()));
    be(true);
    for (semaphore, data) in semaphores.iter().zip(data) {
        data.write();
        semaphore.release(1).unwrap();
    }
    join_all([taker].into_iter().chain(giver));
    let mut all = semaphores.iter();
    assert!(all.all(|semaphore| semaphore.available() == 0));
}

#[test]
fn each_wakeup_is_taken_once() {
    check(2, || each_once(true, 2, 0));
    check(2, || each_once(false, 2, 0));
    check_large(|| each_once(true, 2, 1));
    check_large(|| each_once(false, 2, 1));
    check_large(|| each_once(true, 1, 2));
}
