//! The names of the library's `rt::sync`, as the checker has them.

use shuttle::rand::Rng;
#[allow(unused_imports, reason = "as many as the sources want")]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use shuttle::sync::{Mutex, MutexGuard};

/// Nothing: to the checker every atomic operation is sequentially consistent. `tso` shows that
/// fences are needed, and enough.
pub(crate) fn light() {}

/// As [`light`].
pub(crate) fn heavy() {}

pub(crate) fn init() -> bool {
    true
}

/// A checker that has found something may unwind from anywhere.
pub(crate) struct Firm;

impl Firm {
    pub(crate) fn end(self) {}
}

/// There is no preemption here.
pub(crate) struct Hold;

impl Hold {
    pub(crate) fn begin() -> Hold {
        Hold
    }
}

/// Varies, so that not too much time is spent on looking.
pub(crate) fn is_alone() -> bool {
    shuttle::rand::thread_rng().gen_bool(0.75)
}

/// So few that giving up happens often.
pub(crate) const TRIES: usize = 2;

pub(crate) fn spin() {
    shuttle::thread::yield_now();
}

pub(crate) fn give_way() {
    shuttle::thread::yield_now();
}

pub(crate) fn give_way_briefly() {
    shuttle::thread::yield_now();
}

pub(crate) struct HoldLock<T>(Mutex<T>);

impl<T> HoldLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}
