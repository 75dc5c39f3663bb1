//! The runtime of whoever has no other: started when it is first needed, with a server for each CPU, and never ended.

use super::builder::Runtime;
use super::runtime::Shared;
use super::server;
use crate::Error;
use crate::io::driver::Driver;
use std::io;
use std::sync::{Mutex, OnceLock};

static GLOBAL: OnceLock<Runtime> = OnceLock::new();

/// The global runtime; starts it if nobody has.
///
/// # Panics
/// When it cannot be started: no memory or no threads.
pub fn global() -> &'static Runtime {
    match try_global() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the global runtime could not be started: {error}"),
    }
}

fn try_global() -> Result<&'static Runtime, Error> {
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = GLOBAL.get() {
        return Ok(runtime);
    }
    let _starting = STARTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match GLOBAL.get() {
        Some(runtime) => Ok(runtime),
        None => {
            let runtime = Runtime::new()?;
            Ok(GLOBAL.get_or_init(|| runtime))
        }
    }
}

/// The runtime that the caller is a worker of, or the global one.
pub(crate) fn shared_of_caller() -> &'static Shared {
    match server::current_task() {
        Some(task) => task.shared(),
        None => global().shared(),
    }
}

/// Calls `f` with the driver of that.
pub(crate) fn with_driver<R>(f: impl FnOnce(&Driver) -> R) -> io::Result<R> {
    let shared = match server::current_task() {
        Some(task) => task.shared(),
        None => try_global().map_err(io::Error::from)?.shared(),
    };
    Ok(f(&shared.driver))
}
