//! Every wait, in all its forms. If the thing is there it is taken, even if the caller is aborted
//! or late. If it is not, it is waited for as long as the form says, or until an abort. A caller
//! that got nothing has changed nothing.

use crate::mutexes::raw;
use crate::parties::{SORTS, abort, everywhere, waiters};
use crate::support::{HOUR, counter, eventually, flag};
use lock_api::{
    RawRwLock as _, RawRwLockTimed as _, RawRwLockUpgrade as _, RawRwLockUpgradeTimed as _,
};
use std::fmt::Debug;
use std::mem::forget;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::futex::{self, Wait, WaitError, WaitMultipleError, WaitSet};
use umcg::select::{Select, Set};
use umcg::sync::{
    Acquiring, Barrier, Condvar, Event, Mutex, Once, OnceLock, RawMutex, RawRwLock, Semaphore,
    WaitGroup, acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any,
    try_wait_all, try_wait_any, wait_all, wait_all_deadline, wait_all_timeout, wait_any,
    wait_any_deadline, wait_any_timeout,
};

const SHORT: Duration = Duration::from_millis(1);

/// How long to wait.
#[derive(Clone, Copy, Debug)]
enum Form {
    Wait,
    Try,
    Deadline(Instant),
    Timeout(Duration),
}

/// One call.
struct Case {
    name: &'static str,
    /// Whether it got the thing it waits for. None if there is no such form.
    call: Box<dyn Fn(Form) -> Option<bool> + Send + Sync>,
    /// Has it there, for one call.
    give: Box<dyn Fn() + Send + Sync>,
    /// How many wait; none if that cannot be known.
    waiting: Box<dyn Fn() -> Option<usize> + Send + Sync>,
    /// `Form::Wait` is a point of cancellation.
    is_cut: bool,
}

/// A case: its name, how many wait, how the thing comes to be there; and the call in its four
/// forms.
macro_rules! case {
    ($name:literal: $object:ident = $make:expr, $waiters:expr, $give:expr => $($call:tt)+) => {
        case!(@of [$name, $object, Arc::new($make), $waiters, $give] [true] $($call)+)
    };
    (
        $name:literal, no point of cancellation:
        $object:ident = $make:expr, $waiters:expr, $give:expr => $($call:tt)+
    ) => {
        case!(@of [$name, $object, Arc::new($make), $waiters, $give] [false] $($call)+)
    };
    (@of [$name:literal, $object:ident, $made:expr, $waiters:expr, $give:expr] [$is_cut:literal]
        $wait:expr, $try:expr, |$at:ident| $deadline:expr, |$time:ident| $timeout:expr) => {{
        let of_call = $made;
        let (of_give, of_waiters) = (of_call.clone(), of_call.clone());
        Case {
            name: $name,
            call: Box::new(move |form| {
                let $object = &*of_call;
                match form {
                    Form::Wait => Some($wait),
                    Form::Try => $try,
                    Form::Deadline($at) => Some($deadline),
                    Form::Timeout($time) => Some($timeout),
                }
            }),
            give: Box::new(move || {
                let $object = &of_give;
                $give
            }),
            waiting: Box::new(move || {
                let $object = &*of_waiters;
                let _ = $object;
                $waiters
            }),
            is_cut: $is_cut,
        }
    }};
}

fn some(object: &impl Debug) -> Option<usize> {
    Some(waiters(object))
}

/// It has returned, with any result.
macro_rules! so {
    ($call:expr) => {
        ($call, true).1
    };
}

fn semaphores() -> Vec<Case> {
    vec![
        case! { "acquire": s = Semaphore::new(0), some(s), s.release(1).unwrap() =>
        s.acquire().is_ok(), Some(s.try_acquire().is_ok()),
        |at| s.acquire_deadline(at).is_ok(), |time| s.acquire_timeout(time).is_ok() },
        case! { "acquire_many": s = Semaphore::barging(1), some(s), s.release(2).unwrap() =>
        s.acquire_many(2).is_ok(), Some(s.try_acquire_many(2).is_ok()),
        |at| s.acquire_many_deadline(2, at).is_ok(),
        |time| s.acquire_many_timeout(2, time).is_ok() },
        case! { "access": s = Semaphore::new(0), some(s), s.release(1).unwrap() =>
        s.access().map(forget).is_ok(), Some(s.try_access().map(forget).is_ok()),
        |at| s.access_deadline(at).map(forget).is_ok(),
        |time| s.access_timeout(time).map(forget).is_ok() },
    ]
}

fn one_of_two() -> Vec<Case> {
    let pair = || [Semaphore::new(0), Semaphore::barging(0)];
    fn list(pair: &[Semaphore; 2]) -> [Acquiring<'_>; 2] {
        pair.each_ref().map(Semaphore::acquiring)
    }
    vec![
        case! { "acquire_any": s = pair(), some(&s[0]), s[1].release(1).unwrap() =>
        acquire_any(&s.each_ref()) == Ok(1), Some(try_acquire_any(&s.each_ref()) == Ok(1)),
        |at| acquire_any_deadline(&s.each_ref(), at) == Ok(1),
        |time| acquire_any_timeout(&s.each_ref(), time) == Ok(1) },
        case! { "wait_any": s = pair(), some(&s[1]), s[0].release(1).unwrap() =>
        wait_any(&[&s[0], &s[1]]) == Ok(0), Some(try_wait_any(&[&s[0], &s[1]]) == Ok(0)),
        |at| wait_any_deadline(&[&s[0], &s[1]], at) == Ok(0),
        |time| wait_any_timeout(&[&s[0], &s[1]], time) == Ok(0) },
        case! { "wait_all": s = (Event::manual(true), Semaphore::new(0)),
        some(&s.0), s.1.release(1).unwrap() =>
        wait_all(&[&s.0, &s.1]).is_ok(), Some(try_wait_all(&[&s.0, &s.1]).is_ok()),
        |at| wait_all_deadline(&[&s.0, &s.1], at).is_ok(),
        |time| wait_all_timeout(&[&s.0, &s.1], time).is_ok() },
        case! { "Select": s = pair(), some(&s[1]), s[0].release(1).unwrap() =>
        Select::new().wait(&mut list(s)) == 0,
        Some(Select::new().try_wait(&mut list(s)) == Some(0)),
        |at| Select::new().wait_deadline(&mut list(s), at) == Some(0),
        |time| Select::new().wait_timeout(&mut list(s), time) == Some(0) },
        case! { "Set": s = pair(), some(&s[1]), s[0].release(1).unwrap() =>
        Set::new(list(s)).wait() == 0, Some(Set::new(list(s)).try_wait() == Some(0)),
        |at| Set::new(list(s)).wait_deadline(at) == Some(0),
        |time| Set::new(list(s)).wait_timeout(time) == Some(0) },
    ]
}

fn what_happens() -> Vec<Case> {
    let event = |event: Event| {
        case! { "Event": e = event, some(e), e.set() =>
        so!(e.wait()), Some(e.try_wait()), |at| e.wait_deadline(at).is_ok(),
        |time| e.wait_timeout(time).is_ok() }
    };
    let group = WaitGroup::new();
    group.add(1);
    /// So that the caller is the last to come.
    fn come(barrier: &Arc<Barrier>) {
        let (inside, before) = (barrier.clone(), waiters(&**barrier));
        std::thread::spawn(move || inside.wait());
        eventually("one more has come", || {
            waiters(&**barrier) == (before + 1) % 2
        });
    }
    vec![
        event(Event::auto(false)),
        event(Event::manual(false)),
        case! { "WaitGroup": g = group, some(g), g.done() =>
        so!(g.wait()), Some(g.count() == 0), |at| g.wait_deadline(at).is_ok(),
        |time| g.wait_timeout(time).is_ok() },
        case! { "Once": o = Once::new(), some(o), o.call_once(|| {}) =>
        so!(o.wait()), Some(o.is_completed()), |at| o.wait_deadline(at).is_ok(),
        |time| o.wait_timeout(time).is_ok() },
        case! { "OnceLock": o = OnceLock::new(), None, o.set(7).unwrap() =>
        *o.wait() == 7, Some(o.get() == Some(&7)), |at| o.wait_deadline(at) == Ok(&7),
        |time| o.wait_timeout(time) == Ok(&7) },
        case! { "Barrier": b = Barrier::new(2), some(b), come(b) =>
        so!(b.wait()), None, |at| b.wait_deadline(at).is_ok(),
        |time| b.wait_timeout(time).is_ok() },
        case! { "Condvar": c = (Condvar::new(), Mutex::new(false)), some(&c.0), {
            *c.1.lock() = true;
            c.0.notify_one();
        } =>
        so!(c.0.wait_while(&mut c.1.lock(), |is_there| !*is_there)), None,
        |at| !c.0.wait_while_deadline(&mut c.1.lock(), |is_there| !*is_there, at).timed_out(),
        |time| !c.0.wait_while_timeout(&mut c.1.lock(), |is_there| !*is_there, time).timed_out() },
    ]
}

/// Unlocks the lock that its case has locked, or got by the call before.
fn free(mutex: &Mutex<()>) {
    // SAFETY: a case has its lock to itself, and no guards; it gives a lock that it has.
    unsafe { mutex.force_unlock() };
}

fn end_read(lock: &RawRwLock) {
    // SAFETY: as in `free`.
    unsafe { lock.unlock_shared() };
}

fn end_write(lock: &RawRwLock) {
    // SAFETY: as in `free`.
    unsafe { lock.unlock_exclusive() };
}

fn end_upgradable(lock: &RawRwLock) {
    // SAFETY: as in `free`.
    unsafe { lock.unlock_upgradable() };
}

fn upgrade(lock: &RawRwLock) {
    // SAFETY: the case has locked it so, and calls this once at a time.
    unsafe { lock.upgrade() };
}

fn try_upgrade(lock: &RawRwLock) -> bool {
    // SAFETY: as in `upgrade`.
    unsafe { lock.try_upgrade() }
}

fn try_upgrade_until(lock: &RawRwLock, deadline: Instant) -> bool {
    // SAFETY: as in `upgrade`.
    unsafe { lock.try_upgrade_until(deadline) }
}

fn try_upgrade_for(lock: &RawRwLock, timeout: Duration) -> bool {
    // SAFETY: as in `upgrade`.
    unsafe { lock.try_upgrade_for(timeout) }
}

fn locks() -> Vec<Case> {
    let mutex = |kind| {
        let mutex = Mutex::from_raw(kind, ());
        forget(mutex.lock());
        case! { "Mutex", no point of cancellation: m = mutex, some(raw(m)), free(m) =>
        so!(forget(m.lock())), Some(m.try_lock().map(forget).is_some()),
        |at| m.try_lock_until(at).map(forget).is_some(),
        |time| m.try_lock_for(time).map(forget).is_some() }
    };
    let locked = |lock: fn(&RawRwLock)| {
        let made = RawRwLock::new();
        lock(&made);
        made
    };
    vec![
        mutex(RawMutex::new()),
        mutex(RawMutex::fair()),
        case! { "read", no point of cancellation: l = locked(RawRwLock::lock_exclusive),
        some(l), end_write(l) =>
        so!(l.lock_shared()), Some(l.try_lock_shared()),
        |at| l.try_lock_shared_until(at), |time| l.try_lock_shared_for(time) },
        case! { "write", no point of cancellation: l = locked(RawRwLock::lock_shared),
        some(l), end_read(l) =>
        so!(l.lock_exclusive()), Some(l.try_lock_exclusive()),
        |at| l.try_lock_exclusive_until(at), |time| l.try_lock_exclusive_for(time) },
        case! { "upgradable_read", no point of cancellation:
            l = locked(RawRwLock::lock_upgradable), some(l), end_upgradable(l) =>
        so!(l.lock_upgradable()), Some(l.try_lock_upgradable()),
        |at| l.try_lock_upgradable_until(at), |time| l.try_lock_upgradable_for(time) },
        case! { "upgrade", no point of cancellation:
            l = locked(|lock| (lock.lock_upgradable(), lock.lock_shared()).0), some(l),
            end_read(l) =>
        so!(upgrade(l)), Some(try_upgrade(l)),
        |at| try_upgrade_until(l, at), |time| try_upgrade_for(l, time) },
    ]
}

/// The thing that is there is another value.
fn words() -> Vec<Case> {
    let word = || AtomicU32::new(0);
    let change = |word: &AtomicU32| {
        word.store(1, Release);
        futex::wake(word, usize::MAX);
        futex::shared::wake(word, usize::MAX);
    };
    fn many(word: &AtomicU32) -> [Wait<'_>; 2] {
        [Wait::new(word, 0), Wait::shared(word, 0)]
    }
    fn set(word: &AtomicU32) -> WaitSet<'_> {
        many(word).into_iter().collect()
    }
    let late = WaitMultipleError::TimedOut;
    vec![
        case! { "futex": w = word(), None, change(w) =>
        so!(futex::wait(w, 0)), None,
        |at| futex::wait_deadline(w, 0, at) != Err(WaitError::TimedOut),
        |time| futex::wait_timeout(w, 0, time) != Err(WaitError::TimedOut) },
        case! { "a shared futex": w = word(), None, change(w) =>
        so!(futex::shared::wait(w, 0)), None,
        |at| futex::shared::wait_deadline(w, 0, at) != Err(WaitError::TimedOut),
        |time| futex::shared::wait_timeout(w, 0, time) != Err(WaitError::TimedOut) },
        case! { "wait_multiple": w = word(), None, change(w) =>
        so!(futex::wait_multiple(&many(w))), None,
        |at| futex::wait_multiple_deadline(&many(w), at) != Err(late),
        |time| futex::wait_multiple_timeout(&many(w), time) != Err(late) },
        case! { "WaitSet": w = word(), None, change(w) =>
        so!(set(w).wait()), Some(set(w).changed().is_some()),
        |at| set(w).wait_deadline(at) != Err(late), |time| set(w).wait_timeout(time) != Err(late) },
    ]
}

fn cases() -> impl Iterator<Item = Case> {
    [semaphores(), one_of_two(), what_happens(), locks(), words()]
        .into_iter()
        .flatten()
}

impl Case {
    #[track_caller]
    fn expect(&self, form: Form, expected: bool) {
        assert!(
            (self.call)(form).is_none_or(|has| has == expected),
            "{}, {form:?}: not {expected}",
            self.name
        );
    }

    fn until_waiting(&self) {
        if (self.waiting)().is_some() {
            eventually("it waits", || (self.waiting)() == Some(1));
        } else {
            umcg::sleep(SHORT);
        }
    }
}

/// Nothing is there: a caller that tries, or is late, is told so, and stands in no queue.
#[test]
fn nothing_is_there() {
    everywhere("nothing is there", |place| {
        for (n, case) in cases().map(Arc::new).enumerate() {
            let body = move || {
                let start = Instant::now();
                for form in [
                    Form::Try,
                    Form::Deadline(start),
                    Form::Timeout(Duration::ZERO),
                ] {
                    case.expect(form, false);
                }
                case.expect(Form::Timeout(SHORT), false);
                assert!(start.elapsed() >= SHORT, "{}", case.name);
                case.expect(Form::Deadline(Instant::now() + SHORT), false);
                assert!(start.elapsed() >= 2 * SHORT, "{}", case.name);
                assert!(
                    (case.waiting)().is_none_or(|waiting| waiting == 0),
                    "{}",
                    case.name
                );
                (case.give)();
                case.expect(Form::Timeout(HOUR), true);
            };
            let party = place.start(SORTS[n % 3], body);
            party.join();
        }
    });
}

/// Something is there: it is taken, even if the time has passed, and by a caller that is asked to
/// end, as no wait is needed.
#[test]
fn what_is_there_is_taken() {
    everywhere("something is there", |place| {
        for form in [
            Form::Wait,
            Form::Try,
            Form::Deadline(Instant::now()),
            Form::Timeout(Duration::ZERO),
            Form::Timeout(HOUR),
        ] {
            for case in cases() {
                let (begun, asked, taken, name) = (flag(), flag(), counter(), case.name);
                let (has_begun, is_asked, count) = (begun.clone(), asked.clone(), taken.clone());
                (case.give)();
                let worker = place.worker(move || {
                    has_begun.store(true, Relaxed);
                    while !is_asked.load(Acquire) {
                        std::thread::yield_now();
                    }
                    case.expect(form, true);
                    count.fetch_add(1, Relaxed);
                    umcg::park();
                });
                eventually("it has begun", || begun.load(Relaxed));
                worker.abort();
                asked.store(true, Release);
                abort(worker);
                assert_eq!(taken.load(Relaxed), 1, "{name}, {form:?}");
            }
        }
    });
}

/// A waiter that is asked to end has taken nothing, and stands in no queue; but a waiter for a lock
/// has it first.
#[test]
fn an_abort() {
    everywhere("an abort", |place| {
        for form in [
            Form::Wait,
            Form::Timeout(HOUR),
            Form::Timeout(Duration::MAX),
            Form::Deadline(Instant::now() + HOUR),
        ] {
            for case in cases().map(Arc::new) {
                let (inside, returned) = (case.clone(), counter());
                let count = returned.clone();
                let worker = place.worker(move || {
                    inside.expect(form, true);
                    count.fetch_add(1, Relaxed);
                    umcg::park();
                });
                case.until_waiting();
                let is_cut = case.is_cut || !matches!(form, Form::Wait);
                if is_cut {
                    abort(worker);
                    assert!(
                        (case.waiting)().is_none_or(|waiting| waiting == 0),
                        "{}",
                        case.name
                    );
                    (case.give)();
                    case.expect(Form::Timeout(HOUR), true);
                } else {
                    worker.abort();
                    umcg::sleep(SHORT);
                    assert_eq!((case.waiting)(), Some(1), "{}", case.name);
                    (case.give)();
                    abort(worker);
                }
                assert_eq!(
                    returned.load(Relaxed),
                    usize::from(!is_cut),
                    "{}",
                    case.name
                );
            }
        }
    });
}
