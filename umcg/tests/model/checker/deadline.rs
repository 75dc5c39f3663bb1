//! Deadlines: a timer is a thread that unparks at a time of its own choice, under the lock that it
//! is disarmed under.

use crate::rt::base::clock::now;
use crate::rt::engine::server;
use crate::rt::task;
use crate::rt::wait::{self, park};
use shuttle::sync::Mutex;
use std::sync::Arc;

pub(crate) fn with_deadline(deadline: u64, f: impl FnOnce(u64) -> bool) -> bool {
    let Some(running) = server::running() else {
        return f(deadline);
    };
    let task = running.task();
    let armed = Arc::new(Mutex::new(true));
    let timer = armed.clone();
    shuttle::thread::spawn(move || {
        let mut armed = timer.lock().unwrap();
        if std::mem::replace(&mut *armed, false) {
            park::wake(task);
        }
    });
    f(deadline);
    std::mem::replace(&mut *armed.lock().unwrap(), false)
}

/// Disarms it when dropped.
pub(crate) struct Alarm(Arc<Mutex<bool>>);

impl Drop for Alarm {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = false;
    }
}

/// A thread that revokes the caller's wait when its time has come.
pub(crate) fn alarm(_: &mut std::mem::MaybeUninit<()>, deadline: u64) -> Option<Alarm> {
    let task = task::current_worker()
        .or_else(task::current_at_home)
        .filter(|_| deadline != u64::MAX)?;
    let armed = Arc::new(Mutex::new(true));
    let timer = armed.clone();
    shuttle::thread::spawn(move || {
        while *timer.lock().unwrap() {
            if now() >= deadline {
                // Outside of the lock, as the library's: it may come too late.
                return wait::revoke(task);
            }
            shuttle::thread::yield_now();
        }
    });
    Some(Alarm(armed))
}
