//! Names of workers in the messages of panics.
//!
//! The standard library prints the name of the thread, but a worker is not a thread. So the first
//! worker with a name installs a panic hook around the existing one. It puts a line before the
//! message. A hook that the program sets later replaces both; it can ask for the name
//! ([`current_name`]).

use crate::rt::base::sync::Hold;
use crate::{NotAWorker, critical, current_name};
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use umcg_core::raw::Worker;

/// Makes panics of workers with names print these names.
#[cold]
pub(crate) fn tell_in_panics() {
    static ONCE: Once = Once::new();
    // A thread that panics must not set a hook. The next name sets it.
    if std::thread::panicking() {
        return;
    }
    // If the worker were preempted in there, all other workers of its server that have names would
    // wait in vain.
    let _hold = Hold::begin();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if let Some(name) = current_name() {
                // Holding the lock of standard error, the worker must not be preempted by others.
                critical(|| eprintln!("\nin worker `{name}`:"));
            }
            before(panic);
        }));
    });
}

/// Names the calling worker, for messages and dumps. A panic's message is preceded by the name.
///
/// # Errors
/// [`NotAWorker`].
pub fn set_name(name: &str) -> Result<(), NotAWorker> {
    let worker = Worker::current().ok_or(NotAWorker)?;
    worker.set_name(name);
    tell_in_panics();
    Ok(())
}
