//! The clock that sets timers when they are due: a wheel, and one kernel thread, started with the
//! first timer, which sleeps until the next timer is due.
//!
//! - C1: an alarm's entry and period are touched under the lock of the wheel. That lock is taken
//!   before the locks of objects, by callers that hold none.
//! - C2: an entry is in the wheel, or its object is being set, only while the lock is held or the
//!   object has a handle: the drop of the last handle disarms it first ([`disarm`]).
//! - C3: the thread sleeps on [`ROUSED`] with the value from before it looked at the wheel. Arming
//!   an earlier alarm changes `ROUSED` afterwards.
//!
//! Rejected: that each waiter looks at the time by itself. Without a party that signals the timer
//! its waiters have no order; and a waiter that wakes at a timer's time, leaves its queues and
//! enters them again misses a pulse in between.

use super::object::Object;
use crate::rt::base::wheel::{TimerEntry, Wheel};
use crate::rt::sync::{Hold, HoldLock};
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList};
use rustix::thread::futex::{self, Flags};
use std::cell::Cell;
use std::io;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use umcg_core::fork::Part;
use umcg_core::kernel_thread;

/// How many timers are set under one lock.
const BATCH: usize = 16;

/// The part of a timer that is the clock's.
pub(super) struct Alarm {
    /// With the address of its object.
    entry: TimerEntry<usize>,
    /// When it is due; `u64::MAX` for never. Written under the lock.
    due: AtomicU64,
    /// In nanoseconds; 0 for once.
    period: Cell<u64>,
}

impl Alarm {
    /// For an object that is no timer.
    pub(super) const fn none() -> Alarm {
        Alarm::of(0)
    }

    /// The alarm of the object with this exposed address.
    pub(super) const fn of(object: usize) -> Alarm {
        Alarm {
            entry: TimerEntry::new(object),
            due: AtomicU64::new(u64::MAX),
            period: Cell::new(0),
        }
    }

    pub(super) fn due(&self) -> u64 {
        // ORDERING(due.2): Acquire, pairs with due.1.
        self.due.load(Acquire)
    }

    fn entry(&self) -> NonNull<TimerEntry<usize>> {
        NonNull::from(&self.entry)
    }
}

struct Clock {
    /// Made for the first timer.
    wheel: Option<Wheel<usize>>,
    /// Until when the thread sleeps.
    sleeps_until: u64,
    /// There is a thread, or it is being started.
    has_thread: bool,
}

static CLOCK: HoldLock<Clock> = HoldLock::new(Clock {
    wheel: None,
    sleeps_until: 0,
    has_thread: false,
});
static ROUSED: AtomicU32 = AtomicU32::new(0);

impl Clock {
    fn wheel(&mut self) -> &mut Wheel<usize> {
        self.wheel.get_or_insert_with(Wheel::new)
    }

    /// # Safety
    /// It is not armed, and its object is there until it fires or is disarmed.
    unsafe fn arm(&mut self, timer: &Object, due: u64) {
        // SAFETY: passed on.
        unsafe { self.wheel().insert(timer.alarm.entry(), due) };
        // ORDERING(due.1): Release, pairs with due.2.
        timer.alarm.due.store(due, Release);
    }

    fn disarm(&mut self, timer: &Object) -> bool {
        timer.alarm.due.store(u64::MAX, Relaxed);
        self.take_out(timer)
    }

    /// False if it is not armed.
    fn take_out(&mut self, timer: &Object) -> bool {
        // SAFETY: alive, and only ever in this wheel.
        unsafe { self.wheel().remove(timer.alarm.entry()) }
    }

    /// Sets a timer whose time has come, and which is not armed. If it has a period, arms it for
    /// the first multiple that has not passed yet.
    fn fire(&mut self, timer: &Object, due: u64, now: u64, served: &mut ClaimedList) {
        timer.set_within(served);
        let period = timer.alarm.period.get();
        match (now - due).checked_div(period) {
            // ORDERING(due.1): Release, pairs with due.2: a caller that finds it not due any more
            // finds it set, and does not wait for this thread.
            None => timer.alarm.due.store(u64::MAX, Release),
            Some(over) => {
                // SAFETY: not armed, and there as long as a handle is (C2).
                unsafe { self.arm(timer, due.saturating_add(period.saturating_mul(over + 1))) };
            }
        }
    }

    /// Sets some of the timers that are due. Returns when the next is due.
    fn expire(&mut self, now: u64, served: &mut ClaimedList) -> u64 {
        let mut due = [0; BATCH];
        let mut count = 0;
        self.wheel().expire(now, &mut |address| {
            due[count] = address;
            count += 1;
            count < BATCH
        });
        for address in &due[..count] {
            // SAFETY: it was armed just now, under this lock. So it has a handle, or the drop of
            // its last handle waits for this lock (C2).
            let timer = unsafe { &*ptr::with_exposed_provenance::<Object>(*address) };
            self.fire(timer, timer.alarm.due(), now, served);
        }
        self.sleeps_until = self.wheel().next();
        self.sleeps_until
    }
}

/// Resets the timer, and arms it for `due` and then each `period`, if that is not 0. Returns
/// whether it was armed before.
pub(super) fn set(timer: &Object, due: u64, period: u64) -> io::Result<bool> {
    start()?;
    let (was_armed, is_earlier) = wait::undisturbed(|served| {
        let mut clock = CLOCK.lock();
        let was_armed = clock.disarm(timer);
        timer.reset();
        timer.alarm.period.set(period);
        let now = time::now();
        if due <= now {
            clock.fire(timer, now, now, served);
        } else {
            // SAFETY: not armed any more; it is disarmed before its end (C2).
            unsafe { clock.arm(timer, due) };
        }
        let is_earlier = timer.alarm.due() < clock.sleeps_until;
        if is_earlier {
            ROUSED.fetch_add(1, Relaxed);
        }
        (was_armed, is_earlier)
    });
    if is_earlier {
        let _ = futex::wake(&ROUSED, Flags::PRIVATE, 1);
    }
    Ok(was_armed)
}

/// Disarms the timer, whose state stays as it is. Returns whether it was armed.
pub(super) fn disarm(timer: &Object) -> bool {
    wait::undisturbed(|_| CLOCK.lock().disarm(timer))
}

/// Sets the timer if it is due, but the thread has not come to it yet.
#[inline]
pub(super) fn catch_up(timer: &Object) {
    if timer.alarm.due() != u64::MAX {
        catch_up_slow(timer);
    }
}

#[cold]
fn catch_up_slow(timer: &Object) {
    let now = time::now();
    if timer.alarm.due() > now {
        return;
    }
    wait::undisturbed(|served| {
        let mut clock = CLOCK.lock();
        let due = timer.alarm.due();
        if due <= now && clock.take_out(timer) {
            clock.fire(timer, due, now, served);
        }
    });
}

/// Starts the thread of this process, unless there is one.
fn start() -> io::Result<()> {
    // First, or a child would take the parent's thread for its own.
    FORKS.enter()?;
    if std::mem::replace(&mut CLOCK.lock().has_thread, true) {
        return Ok(());
    }
    let hold = Hold::begin();
    let started = umcg_core::signal::without(|| kernel_thread::spawn("umcg-timers", run));
    drop(hold);
    if started.is_err() {
        CLOCK.lock().has_thread = false;
    }
    started.map(drop)
}

static FORKS: Part = Part::new(Part::ABOVE, || CLOCK.take(), forked);

/// In the child no timer is armed. The object of a timer may be locked by a thread that the child
/// does not have, and the clock's thread would then wait for that lock with all timers.
///
/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let mut clock = unsafe { CLOCK.adopt() };
    if !in_child {
        return;
    }
    clock.has_thread = false;
    clock.sleeps_until = 0;
    if let Some(mut wheel) = clock.wheel.take() {
        wheel.expire(u64::MAX, &mut |address| {
            // SAFETY: armed, and so it has a handle (C2).
            let timer = unsafe { &*ptr::with_exposed_provenance::<Object>(address) };
            timer.alarm.due.store(u64::MAX, Relaxed);
            true
        });
        // Freeing memory is not for a fork handler.
        std::mem::forget(wheel);
    }
}

/// The thread.
fn run() {
    loop {
        let roused = ROUSED.load(Relaxed);
        let next = wait::undisturbed(|served| {
            let now = time::now();
            CLOCK.lock().expire(now, served)
        });
        if next > time::now() {
            let _ = futex::wait_bitset(
                &ROUSED,
                Flags::PRIVATE,
                roused,
                time::timespec(next).as_ref(),
                NonZeroU32::MAX,
            );
        }
    }
}
