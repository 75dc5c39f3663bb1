//! Bad callbacks: where they are called, and their effects.

use crate::parties::Myself;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

/// The effect of a callback, the first time that it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    Panics,
    /// Each time.
    Panic,
    /// Uses the object that calls it.
    Reenters,
    /// Drops the owner of the object.
    Drops,
    /// Asks the worker that it is called in to end.
    Aborts,
    Waits,
}

pub(crate) const BADS: [Bad; 6] = [
    Bad::Panics,
    Bad::Panic,
    Bad::Reenters,
    Bad::Drops,
    Bad::Aborts,
    Bad::Waits,
];

/// Where it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A waker is called, cloned, dropped.
    Wake,
    CloneWaker,
    DropWaker,
    /// A message, or another value, is dropped.
    Drop,
    /// A closure is called; an object of the program's is asked.
    Call,
}

impl Point {
    /// Whether a callback that runs there each time may panic each time: not where the language
    /// ends the process for that.
    pub(crate) fn may(self, bad: Bad) -> bool {
        bad != Bad::Panic || matches!(self, Point::Wake | Point::Call)
    }
}

type Action = Box<dyn FnMut() + Send>;

pub(crate) struct Trap {
    point: Point,
    bad: Bad,
    /// How often yet.
    armed: AtomicUsize,
    reenter: Mutex<Option<Action>>,
    held: Mutex<Vec<Box<dyn Send>>>,
    myself: Mutex<Option<Myself>>,
}

impl Trap {
    pub(crate) fn new(point: Point, bad: Bad, myself: &Myself) -> &'static Trap {
        let myself = Mutex::new(Some(myself.clone()));
        let armed = AtomicUsize::new(0);
        Box::leak(Box::new(Trap {
            point,
            bad,
            armed,
            reenter: Mutex::default(),
            held: Mutex::default(),
            myself,
        }))
    }

    /// One that does nothing.
    pub(crate) fn idle() -> &'static Trap {
        Trap::new(Point::Call, Bad::Waits, &Myself::default())
    }

    /// The user of the object, if that is the bad effect.
    pub(crate) fn reenters(&self, action: impl FnMut() + Send + 'static) {
        if self.bad == Bad::Reenters {
            *self.reenter.lock().unwrap() = Some(Box::new(action));
        }
    }

    /// The owner of the object, if that is the bad effect.
    pub(crate) fn holds(&self, held: impl Send + 'static) {
        if self.bad == Bad::Drops {
            self.held.lock().unwrap().push(Box::new(held));
        }
    }

    /// The owner of the object. The callback is to drop it if that is the bad effect; otherwise it
    /// stays with the caller.
    pub(crate) fn lends<T: Send + 'static>(&self, held: T) -> Option<T> {
        if self.bad == Bad::Drops {
            self.holds(held);
            None
        } else {
            Some(held)
        }
    }

    pub(crate) fn is_at(&self, point: Point) -> bool {
        self.point == point
    }

    pub(crate) fn does(&self, bad: Bad) -> bool {
        self.bad == bad
    }

    pub(crate) fn arm(&self) {
        self.armed.store(
            if self.bad == Bad::Panic {
                usize::MAX
            } else {
                1
            },
            SeqCst,
        );
    }

    /// From here on it does nothing, and keeps nothing.
    pub(crate) fn disarm(&self) {
        self.armed.store(0, SeqCst);
        let reenter = self.reenter.lock().unwrap().take();
        drop(reenter);
        self.drop_held();
        *self.myself.lock().unwrap() = None;
    }

    fn drop_held(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        drop(held);
    }

    /// The program's code is called here.
    pub(crate) fn at(&self, point: Point) {
        let is_due = point == self.point
            && self
                .armed
                .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
                .is_ok();
        if !is_due {
            return;
        }
        match self.bad {
            Bad::Panics | Bad::Panic => panic!("expected: a callback that panics"),
            Bad::Reenters => {
                let action = self.reenter.lock().unwrap().take();
                if let Some(mut action) = action {
                    action();
                }
            }
            Bad::Drops => self.drop_held(),
            Bad::Aborts => {
                let myself = self.myself.lock().unwrap().clone();
                if let Some(myself) = myself {
                    myself.abort();
                }
            }
            Bad::Waits if std::thread::panicking() => {}
            Bad::Waits => umcg::sleep(Duration::from_micros(50)),
        }
    }

    /// A waker that is a trap, and counts its calls.
    pub(crate) fn waker(&'static self) -> (Waker, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let data = Arc::into_raw(Arc::new(TrapWaker {
            trap: self,
            calls: calls.clone(),
        }))
        .cast();
        // SAFETY: the table keeps the contract: it is thread-safe, and counts.
        (
            unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) },
            calls,
        )
    }
}

struct TrapWaker {
    trap: &'static Trap,
    calls: Arc<AtomicUsize>,
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// # Safety
/// Of a waker of the table's, which is used up.
unsafe fn take(data: *const ()) -> Arc<TrapWaker> {
    // SAFETY: by the contract.
    unsafe { Arc::from_raw(data.cast::<TrapWaker>()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: of a waker that lives.
    let waker = unsafe { &*data.cast::<TrapWaker>() };
    waker.trap.at(Point::CloneWaker);
    // SAFETY: likewise.
    unsafe { Arc::increment_strong_count(data.cast::<TrapWaker>()) };
    RawWaker::new(data, &TABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: used up by this.
    let waker = unsafe { take(data) };
    waker.calls.fetch_add(1, SeqCst);
    waker.trap.at(Point::Wake);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: of a waker that lives.
    let waker = unsafe { &*data.cast::<TrapWaker>() };
    waker.calls.fetch_add(1, SeqCst);
    waker.trap.at(Point::Wake);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: used up by this.
    let waker = unsafe { take(data) };
    waker.trap.at(Point::DropWaker);
}
