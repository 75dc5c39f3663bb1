//! Several processes that live.

use crate::parties::Party;
use crate::support::forks::fork;
use crate::support::{child_succeeds, is_child, over, with};
use crate::{again, role_in, start};
use rustix::process::Signal;
use rustix::thread::{SecureComputingMode, set_secure_computing_mode};
use std::time::Duration;
use umcg::Runtime;
use umcg::segment::{Segment, acquire_any};

/// Workers and threads here, and the same in other processes, take turns and pass a number on.
#[test]
fn turns() {
    const TEST: &str = "processes::turns";
    const ROUNDS: u64 = 300;
    if let Some((segment, role)) = role_in(TEST) {
        let [ping, pong] =
            ["ping", "pong"].map(|name| segment.tube::<u64>(&format!("{name} {role}"), 1).unwrap());
        (0..ROUNDS).for_each(|_| pong.send(ping.recv().unwrap() + 1).unwrap());
        return;
    }
    over("turns", |runtime, kind| {
        let segment = Segment::create().unwrap();
        let others: Vec<_> = (0..3)
            .map(|number| start(TEST, &segment, &number.to_string()))
            .collect();
        let own: Vec<_> = (0..3)
            .map(|number| {
                let [ping, pong] = ["ping", "pong"]
                    .map(|name| segment.tube::<u64>(&format!("{name} {number}"), 1).unwrap());
                Party::start(number, kind, runtime, move || {
                    for round in 0..ROUNDS {
                        ping.send(3 * round).unwrap();
                        assert_eq!(pong.recv(), Ok(3 * round + 1));
                    }
                })
            })
            .collect();
        own.into_iter().for_each(Party::join);
        others.into_iter().for_each(crate::Process::ends_well);
    });
}

/// Parties of two processes use tokens in several semaphores, and a number that only the holder of
/// one of them may change.
fn use_tokens(segment: &Segment, runtime: &Runtime) {
    let parties: Vec<_> = (0..4)
        .map(|number| {
            let kind = crate::support::KINDS[number % 2];
            let own = again(segment);
            let body = move || {
                let [a, b] = ["a", "b"].map(|name| own.semaphore(name, 0).unwrap());
                let (guarded, account) = (
                    own.semaphore("guarded", 1).unwrap(),
                    own.tube::<u64>("account", 1).unwrap(),
                );
                for round in 0..200 {
                    let one = if round % 3 == 0 {
                        &a
                    } else {
                        [&a, &b][acquire_any(&[&a, &b]).unwrap()]
                    };
                    if round % 3 == 0 {
                        a.acquire().unwrap();
                    }
                    guarded.acquire().unwrap();
                    let value = account.try_recv().unwrap();
                    account.try_send(value + 1).unwrap();
                    guarded.release(1).unwrap();
                    one.release(1).unwrap();
                }
            };
            Party::start(number, kind, runtime, body)
        })
        .collect();
    parties.into_iter().for_each(Party::join);
}

#[test]
fn sums_are_exact() {
    const TEST: &str = "processes::sums_are_exact";
    if let Some((segment, _)) = role_in(TEST) {
        return with("tokens", 2, Runtime::builder(), |runtime| {
            use_tokens(&segment, runtime)
        });
    }
    with("tokens", 2, Runtime::builder(), |runtime| {
        let segment = Segment::create().unwrap();
        let [a, b] = ["a", "b"].map(|name| segment.semaphore(name, 2).unwrap());
        let account = segment.tube::<u64>("account", 1).unwrap();
        account.send(0).unwrap();
        let others = [0, 1].map(|number| start(TEST, &segment, &number.to_string()));
        use_tokens(&segment, runtime);
        others.into_iter().for_each(crate::Process::ends_well);
        assert_eq!(
            (a.available() + b.available(), a.waiters(), b.waiters()),
            (4, Ok(0), Ok(0))
        );
        assert_eq!(account.try_recv(), Ok(3 * 4 * 200));
    });
}

/// Many senders and receivers in several processes: each message comes to one of them.
#[test]
fn messages_between_processes() {
    const TEST: &str = "processes::messages_between_processes";
    const EACH: u64 = 2000;
    if let Some((segment, role)) = role_in(TEST) {
        let (tube, sums) = (
            segment.tube::<u64>("t", 8).unwrap(),
            segment.tube::<u64>("sums", 8).unwrap(),
        );
        if role == "send" {
            return (1..=EACH).for_each(|number| tube.send(number).unwrap());
        }
        let mut sum = 0;
        while let Ok(number) = tube.recv() {
            sum += number;
        }
        return sums.send(sum).unwrap();
    }
    let segment = Segment::create().unwrap();
    let senders = [0; 2].map(|_| start(TEST, &segment, "send"));
    let receivers = [0; 2].map(|_| start(TEST, &segment, "receive"));
    senders.into_iter().for_each(crate::Process::ends_well);
    segment.tube::<u64>("t", 8).unwrap().close().unwrap();
    receivers.into_iter().for_each(crate::Process::ends_well);
    let sums = segment.tube::<u64>("sums", 8).unwrap();
    assert_eq!(
        sums.recv().unwrap() + sums.recv().unwrap(),
        EACH * (EACH + 1)
    );
}

/// A child after `fork` uses the segment it has inherited, as a party of its own: also when its
/// parent dies first, as others then see.
#[test]
fn a_forked_child() {
    const TEST: &str = "processes::a_forked_child";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    let segment = Segment::create().unwrap();
    let [there, back] = ["there", "back"].map(|name| segment.semaphore(name, 0).unwrap());
    let waits = |semaphore: &umcg::segment::Semaphore| {
        crate::support::eventually("it waits", || semaphore.waiters() == Ok(1))
    };
    let child = fork(|| {
        // In its turn it leaves a child behind that has all descriptors for a while, and is killed
        // while it waits.
        fork(|| {
            std::thread::sleep(Duration::from_secs(8));
            0
        });
        for _ in 0..100 {
            there.acquire().unwrap();
            back.release(1).unwrap();
        }
        let _ = there.acquire();
        1
    });
    for _ in 0..100 {
        there.release(1).unwrap();
        back.acquire().unwrap();
    }
    waits(&there);
    child.signal(Signal::STOP);
    there.release(1).unwrap();
    child.signal(Signal::KILL);
    there.acquire_timeout(Duration::from_secs(4)).unwrap();
}

/// Where no caller has to wait: the kernel kills a process that makes a system call other than to
/// end.
#[test]
fn no_system_calls() {
    const TEST: &str = "processes::no_system_calls";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    let segment = Segment::create().unwrap();
    let [a, b] = ["a", "b"].map(|name| segment.semaphore(name, 1).unwrap());
    let (event, tube) = (
        segment.auto_event("e", false).unwrap(),
        segment.tube::<u64>("t", 4).unwrap(),
    );
    let child = fork(|| {
        // It becomes a party when it has the first lock.
        a.waiters().unwrap();
        set_secure_computing_mode(SecureComputingMode::Strict).unwrap();
        let mut wrong = 0;
        for number in 0..1000 {
            wrong += i32::from(
                a.acquire().is_err() || a.try_acquire().is_ok() || acquire_any(&[&a, &b]) != Ok(1),
            );
            wrong += i32::from(
                a.release(1).is_err()
                    || b.release(1).is_err()
                    || event.set().is_err()
                    || event.wait().is_err(),
            );
            wrong += i32::from(
                tube.send(number).is_err() || tube.recv() != Ok(number) || tube.try_recv().is_ok(),
            );
        }
        // SAFETY: it ends the thread, the only one here, at once: the end of all threads of a
        // process is another call, which is not allowed.
        unsafe { libc::syscall(libc::SYS_exit, wrong) };
        unreachable!()
    });
    child.ends_well();
}
