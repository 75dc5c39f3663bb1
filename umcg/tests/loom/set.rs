//! Sets of operations that stay in their queues between waits.

use crate::rt::cancel;
use crate::select::set::Set;
use crate::semaphore::{Data, SOON};
use crate::sync::Semaphore;
use crate::{be, check, leak, party};

/// As many waits as there are wakeups, which come while the set waits, and while it does not.
fn each_once(is_worker: bool) {
    let semaphores: &'static [Semaphore; 2] = leak([Semaphore::new(0), Semaphore::new(0)]);
    let data = [Data::new(), Data::new()];
    let (_, taker) = party(is_worker, move || {
        let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
        for _ in 0..2 {
            let index = set.wait();
            set.outcome(index).unwrap();
            assert_eq!(data[index].read(), 1);
        }
    });
    be(true);
    for (semaphore, data) in semaphores.iter().zip(data) {
        data.write();
        semaphore.release(1).unwrap();
    }
    taker.join().unwrap();
    assert!(
        semaphores
            .iter()
            .all(|semaphore| semaphore.available() == 0)
    );
}

#[test]
fn each_wakeup_is_taken_once() {
    check(2, || each_once(true));
    check(2, || each_once(false));
}
