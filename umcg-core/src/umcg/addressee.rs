//! To which party a signal was sent: to one thread, or to the process.
//!
//! The kernel does not tell: of signals to one thread, those of tgkill(2) alone have a code of
//! their own. So the numbers are noted that the program sends to threads in other ways. A number
//! that it sends to threads and to the process in the same way counts as the threads'.

use super::adoption::process;
use crate::os::signal::only;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A way to send a signal to one thread.
#[derive(Clone, Copy, Debug)]
pub enum SentBy {
    /// rt_tgsigqueueinfo(2).
    Queue,
    /// A timer that names a thread (SIGEV_THREAD_ID).
    Timer,
}

static QUEUED: AtomicU64 = AtomicU64::new(0);
static TIMED: AtomicU64 = AtomicU64::new(0);

/// Notes that the program is about to send such signals to a thread.
pub(crate) fn note(number: c_int, by: SentBy) {
    if (1..=64).contains(&number) {
        let numbers = match by {
            SentBy::Queue => &QUEUED,
            SentBy::Timer => &TIMED,
        };
        numbers.fetch_or(only(number), Relaxed);
    }
}

/// Whether a signal with this information was sent to one thread.
pub(super) fn is_one_thread(information: &libc::siginfo_t) -> bool {
    let is_noted = |numbers: &AtomicU64| numbers.load(Relaxed) & only(information.si_signo) != 0;
    match information.si_code {
        libc::SI_TKILL => true,
        libc::SI_TIMER => is_noted(&TIMED),
        libc::SI_QUEUE => {
            // SAFETY: a signal of this code has a sender.
            let sender = unsafe { information.si_pid() };
            // Other processes send to the process.
            is_noted(&QUEUED) && sender as usize == process()
        }
        _ => false,
    }
}
