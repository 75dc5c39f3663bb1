//! The checker itself: wrong histories have no order, and some that seem wrong have one.

use crate::checker::{Recorded, Specification, check};
use crate::semaphores::{self, Semaphores};
use crate::tubes::{self, Tubes};

/// From a call to a return.
fn history<O>(operations: Vec<(u64, u64, O)>) -> Vec<Recorded<O>> {
    operations
        .into_iter()
        .map(|(called, returned, operation)| Recorded {
            party: 0,
            operation,
            called,
            returned,
        })
        .collect()
}

#[track_caller]
fn is_wrong<S: Specification>(specification: &S, operations: Vec<(u64, u64, S::Operation)>) {
    let history = history(operations);
    assert!(check(specification, &history).is_err(), "{history:?}");
}

#[track_caller]
fn is_right<S: Specification>(specification: &S, operations: Vec<(u64, u64, S::Operation)>) {
    let history = history(operations);
    assert_eq!(check(specification, &history), Ok(()), "{history:?}");
}

fn strong(count: u32) -> Semaphores {
    Semaphores {
        count,
        is_barging: false,
    }
}

#[test]
fn of_semaphores() {
    use semaphores::{Asked::*, Told::*};
    // More is taken than there is.
    is_wrong(
        &strong(1),
        vec![(0, 2, (Try(1), Done)), (1, 3, (Try(1), Done))],
    );
    is_right(
        &strong(1),
        vec![(0, 2, (Try(1), Done)), (1, 3, (Try(1), Empty))],
    );
    // A wakeup is lost: it was not taken, and a later caller finds none.
    is_wrong(
        &strong(0),
        vec![(0, 1, (Release(1), Done)), (2, 3, (Try(1), Empty))],
    );
    is_wrong(
        &strong(0),
        vec![
            (0, 3, (Acquire(1), Late)),
            (1, 2, (Release(1), Done)),
            (4, 5, (Try(1), Empty)),
        ],
    );
    is_right(
        &strong(0),
        vec![
            (0, 3, (Acquire(1), Late)),
            (1, 2, (Release(1), Done)),
            (4, 5, (Try(1), Done)),
        ],
    );
    // A wakeup is given twice.
    is_wrong(
        &strong(0),
        vec![
            (0, 3, (Acquire(1), Done)),
            (1, 4, (Acquire(1), Done)),
            (2, 5, (Release(1), Done)),
        ],
    );
    // Closed too early, and too late.
    is_wrong(
        &strong(0),
        vec![(0, 1, (Acquire(1), Closed)), (2, 3, (Close, Done))],
    );
    is_wrong(
        &strong(1),
        vec![(0, 1, (Close, Done)), (2, 3, (Try(1), Done))],
    );
}

#[test]
fn of_queues_of_semaphores() {
    use semaphores::{Asked::*, Told::*};
    // A waiter is passed over: it wants two where there is one, which shows when another caller
    // finds none; and then comes a third.
    let waits_for_two = (0, 20, (Acquire(2), Done));
    let more = (10, 11, (Release(2), Done));
    is_right(
        &strong(1),
        vec![
            waits_for_two,
            (1, 2, (Try(1), Empty)),
            (3, 4, (Try(1), Empty)),
            more,
        ],
    );
    is_wrong(
        &strong(1),
        vec![
            waits_for_two,
            (1, 2, (Try(1), Empty)),
            (3, 4, (Try(1), Done)),
            more,
        ],
    );
    is_wrong(
        &strong(1),
        vec![
            waits_for_two,
            (1, 2, (Try(1), Empty)),
            (3, 4, (Acquire(1), Done)),
            more,
        ],
    );
    is_wrong(
        &strong(1),
        vec![
            (0, 20, (Acquire(2), Late)),
            (1, 2, (Look, Waiting(1))),
            (3, 4, (Try(1), Done)),
            (5, 6, (Look, Waiting(1))),
        ],
    );
    // It may have given up before.
    is_right(
        &strong(1),
        vec![
            (0, 20, (Acquire(2), Late)),
            (1, 2, (Try(1), Empty)),
            (3, 4, (Try(1), Done)),
        ],
    );
}

#[test]
fn of_barging_semaphores() {
    use semaphores::{Asked::*, Told::*};
    let waits_for_two = (0, 20, (Acquire(2), Done));
    let more = (10, 11, (Release(2), Done));
    // A barging one may pass a waiter over, but not fail while there is something.
    let barging = Semaphores {
        count: 1,
        is_barging: true,
    };
    is_right(
        &barging,
        vec![waits_for_two, (3, 4, (Acquire(1), Done)), more],
    );
    is_wrong(&barging, vec![waits_for_two, (1, 2, (Try(1), Empty)), more]);
}

#[test]
fn of_tubes() {
    use tubes::{Asked::*, Told::*};
    let tube = |capacity| Tubes { capacity };
    let got = |message| Received(vec![message]);
    // Received twice.
    is_wrong(
        &tube(2),
        vec![
            (0, 1, (Send(7), Done)),
            (2, 4, (TryReceive, got(7))),
            (3, 5, (Receive, got(7))),
        ],
    );
    // Sent, and given back, and received all the same.
    is_wrong(
        &tube(1),
        vec![(0, 3, (Send(7), Late)), (1, 2, (Receive, got(7)))],
    );
    // A message that was never sent.
    is_wrong(
        &tube(1),
        vec![(0, 3, (Send(7), Done)), (1, 2, (Receive, got(8)))],
    );
    // Lost.
    is_wrong(
        &tube(1),
        vec![(0, 1, (Send(7), Done)), (2, 3, (TryReceive, Nothing))],
    );
    // The second of a sender before the first.
    let two = [(0, 1, (Send(1), Done)), (2, 3, (Send(2), Done))];
    is_wrong(
        &tube(2),
        two.iter()
            .cloned()
            .chain([(4, 5, (Receive, got(2))), (6, 7, (Receive, got(1)))])
            .collect(),
    );
    is_wrong(
        &tube(2),
        two.iter()
            .cloned()
            .chain([(4, 7, (ReceiveMany(2), Received(vec![2, 1])))])
            .collect(),
    );
    is_right(
        &tube(2),
        two.iter()
            .cloned()
            .chain([(4, 6, (Receive, got(2))), (5, 7, (Receive, got(1)))])
            .collect(),
    );
}

#[test]
fn of_room_in_tubes() {
    use tubes::{Asked::*, Told::*};
    let tube = |capacity| Tubes { capacity };
    let got = |message| Received(vec![message]);
    let two = [(0, 1, (Send(1), Done)), (2, 3, (Send(2), Done))];
    // More room than there is, and less.
    is_wrong(&tube(1), two.to_vec());
    is_wrong(
        &tube(2),
        vec![(0, 1, (TrySend(1), Done)), (2, 3, (TrySend(2), Nothing))],
    );
    is_wrong(&tube(3), vec![(0, 1, (SendMany(vec![1, 2]), Sent(1)))]);
    // Without room both have to be there.
    is_wrong(
        &tube(0),
        vec![(0, 1, (Send(1), Done)), (2, 3, (Receive, got(1)))],
    );
    is_right(
        &tube(0),
        vec![(0, 2, (Send(1), Done)), (1, 3, (Receive, got(1)))],
    );
    is_wrong(
        &tube(0),
        vec![(0, 2, (Send(1), Late)), (1, 3, (TryReceive, got(1)))],
    );
    // After the end.
    is_wrong(
        &tube(1),
        vec![(0, 1, (Close, Done)), (2, 3, (TrySend(1), Done))],
    );
    is_wrong(
        &tube(1),
        vec![
            (0, 1, (Send(1), Done)),
            (2, 3, (Close, Done)),
            (4, 5, (TryReceive, Closed)),
        ],
    );
    // A waiting sender has the room as soon as there is some.
    let waiting = vec![
        (0, 1, (Send(1), Done)),
        (2, 20, (Send(2), Done)),
        (3, 4, (TrySend(3), Nothing)),
        (5, 6, (ReceiveMany(3), Received(vec![1, 2]))),
        (7, 8, (TrySend(4), Done)),
    ];
    is_right(&tube(1), waiting.clone());
    let mut forgotten = waiting;
    forgotten[4] = (7, 8, (TrySend(4), Nothing));
    is_wrong(&tube(1), forgotten);
}
