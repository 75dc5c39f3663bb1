//! Of those that are ready at once none is preferred, however a program's calls take turns.

use umcg::select::{Select, Set};
use umcg::sync::{Acquiring, Semaphore, acquire_any, try_acquire_any};
use umcg::tube::tube;

const MANY: usize = 4_000;

fn semaphores<const N: usize>() -> [Semaphore; N] {
    std::array::from_fn(|_| Semaphore::new(u32::MAX / 2))
}

/// No single one falls short: half a share is far from the spread that chance gives for this many.
#[track_caller]
fn assert_even(what: &str, taken: &[usize]) {
    let share = taken.iter().sum::<usize>() / taken.len();
    assert!(
        taken.iter().all(|count| *count > share / 2),
        "{what}: {taken:?}"
    );
}

/// Calls of this kind in each turn of a loop, one after the other.
#[track_caller]
fn in_turns<const CALLS: usize>(what: &str, mut calls: [&mut dyn FnMut() -> usize; CALLS]) {
    let mut taken = [[0; 2]; CALLS];
    for _ in 0..MANY {
        calls
            .iter_mut()
            .zip(&mut taken)
            .for_each(|(call, taken)| taken[call()] += 1);
    }
    taken.iter().for_each(|taken| assert_even(what, taken));
}

#[test]
fn calls_that_take_turns() {
    let [a, b, c, d, e, f] = semaphores();
    in_turns(
        "acquire_any",
        [&mut || acquire_any(&[&a, &b]).unwrap(), &mut || {
            acquire_any(&[&c, &d]).unwrap()
        }],
    );
    in_turns(
        "try_acquire_any",
        [&mut || try_acquire_any(&[&a, &b]).unwrap(), &mut || {
            try_acquire_any(&[&c, &d]).unwrap()
        }],
    );
    in_turns(
        "Select",
        [
            &mut || Select::new().wait(&mut [a.acquiring(), b.acquiring()]),
            &mut || Select::new().wait(&mut [c.acquiring(), d.acquiring()]),
            &mut || Select::new().wait(&mut [e.acquiring(), f.acquiring()]),
            &mut || {
                Select::new()
                    .try_wait(&mut [e.acquiring(), f.acquiring()])
                    .unwrap()
            },
        ],
    );
    let [mut one, mut other] =
        [[&a, &b], [&c, &d]].map(|pair| Set::new(pair.map(Semaphore::acquiring)));
    let wait = |set: &mut Set<Acquiring<'_>>| {
        // Both are missing, so that it looks at both.
        for index in 0..2 {
            set.get_mut(index);
        }
        let index = set.wait();
        set.outcome(index).unwrap();
        index
    };
    in_turns("Set", [&mut || wait(&mut one), &mut || wait(&mut other)]);
}

/// Others of which less is ready, or that have more to look at, change nothing.
#[test]
fn unlike_calls_that_take_turns() {
    let [a, b, c] = semaphores();
    let none = Semaphore::new(0);
    let mut taken = [0; 2];
    for _ in 0..MANY {
        taken[Select::new().wait(&mut [a.acquiring(), b.acquiring()])] += 1;
        let mut others = [none.acquiring(), none.acquiring(), c.acquiring()];
        assert_eq!(Select::new().wait(&mut others), 2);
        assert_eq!(acquire_any(&[&c, &none]), Ok(0));
    }
    assert_even("Select", &taken);
}

/// Those behind many that are not ready are found as often as others.
#[test]
fn neighbours() {
    let (idle, full) = (
        [(); 2].map(|()| tube::<u8>(0)),
        [(); 2].map(|()| tube::<u8>(MANY)),
    );
    let fill = || {
        full.iter()
            .for_each(|(sender, _)| while sender.try_send(0).is_ok() {})
    };
    let mut taken = [0_usize; 2];
    for _ in 0..MANY {
        fill();
        umcg::select! {
            _ = idle[0].1.receiving() => unreachable!(),
            _ = idle[1].1.receiving() => unreachable!(),
            _ = full[0].1.receiving() => taken[0] += 1,
            _ = full[1].1.receiving() => taken[1] += 1,
        }
    }
    assert!(taken[0].abs_diff(taken[1]) < MANY / 8, "{taken:?}");
}

/// The first waits of sets: a new set is made for each wait.
#[test]
fn new_sets() {
    for len in [2, 3, 10] {
        let full: Vec<_> = (0..len).map(|_| Semaphore::new(u32::MAX / 2)).collect();
        let (mut waited, mut tried) = (vec![0; len], vec![0; len]);
        for _ in 0..MANY {
            let new = || Set::new(full.iter().map(Semaphore::acquiring));
            waited[new().wait()] += 1;
            tried[new().try_wait().unwrap()] += 1;
        }
        for taken in [waited, tried] {
            assert!(
                taken.iter().all(|times| *times > MANY / len * 3 / 5),
                "{taken:?}"
            );
        }
    }
}
