//! Semaphores: the look at a wait, which the checker's own deadlines are.

use crate::checker::{check_with_heavy, leak, pass};
use crate::parties::{SOON, be, party};
use crate::sync::Semaphore;

#[path = "../checked/semaphore.rs"]
mod checked;

/// A thread looks, without a reason, while the waiter goes on and waits again, in the same place.
fn looked_at(is_worker: bool) {
    let semaphore = leak(Semaphore::new(0));
    let (task, taker) = party(is_worker, || {
        (0..2).for_each(|_| semaphore.acquire().unwrap())
    });
    be(true);
    semaphore.release(1).unwrap();
    pass(task, SOON);
    semaphore.release(1).unwrap();
    taker.join().unwrap();
}

#[test]
fn a_frame_is_there_while_somebody_looks() {
    check_with_heavy(2, || looked_at(true));
    check_with_heavy(2, || looked_at(false));
}
