//! Synchronisation, for workers and kernel threads alike.
//!
//! Everything here stands on one protocol of waiting (docs/protocols/wait.md). The longest waiter
//! is served first, unless a type says otherwise. A later caller cannot take what a waiter was
//! served. A wait that is cancelled, or ended by its deadline, has taken nothing.

mod any;
mod barrier;
mod condvar;
mod event;
#[doc(hidden)]
pub mod ffi;
pub(crate) mod gate;
pub(crate) mod joint;
mod mutex;
mod objects;
mod once;
mod once_lock;
mod rwlock;
mod semaphore;
mod wait_group;

pub use any::{acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any};
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::{Event, Waiting};
pub use mutex::{ArcMutexGuard, Locking, MappedMutexGuard, Mutex, MutexGuard, RawMutex, locking};
pub use objects::{
    Object, try_wait_all, try_wait_any, wait_all, wait_all_deadline, wait_all_timeout, wait_any,
    wait_any_deadline, wait_any_timeout,
};
pub use once::Once;
pub use once_lock::{LazyLock, OnceLock};
pub use rwlock::{
    ArcRwLockReadGuard, ArcRwLockWriteGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard,
    RawRwLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
pub use semaphore::{
    AcquireError, Acquiring, Closed, Overflow, Permit, Semaphore, TryAcquireError,
};
pub use wait_group::{Doing, WaitGroup};

use crate::rt::spin::Spin;

/// The lock of all joint waits.
fn joint_lock() -> &'static Spin<()> {
    static LOCK: Spin<()> = Spin::new(());
    &LOCK
}
