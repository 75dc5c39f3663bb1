//! The global runtime, for callers in no other: started when it is first needed, with a server for
//! each CPU, and never ended.

use super::owner::Runtime;
use crate::Error;
use crate::io::driver::pool::forks;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// The runtime, and the process in which it was started. A child of a fork has none of its servers,
/// and starts its own.
static GLOBAL: AtomicPtr<Global> = AtomicPtr::new(null_mut());

struct Global {
    runtime: Runtime,
    forks: u32,
}

/// The global runtime. Starts it if it has not been started.
///
/// # Panics
/// If it cannot be started: no memory or no threads.
pub fn global() -> &'static Runtime {
    match try_global() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the global runtime could not be started: {error}"),
    }
}

fn try_global() -> Result<&'static Runtime, Error> {
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = started() {
        return Ok(runtime);
    }
    let _starting = STARTING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(runtime) = started() {
        return Ok(runtime);
    }
    let runtime = Runtime::new()?;
    let global = Box::leak(Box::new(Global {
        runtime,
        forks: forks(),
    }));
    // ORDERING(global.1): Release, pairs with global.2: a thread that finds the runtime sees all of
    // it.
    GLOBAL.store(global, Release);
    Ok(&global.runtime)
}

fn started() -> Option<&'static Runtime> {
    // ORDERING(global.2): Acquire, pairs with global.1.
    // SAFETY: null, or leaked.
    let global = unsafe { GLOBAL.load(Acquire).as_ref() }?;
    (global.forks == forks()).then_some(&global.runtime)
}

/// The caller's runtime if the caller is a worker, else the global one.
///
/// # Errors
/// The global runtime is needed and cannot be started.
pub(crate) fn shared_of_caller() -> Result<&'static RuntimeState, Error> {
    match server::current_task() {
        Some(task) => Ok(RuntimeState::of(task)),
        None => Ok(try_global()?.shared()),
    }
}
