//! Small models: two or three parties and one question each.

use crate::idle::{EventKind, Hand, Lists, Node, WaitOutcome, state};
use crate::{Servers, check, kernel, lists, next_event, node, seat};
use shuttle::thread;

/// I3: each event ends one server's wait, in whatever order they sit down.
#[test]
fn every_server_that_waits_is_called() {
    check(|| {
        let lists = lists();
        let nodes = [node(1, state::BLOCKED), node(2, state::BLOCKED)];
        let servers = Servers::spawn(2, move || next_event(lists, seat(), None, Hand::Held));
        let posters =
            nodes.map(|node| thread::spawn(move || lists.post(node, EventKind::Wake, None)));
        posters
            .into_iter()
            .for_each(|poster| poster.join().unwrap());
        let mut tids: Vec<u32> = servers
            .join()
            .into_iter()
            .map(|(_, events)| events[0].0)
            .collect();
        tids.sort_unstable();
        assert_eq!(tids, [1, 2]);
        assert!(!lists.collect(Hand::Held, 1, &mut |_, _| true));
    });
}

/// The command WAKE ends one wait, or reports that there is none. So does a signal. An event that
/// comes meanwhile is not lost.
#[test]
fn wake_and_signals_lose_no_event() {
    check(|| {
        let lists = lists();
        let event = node(1, state::BLOCKED);
        let servers = Servers::spawn(2, move || next_event(lists, seat(), None, Hand::Open));
        let poster = thread::spawn(move || lists.post(event, EventKind::Wake, None));
        let waker = thread::spawn(move || lists.wake_server());
        let signal = thread::spawn(kernel::interrupt);
        poster.join().unwrap();
        waker.join().unwrap();
        signal.join().unwrap();
        // The event may have come to a server that was woken as well. Then the other server's wait
        // is still to be ended.
        let mut events: Vec<_> = servers
            .end(lists)
            .into_iter()
            .flat_map(|(_, events)| events)
            .collect();
        lists.collect(Hand::Open, 2, &mut |node, kind| {
            events.push((node.tid(), kind));
            true
        });
        assert_eq!(events, [(1, EventKind::Wake)]);
    });
}

/// I4: a deadline that is armed while servers sleep for longer, one of them with a deadline of its
/// own, wakes one of them in time.
#[test]
fn somebody_is_awake_for_a_deadline() {
    check(|| {
        let lists = lists();
        let waiter = node(1, state::RUNNING);
        let patient = thread::spawn(move || next_event(lists, seat(), None, Hand::Open));
        let hasty = thread::spawn(move || next_event(lists, seat(), Some(10), Hand::Open));
        let runner = thread::spawn(move || lists.hand_over(waiter, Hand::Open, Some(20)));
        let clock = thread::spawn(|| [5, 10, 15].map(kernel::advance));
        runner.join().unwrap();
        clock.join().unwrap();
        assert_eq!(hasty.join().unwrap(), (WaitOutcome::TimedOut, vec![]));
        kernel::advance(20);
        assert_eq!(
            patient.join().unwrap(),
            (WaitOutcome::Collected, vec![(1, EventKind::Timeout)])
        );
        assert!(waiter.take_timed_out());
    });
}

/// A wait that timed out before a server collected it gives WAIT and TIMEOUT, in this order, to the
/// server that collects.
#[test]
fn timeout_follows_wait() {
    check(|| {
        let lists = lists();
        let waiter = node(1, state::RUNNING);
        let clock = thread::spawn(|| kernel::advance(10));
        let poster = thread::spawn(move || lists.post(waiter, EventKind::Wait, Some(10)));
        let (seat, mut events) = (seat(), Vec::new());
        while events.len() < 2 {
            events.extend(next_event(lists, seat, None, Hand::Open).1);
        }
        assert_eq!(events, [(1, EventKind::Wait), (1, EventKind::Timeout)]);
        poster.join().unwrap();
        clock.join().unwrap();
        assert!(lists.claim(waiter, 1) && waiter.take_timed_out());
    });
}

fn claims(lists: &'static Lists, worker: &'static Node) -> thread::JoinHandle<u32> {
    thread::spawn(move || u32::from(lists.claim(worker, 1)))
}

/// Of the servers that claim a worker by tid, one gets it.
#[test]
fn one_claim_succeeds() {
    check(|| {
        let lists = lists();
        let worker = node(1, state::RUNNABLE);
        let servers = [0, 1, 2].map(|_| claims(lists, worker));
        assert_eq!(
            servers
                .map(|server| server.join().unwrap())
                .iter()
                .sum::<u32>(),
            1
        );
    });
}

/// A claim and a deadline: either the worker runs and its deadline is forgotten, or TIMEOUT comes,
/// and the worker can be claimed once it has.
#[test]
fn a_claim_or_a_timeout() {
    check(|| {
        let lists = lists();
        let worker = node(1, state::RUNNING);
        lists.hand_over(worker, Hand::Open, Some(10));
        let servers = [0, 1].map(|_| claims(lists, worker));
        let clock = thread::spawn(|| kernel::advance(10));
        let collector = thread::spawn(move || {
            let mut count = 0;
            lists.collect(Hand::Open, 2, &mut |_, kind| {
                assert_eq!(kind, EventKind::Timeout);
                count += 1;
                true
            });
            count
        });
        clock.join().unwrap();
        let claimed: u32 = servers.map(|server| server.join().unwrap()).iter().sum();
        let mut timeouts = collector.join().unwrap();
        lists.collect(Hand::Open, 2, &mut |_, _| {
            timeouts += 1;
            true
        });
        assert!(claimed <= 1 && timeouts <= 1);
        assert!(claimed + timeouts >= 1);
        assert_eq!(worker.take_timed_out(), timeouts == 1);
        if timeouts == 1 {
            assert_eq!(lists.claim(worker, 1), claimed == 0);
        }
    });
}

/// The same for a token: its holder runs the worker. The TIMEOUT comes before that or never.
#[test]
fn a_token_and_a_timeout() {
    check(|| {
        let lists = lists();
        let worker = node(1, state::RUNNING);
        lists.hand_over(worker, Hand::Held, Some(10));
        let clock = thread::spawn(|| kernel::advance(10));
        let holder = thread::spawn(move || {
            lists.take(worker);
            let timed_out = worker.take_timed_out();
            lists.hand_over(worker, Hand::Held, None);
            timed_out
        });
        let collector = thread::spawn(move || {
            lists.collect(Hand::Held, 1, &mut |_, kind| kind == EventKind::Timeout)
        });
        clock.join().unwrap();
        let (timed_out, told) = (holder.join().unwrap(), collector.join().unwrap());
        assert!(timed_out || !told);
        assert!(
            !lists.collect(Hand::Held, 1, &mut |_, _| true),
            "left behind"
        );
        assert!(!worker.take_timed_out());
    });
}

/// A server that waits for a worker to stop being blocked learns it, also if the worker is blocked
/// again at once.
#[test]
fn waiting_for_a_blocked_worker_ends() {
    check(|| {
        let lists = lists();
        let worker = node(1, state::BLOCKED);
        let watchers =
            [0, 1].map(|_| thread::spawn(move || assert!(worker.wait_unblocked(1, &|| false))));
        lists.post(worker, EventKind::Wake, None);
        let server = seat();
        assert_eq!(
            next_event(lists, server, None, Hand::Open).1,
            [(1, EventKind::Wake)]
        );
        assert!(lists.claim(worker, 1));
        worker.set_state(state::BLOCKED);
        // A watcher that comes only now waits for the end of the second blocking.
        let home = thread::spawn(move || lists.post(worker, EventKind::Wake, None));
        watchers
            .into_iter()
            .for_each(|watcher| watcher.join().unwrap());
        home.join().unwrap();
    });
}
