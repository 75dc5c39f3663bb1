//! All that waits, in all its forms: what is there is taken, whatever is asked meanwhile; what is not is waited for as long as the form says, or until an abort; and who got nothing has changed nothing.

#![allow(clippy::undocumented_unsafe_blocks, reason = "locks without guards, by who has them")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "as above")]

use crate::parties::{SORTS, abort, everywhere, waiters};
use crate::support::{HOUR, counter, eventually, flag};
use lock_api::{RawRwLock as _, RawRwLockTimed as _, RawRwLockUpgrade as _, RawRwLockUpgradeTimed as _};
use std::fmt::Debug;
use std::mem::forget;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::futex::{self, Changed, ChangedAt, Wait, WaitError, WaitMultipleError, WaitSet};
use umcg::select::{Select, Set};
use umcg::sync::{
    Barrier, Condvar, Event, Mutex, Once, OnceLock, RawMutex, RawRwLock, Semaphore, WaitGroup, acquire_any, acquire_any_deadline,
    acquire_any_timeout, try_acquire_any, try_wait_all, try_wait_any, wait_all, wait_all_deadline, wait_all_timeout, wait_any,
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
    /// Whether it has what it waits for. None if there is no such form.
    call: Box<dyn Fn(Form) -> Option<bool> + Send + Sync>,
    /// Has it there, for one call.
    give: Box<dyn Fn() + Send + Sync>,
    /// How many wait; none if nobody knows.
    waiting: Box<dyn Fn() -> Option<usize> + Send + Sync>,
    /// `Form::Wait` is a point of cancellation.
    is_cut: bool,
}

macro_rules! case {
    ($name:literal, $object:ident = $make:expr, $waiters:expr, $give:expr, [$wait:expr, $try:expr, |$at:ident| $deadline:expr, |$time:ident| $timeout:expr]) => {
        case!($name, $object = $make, $waiters, $give, [$wait, $try, |$at| $deadline, |$time| $timeout], true)
    };
    ($name:literal, $object:ident = $make:expr, $waiters:expr, $give:expr, [$wait:expr, $try:expr, |$at:ident| $deadline:expr, |$time:ident| $timeout:expr], $is_cut:literal) => {{
        let of_call = Arc::new($make);
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

fn semaphores() -> Vec<Case> {
    let pair = || [Semaphore::new(0), Semaphore::barging(0)];
    vec![
        case!(
            "acquire",
            s = Semaphore::new(0),
            some(s),
            s.release(1).unwrap(),
            [
                s.acquire().is_ok(),
                Some(s.try_acquire().is_ok()),
                |at| s.acquire_deadline(at).is_ok(),
                |time| s.acquire_timeout(time).is_ok()
            ]
        ),
        case!(
            "acquire_many",
            s = Semaphore::barging(1),
            some(s),
            s.release(2).unwrap(),
            [
                s.acquire_many(2).is_ok(),
                Some(s.try_acquire_many(2).is_ok()),
                |at| s.acquire_many_deadline(2, at).is_ok(),
                |time| s.acquire_many_timeout(2, time).is_ok()
            ]
        ),
        case!(
            "access",
            s = Semaphore::new(0),
            some(s),
            s.release(1).unwrap(),
            [
                s.access().map(forget).is_ok(),
                Some(s.try_access().map(forget).is_ok()),
                |at| s.access_deadline(at).map(forget).is_ok(),
                |time| s.access_timeout(time).map(forget).is_ok()
            ]
        ),
        case!(
            "acquire_any",
            s = pair(),
            some(&s[0]),
            s[1].release(1).unwrap(),
            [
                acquire_any(&[&s[0], &s[1]]) == Ok(1),
                Some(try_acquire_any(&[&s[0], &s[1]]) == Ok(1)),
                |at| acquire_any_deadline(&[&s[0], &s[1]], at) == Ok(1),
                |time| acquire_any_timeout(&[&s[0], &s[1]], time) == Ok(1)
            ]
        ),
        case!(
            "wait_any",
            s = pair(),
            some(&s[1]),
            s[0].release(1).unwrap(),
            [
                wait_any(&[&s[0], &s[1]]) == Ok(0),
                Some(try_wait_any(&[&s[0], &s[1]]) == Ok(0)),
                |at| wait_any_deadline(&[&s[0], &s[1]], at) == Ok(0),
                |time| wait_any_timeout(&[&s[0], &s[1]], time) == Ok(0)
            ]
        ),
        case!(
            "wait_all",
            s = (Event::manual(true), Semaphore::new(0)),
            some(&s.0),
            s.1.release(1).unwrap(),
            [
                wait_all(&[&s.0, &s.1]).is_ok(),
                Some(try_wait_all(&[&s.0, &s.1]).is_ok()),
                |at| wait_all_deadline(&[&s.0, &s.1], at).is_ok(),
                |time| wait_all_timeout(&[&s.0, &s.1], time).is_ok()
            ]
        ),
        case!(
            "Select",
            s = pair(),
            some(&s[1]),
            s[0].release(1).unwrap(),
            [
                Select::new().wait(&mut [s[0].acquiring(), s[1].acquiring()]) == 0,
                Some(Select::new().try_wait(&mut [s[0].acquiring(), s[1].acquiring()]) == Some(0)),
                |at| Select::new().wait_deadline(&mut [s[0].acquiring(), s[1].acquiring()], at) == Some(0),
                |time| Select::new().wait_timeout(&mut [s[0].acquiring(), s[1].acquiring()], time) == Some(0)
            ]
        ),
        case!(
            "Set",
            s = pair(),
            some(&s[1]),
            s[0].release(1).unwrap(),
            [
                Set::new([s[0].acquiring(), s[1].acquiring()]).wait() == 0,
                Some(Set::new([s[0].acquiring(), s[1].acquiring()]).try_wait() == Some(0)),
                |at| Set::new([s[0].acquiring(), s[1].acquiring()]).wait_deadline(at) == Some(0),
                |time| Set::new([s[0].acquiring(), s[1].acquiring()]).wait_timeout(time) == Some(0)
            ]
        ),
    ]
}

fn what_happens() -> Vec<Case> {
    let event = |name, event: Event| Case {
        name,
        ..case!(
            "",
            e = event,
            some(e),
            e.set(),
            [
                {
                    e.wait();
                    true
                },
                Some(e.try_wait()),
                |at| e.wait_deadline(at).is_ok(),
                |time| e.wait_timeout(time).is_ok()
            ]
        )
    };
    let group = || {
        let group = WaitGroup::new();
        group.add(1);
        group
    };
    /// So that it is the caller who is the last to come.
    fn come(barrier: &Arc<Barrier>) {
        let (inside, before) = (barrier.clone(), waiters(&**barrier));
        std::thread::spawn(move || inside.wait());
        eventually("one more has come", || waiters(&**barrier) == (before + 1) % 2);
    }
    vec![
        event("an automatic event", Event::auto(false)),
        event("a manual event", Event::manual(false)),
        case!(
            "WaitGroup",
            g = group(),
            some(g),
            g.done(),
            [
                {
                    g.wait();
                    true
                },
                Some(g.count() == 0),
                |at| g.wait_deadline(at).is_ok(),
                |time| g.wait_timeout(time).is_ok()
            ]
        ),
        case!(
            "Once",
            o = Once::new(),
            some(o),
            o.call_once(|| {}),
            [
                {
                    o.wait();
                    true
                },
                Some(o.is_completed()),
                |at| o.wait_deadline(at).is_ok(),
                |time| o.wait_timeout(time).is_ok()
            ]
        ),
        case!(
            "OnceLock",
            o = OnceLock::new(),
            None,
            o.set(7).unwrap(),
            [
                *o.wait() == 7,
                Some(o.get() == Some(&7)),
                |at| o.wait_deadline(at) == Ok(&7),
                |time| o.wait_timeout(time) == Ok(&7)
            ]
        ),
        case!(
            "Barrier",
            b = Barrier::new(2),
            some(b),
            come(b),
            [
                {
                    b.wait();
                    true
                },
                None,
                |at| b.wait_deadline(at).is_ok(),
                |time| b.wait_timeout(time).is_ok()
            ]
        ),
    ]
}

fn locks() -> Vec<Case> {
    /// Locked already.
    fn mutex(raw: RawMutex) -> Mutex<()> {
        let mutex = Mutex::from_raw(raw, ());
        forget(mutex.lock());
        mutex
    }
    let of_mutex = |name, raw| Case {
        name,
        ..case!(
            "",
            m = mutex(raw),
            some(unsafe { m.raw() }),
            unsafe { m.force_unlock() },
            [
                {
                    forget(m.lock());
                    true
                },
                Some(m.try_lock().map(forget).is_some()),
                |at| m.try_lock_until(at).map(forget).is_some(),
                |time| m.try_lock_for(time).map(forget).is_some()
            ],
            false
        )
    };
    let lock = |prepare: fn(&RawRwLock)| {
        let lock = RawRwLock::new();
        prepare(&lock);
        lock
    };
    vec![
        of_mutex("Mutex", RawMutex::new()),
        of_mutex("a fair Mutex", RawMutex::fair()),
        case!(
            "read",
            l = lock(RawRwLock::lock_exclusive),
            some(l),
            unsafe { l.unlock_exclusive() },
            [
                {
                    l.lock_shared();
                    true
                },
                Some(l.try_lock_shared()),
                |at| l.try_lock_shared_until(at),
                |time| l.try_lock_shared_for(time)
            ],
            false
        ),
        case!(
            "write",
            l = lock(RawRwLock::lock_shared),
            some(l),
            unsafe { l.unlock_shared() },
            [
                {
                    l.lock_exclusive();
                    true
                },
                Some(l.try_lock_exclusive()),
                |at| l.try_lock_exclusive_until(at),
                |time| l.try_lock_exclusive_for(time)
            ],
            false
        ),
        case!(
            "upgradable_read",
            l = lock(RawRwLock::lock_upgradable),
            some(l),
            unsafe { l.unlock_upgradable() },
            [
                {
                    l.lock_upgradable();
                    true
                },
                Some(l.try_lock_upgradable()),
                |at| l.try_lock_upgradable_until(at),
                |time| l.try_lock_upgradable_for(time)
            ],
            false
        ),
        case!(
            "upgrade",
            l = lock(|lock| (lock.lock_upgradable(), lock.lock_shared()).0),
            some(l),
            unsafe { l.unlock_shared() },
            [
                {
                    unsafe { l.upgrade() };
                    true
                },
                Some(unsafe { l.try_upgrade() }),
                |at| unsafe { l.try_upgrade_until(at) },
                |time| unsafe { l.try_upgrade_for(time) }
            ],
            false
        ),
        case!(
            "Condvar",
            c = (Condvar::new(), Mutex::new(false)),
            some(&c.0),
            {
                *c.1.lock() = true;
                c.0.notify_one();
            },
            [
                {
                    c.0.wait_while(&mut c.1.lock(), |is_there| !*is_there);
                    true
                },
                None,
                |at| !c.0.wait_while_deadline(&mut c.1.lock(), |is_there| !*is_there, at).timed_out(),
                |time| !c.0.wait_while_timeout(&mut c.1.lock(), |is_there| !*is_there, time).timed_out()
            ]
        ),
    ]
}

/// What is there is another value.
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
    vec![
        case!(
            "futex",
            w = word(),
            None,
            change(w),
            [
                futex::wait(w, 0) == Ok(()) || futex::wait(w, 0) == Err(Changed),
                None,
                |at| futex::wait_deadline(w, 0, at) != Err(WaitError::TimedOut),
                |time| futex::wait_timeout(w, 0, time) != Err(WaitError::TimedOut)
            ]
        ),
        case!(
            "a shared futex",
            w = word(),
            None,
            change(w),
            [
                futex::shared::wait(w, 0) == Ok(()) || futex::shared::wait(w, 0) == Err(Changed),
                None,
                |at| futex::shared::wait_deadline(w, 0, at) != Err(WaitError::TimedOut),
                |time| futex::shared::wait_timeout(w, 0, time) != Err(WaitError::TimedOut)
            ]
        ),
        case!(
            "wait_multiple",
            w = word(),
            None,
            change(w),
            [
                futex::wait_multiple(&many(w)).is_ok() || futex::wait_multiple(&many(w)) == Err(ChangedAt(0)),
                None,
                |at| futex::wait_multiple_deadline(&many(w), at) != Err(WaitMultipleError::TimedOut),
                |time| futex::wait_multiple_timeout(&many(w), time) != Err(WaitMultipleError::TimedOut)
            ]
        ),
        case!(
            "WaitSet",
            w = word(),
            None,
            change(w),
            [
                set(w).wait().is_ok() || set(w).wait() == Err(ChangedAt(0)),
                Some(set(w).changed().is_some()),
                |at| set(w).wait_deadline(at) != Err(WaitMultipleError::TimedOut),
                |time| set(w).wait_timeout(time) != Err(WaitMultipleError::TimedOut)
            ]
        ),
    ]
}

fn cases() -> impl Iterator<Item = Case> {
    [semaphores(), what_happens(), locks(), words()].into_iter().flatten()
}

impl Case {
    #[track_caller]
    fn expect(&self, form: Form, expected: bool) {
        assert!((self.call)(form).is_none_or(|has| has == expected), "{}, {form:?}: not {expected}", self.name);
    }

    fn until_waiting(&self) {
        if (self.waiting)().is_some() {
            eventually("it waits", || (self.waiting)() == Some(1));
        } else {
            umcg::sleep(SHORT);
        }
    }
}

/// Nothing is there: who tries, or is late, is told so, and stands nowhere.
#[test]
fn nothing_is_there() {
    everywhere("nothing is there", |place| {
        for (n, case) in cases().map(Arc::new).enumerate() {
            let body = move || {
                let start = Instant::now();
                for form in [Form::Try, Form::Deadline(start), Form::Timeout(Duration::ZERO)] {
                    case.expect(form, false);
                }
                case.expect(Form::Timeout(SHORT), false);
                assert!(start.elapsed() >= SHORT, "{}", case.name);
                case.expect(Form::Deadline(Instant::now() + SHORT), false);
                assert!(start.elapsed() >= 2 * SHORT, "{}", case.name);
                assert!((case.waiting)().is_none_or(|waiting| waiting == 0), "{}", case.name);
                (case.give)();
                case.expect(Form::Timeout(HOUR), true);
            };
            let party = place.start(SORTS[n % 3], body);
            party.join();
        }
    });
}

/// Something is there: it is taken, even if the time has passed, and by who is asked to end, as nobody has to wait.
#[test]
fn what_is_there_is_taken() {
    everywhere("something is there", |place| {
        for form in [Form::Wait, Form::Try, Form::Deadline(Instant::now()), Form::Timeout(Duration::ZERO), Form::Timeout(HOUR)] {
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

/// Who waits and is asked to end has taken nothing, and stands nowhere; but who waits for a lock has it first.
#[test]
fn an_abort() {
    everywhere("an abort", |place| {
        for form in [Form::Wait, Form::Timeout(HOUR), Form::Timeout(Duration::MAX), Form::Deadline(Instant::now() + HOUR)] {
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
                    assert!((case.waiting)().is_none_or(|waiting| waiting == 0), "{}", case.name);
                    (case.give)();
                    case.expect(Form::Timeout(HOUR), true);
                } else {
                    worker.abort();
                    umcg::sleep(SHORT);
                    assert_eq!((case.waiting)(), Some(1), "{}", case.name);
                    (case.give)();
                    abort(worker);
                }
                assert_eq!(returned.load(Relaxed), usize::from(!is_cut), "{}", case.name);
            }
        }
    });
}
