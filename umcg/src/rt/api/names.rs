//! Names of workers in the messages of panics.
//!
//! The standard library prints the name of the thread, which a worker is not. So the first worker
//! with a name puts a line before the message, by a hook around the one that there is. A hook that
//! the program sets later takes the place of both; it can ask for the name
//! ([`current_name`]).

use crate::rt::base::sync::Hold;
use crate::{NotAWorker, critical, current_name};
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use umcg_core::raw::Worker;

/// Has panics of workers with names say these.
#[cold]
pub(crate) fn tell_in_panics() {
    static ONCE: Once = Once::new();
    // A thread that panics may not set one; the next name does.
    if std::thread::panicking() {
        return;
    }
    // Preempted in there, a worker would have all others of its server that have names wait in
    // vain.
    let _hold = Hold::begin();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if let Some(name) = current_name() {
                // The lock of standard error is not left to others that preempt the worker.
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
