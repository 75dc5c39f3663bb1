//! Worker-locals under keys that are made while the program runs.
//!
//! A worker has one worker-local of Rust's with all its values; a plain thread has one pthread key
//! with the same. Unlike a `thread_local!`, the destructors that run at the thread's end can use a
//! pthread key again.

use super::worker::guarded;
use crate::answer::answer;
use crate::object::with as with_key;
use libc::{ENOMEM, c_int};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use umcg::rt::ffi;
use umcg_core::{Granted, granted};

type Destructor = extern "C-unwind" fn(*mut c_void);

/// `umcg_local_t`. Never freed.
pub(super) struct LocalKey {
    destructor: Option<Destructor>,
}

struct LocalValue {
    key: &'static LocalKey,
    value: *mut c_void,
}

/// The values of one worker or thread.
#[derive(Default)]
struct LocalValues(RefCell<Vec<LocalValue>>);

umcg::worker_local! {
    static VALUES: LocalValues = LocalValues::default();
}

impl LocalValues {
    fn get(&self, key: &'static LocalKey) -> *mut c_void {
        let values = self.0.borrow();
        values
            .iter()
            .find(|value| std::ptr::eq(value.key, key))
            .map_or(null_mut(), |value| value.value)
    }

    /// None: no memory.
    fn set(&self, key: &'static LocalKey, new: *mut c_void) -> Option<()> {
        let mut values = self.0.borrow_mut();
        match values.iter_mut().find(|value| std::ptr::eq(value.key, key)) {
            Some(value) => value.value = new,
            None => {
                values.try_reserve(1).ok()?;
                values.push(LocalValue { key, value: new });
            }
        }
        Some(())
    }
}

impl Drop for LocalValues {
    fn drop(&mut self) {
        for LocalValue { key, value } in self.0.take().into_iter().rev() {
            if let Some(destructor) = key.destructor.filter(|_| !value.is_null()) {
                guarded(|| destructor(value));
            }
        }
    }
}

/// Calls `f`, which does not switch, with the caller's values. None when there is no memory or
/// pthread key for them.
fn with<R>(f: impl FnOnce(&LocalValues) -> R) -> Option<R> {
    if ffi::is_worker() {
        Some(VALUES.with(f))
    } else {
        of_thread().map(f)
    }
}

unsafe extern "C" fn drop_values(values: *mut c_void) {
    // SAFETY: the value that `of_thread` gave the key.
    drop(unsafe { Box::from_raw(values.cast::<LocalValues>()) });
}

fn of_thread<'a>() -> Option<&'a LocalValues> {
    static KEY: Granted<libc::pthread_key_t> = Granted::new();
    let make = || {
        let mut key = 0;
        // SAFETY: writes the key.
        granted(unsafe { libc::pthread_key_create(&mut key, Some(drop_values)) }).map(|()| key)
    };
    let key = *KEY.get_or_ask(make).ok()?;
    // SAFETY: the key is ours.
    let mut values = unsafe { libc::pthread_getspecific(key) }.cast::<LocalValues>();
    if values.is_null() {
        values = Box::into_raw(Box::default());
        // SAFETY: likewise.
        if unsafe { libc::pthread_setspecific(key, values.cast()) } != 0 {
            // SAFETY: made just above.
            drop(unsafe { Box::from_raw(values) });
            return None;
        }
    }
    // SAFETY: the thread's own, until its end.
    Some(unsafe { &*values })
}

#[unsafe(no_mangle)]
extern "C" fn umcg_local_create(destructor: Option<Destructor>) -> *const LocalKey {
    let mut place = Vec::new();
    answer(place.try_reserve_exact(1).map_err(|_| ENOMEM).map(|()| {
        place.push(LocalKey { destructor });
        place.leak().as_ptr()
    }))
}

/// # Safety
/// `key` is null or came from `umcg_local_create`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_local_get(key: *const LocalKey) -> *mut c_void {
    let get = |key| with(|values| values.get(key)).unwrap_or(null_mut());
    // SAFETY: passed on; keys are never freed.
    unsafe { with_key(key, get) }
}

/// # Safety
/// As `umcg_local_get`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_local_set(key: *const LocalKey, value: *mut c_void) -> c_int {
    let set = |key| {
        with(|values| values.set(key, value))
            .flatten()
            .ok_or(ENOMEM)
    };
    // SAFETY: passed on; keys are never freed.
    unsafe { with_key(key, set) }
}
