//! The names of the library's `rt::sync` that are the checker's.

use shuttle::rand::Rng;
#[allow(unused_imports, reason = "as many as the sources want")]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use shuttle::sync::{Mutex, MutexGuard};

pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Nothing: to the checker every atomic operation is sequentially consistent. `tso` shows that
/// fences are needed, and enough.
pub(crate) fn light() {}

/// As [`light`].
pub(crate) fn heavy() {}

pub(crate) fn init() -> bool {
    true
}

/// Now so, now so: not too much time goes into looking.
pub(crate) fn is_alone() -> bool {
    shuttle::rand::thread_rng().gen_bool(0.75)
}

/// So few that giving up happens often.
pub(crate) const TRIES: usize = 2;

pub(crate) fn spin() {
    shuttle::thread::yield_now();
}

/// Nothing comes of time.
pub(crate) fn pause(_times: u32) {}

pub(crate) fn pause_for(_nanos: u64) {}

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
