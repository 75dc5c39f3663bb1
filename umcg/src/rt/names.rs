//! Names of workers in the messages of panics.
//!
//! The standard library prints the name of the thread, which a worker is not. So the first worker
//! with a name puts a line before the message, by a hook around the one that there is. A hook that
//! the program sets later takes the place of both; it can ask for the name
//! ([`current_name`](crate::current_name)).

use super::sync::Hold;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

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
            if let Some(name) = crate::current_name() {
                // The lock of standard error is not left to others that preempt the worker.
                crate::critical(|| eprintln!("\nin worker `{name}`:"));
            }
            before(panic);
        }));
    });
}
