//! `select`: every kind of operation, none of which is ready, beside an object of the program's
//! whose code is bad. Then each operation is checked to have had no effect.

use crate::ledger::{Ledger, Thing};
use crate::parties::{Myself, each, forgive};
use crate::trap::{Bad, Point, Trap};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use umcg::io::readable;
use umcg::select::{
    Operation, Select, Selectable, Set, Waitable, Waiters, after, taking, wait_for,
    wait_for_deadline, wait_for_timeout,
};
use umcg::sync::{Event, Mutex, Semaphore, locking};
use umcg::tube::tube;

const SHORT: Duration = Duration::from_millis(1);

/// An object whose code is bad.
struct Object {
    ledger: &'static Ledger,
    trap: &'static Trap,
    is_there: AtomicBool,
    waiters: Waiters,
}

impl Waitable for Object {
    type Output = Thing;

    fn try_take(&self) -> Option<Thing> {
        self.trap.at(Point::Call);
        self.is_there
            .swap(false, SeqCst)
            .then(|| Thing::new(self.ledger, self.trap))
    }

    fn waiters(&self) -> &Waiters {
        self.trap.at(Point::CloneWaker);
        &self.waiters
    }
}

type Dyn<'a> = Box<dyn Selectable + 'a>;

/// How to wait for operations, the bad one among them. The gift comes meanwhile, or before.
type How = fn(Vec<Dyn<'_>>, &Arc<Object>);

fn give(object: &Object) {
    object.is_there.store(true, SeqCst);
    object.waiters.notify_one();
}

const HOWS: &[(&str, How)] = &[
    ("Select::try_wait", |mut operations, _| {
        Select::new().try_wait(&mut operations);
    }),
    ("Select::wait_timeout", |mut operations, _| {
        Select::new().wait_timeout(&mut operations, SHORT);
    }),
    ("Select::wait_deadline", |mut operations, _| {
        Select::new()
            .biased()
            .wait_deadline(&mut operations, Instant::now() + SHORT);
    }),
    ("Select::wait", |mut operations, object| {
        give(object);
        Select::new().wait(&mut operations);
    }),
    ("Select, told in vain", |mut operations, object| {
        let object = object.clone();
        let teller = std::thread::spawn(move || object.waiters.notify_all());
        Select::new().wait_timeout(&mut operations, SHORT);
        drop(teller);
    }),
    ("Set::try_wait", |operations, _| {
        Set::new(operations).try_wait();
    }),
    ("Set::wait_timeout", |operations, _| {
        let mut set = Set::new(operations);
        set.wait_timeout(SHORT);
        set.wait_timeout(SHORT);
    }),
    ("Set::wait_deadline", |operations, _| {
        Set::new(operations)
            .biased()
            .wait_deadline(Instant::now() + SHORT);
    }),
    ("Set::wait", |operations, object| {
        let mut set = Set::new(operations);
        set.try_wait();
        give(object);
        set.wait();
        set.wait();
    }),
    ("Set::new", |operations, object| {
        let mut set = Set::new(asked(operations, object));
        set.wait_timeout(SHORT);
    }),
    ("Set, collected", |operations, object| {
        let set: Set<Dyn<'_>> = asked(operations, object).collect();
        assert!(!set.is_empty());
    }),
    (
        "Set::get_mut, another in its place",
        |operations, object| {
            let mut set = Set::new(operations);
            set.wait_timeout(SHORT);
            let last = set.len() - 1;
            *set.get_mut(last) = Box::new(taking(&**object));
            *set.get_mut(0) = Box::new(after(SHORT));
            give(object);
            set.wait();
        },
    ),
    ("wait_for", |_, object| {
        give(object);
        drop(wait_for(&**object));
    }),
    ("wait_for_timeout", |_, object| {
        drop(wait_for_timeout(&**object, SHORT))
    }),
    ("wait_for_deadline", |_, object| {
        drop(wait_for_deadline(&**object, Instant::now() + SHORT))
    }),
    ("select!", |_, object| {
        umcg::select! {
            taken = taking(&**object) => drop(taken),
            default => {}
        }
    }),
    ("taking, asked for", |_, object| {
        give(object);
        let mut taking = taking(&**object);
        Select::new().wait(&mut [&mut taking]);
        drop(taking.outcome());
    }),
];

/// An iterator that is bad at its last element, after it has given out the bad element itself. Its
/// elements are dropped there: a function's result is lost if it unwinds at its end.
fn asked<'a>(operations: Vec<Dyn<'a>>, object: &Arc<Object>) -> impl Iterator<Item = Dyn<'a>> {
    let (trap, last) = (object.trap, operations.len() - 1);
    let mut own = Some(Thing::<0>::new(object.ledger, object.trap));
    operations
        .into_iter()
        .enumerate()
        .map(move |(index, operation)| {
            if index == last {
                drop(own.take());
                trap.at(Point::Call);
            }
            operation
        })
}

#[derive(Clone, Debug)]
struct Case {
    how: usize,
    #[allow(dead_code, reason = "for the message")]
    name: &'static str,
    is_first: bool,
    point: Point,
}

fn cases(bad: Bad) -> Vec<Case> {
    let mut cases = Vec::new();
    for (how, (name, _)) in HOWS.iter().enumerate() {
        for point in [Point::Call, Point::CloneWaker, Point::Drop]
            .into_iter()
            .filter(|point| point.may(bad))
        {
            cases.extend([true, false].map(|is_first| Case {
                how,
                name,
                is_first,
                point,
            }));
        }
    }
    cases
}

/// The call by which the callback comes back to the same objects.
fn reenter(object: &Arc<Object>, semaphore: &Semaphore, event: &Event) {
    let _ = (
        object.try_take(),
        object.waiters.notify_all(),
        wait_for_timeout(&**object, SHORT),
    );
    give(object);
    let _ = Select::new().try_wait(&mut [
        &mut semaphore.acquiring() as &mut dyn Selectable,
        &mut event.waiting(),
    ]);
}

fn scenario(case: &Case, bad: Bad, ledger: &'static Ledger, myself: &Myself) {
    let trap = Trap::new(case.point, bad, myself);
    let object = Arc::new(Object {
        ledger,
        trap,
        is_there: AtomicBool::new(false),
        waiters: Waiters::new(),
    });
    let semaphore = Arc::new(Semaphore::new(0));
    let (event, mutex) = (Arc::new(Event::auto(false)), Arc::new(Mutex::new(())));
    let ((sender, receiver), (near, far)) = (tube::<Thing>(0), UnixStream::pair().unwrap());
    let guard = mutex.lock();
    let mut worker = umcg::spawn({
        let semaphore = semaphore.clone();
        move || semaphore.acquire_many(2).is_ok()
    });
    let again = (object.clone(), semaphore.clone(), event.clone());
    let ends = (sender.clone(), receiver.clone());
    trap.holds((object.clone(), ends, semaphore.clone()));
    trap.reenters(move || reenter(&again.0, &again.1, &again.2));
    trap.arm();
    forgive(bad, || {
        let bad = || Box::new(taking(&*object)) as Dyn<'_>;
        let mut operations: Vec<Dyn<'_>> = vec![
            Box::new(semaphore.acquiring()),
            Box::new(event.waiting()),
            Box::new(locking(&*mutex)),
            Box::new(sender.sending(Thing::new(ledger, trap))),
            Box::new(receiver.receiving()),
            Box::new(worker.ending()),
            Box::new(readable(&near)),
            Box::new(after(Duration::from_secs(3600))),
        ];
        operations.insert(if case.is_first { 0 } else { operations.len() }, bad());
        (HOWS[case.how].1)(operations, &object);
    });
    trap.disarm();
    // The operation has had no effect.
    drop(guard);
    assert!(mutex.try_lock().is_some());
    let sent = sender.try_send(Thing::new(ledger, trap));
    assert!(sent.is_err() && receiver.try_recv().is_err());
    event.set();
    assert!(event.try_wait());
    assert_eq!(object.waiters.notify_all(), 0);
    semaphore.release(3).unwrap();
    // A party that was aborted does not wait any more.
    if bad != Bad::Aborts {
        while !worker.is_finished() {
            umcg::yield_now();
        }
        assert_eq!(semaphore.available(), 1);
    }
    drop((worker, far));
}

#[test]
fn an_object_of_the_programs_beside_all_others() {
    each("beside all others", cases, scenario, |case| {
        format!("{case:?}")
    });
}
