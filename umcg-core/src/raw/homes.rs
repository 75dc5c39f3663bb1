//! Homes that outlive their threads: the kernel thread of an adopted worker that has ended waits,
//! asleep, for the next worker.
//!
//! The functions of [`Worker`] are for the party with the right to run the worker, but for
//! [`Worker::ask_to_stay`], [`Worker::leave_to_kernel`] and [`Worker::home_tid`]. The others are
//! for any party.

use super::Worker;
use crate::umcg::addressee::{self, SentBy};
use crate::umcg::adopted;
use crate::umcg::homes::{self, HomeStart};
use crate::umcg::stay::NativeReason;

impl Worker {
    /// The worker has ended, and its home rests. False if the home is to be retired. Touches no
    /// thread-local storage.
    ///
    /// # Safety
    /// The worker is an adopted one, and away; the caller has the right to run it, and never will.
    pub unsafe fn rest(self) -> bool {
        homes::rest(self.0)
    }

    /// Page faults of the worker keep its server. If it is an adopted one, it goes home when it is
    /// preempted or next has its [signals](super::Adopted::has_signal) looked at, and stays for
    /// some time. Called by any party.
    pub fn ask_to_stay(self) {
        adopted::ask_to_stay(self.0);
    }

    /// Leaves the worker, which is adopted, to the kernel from now on, for this reason; or not for
    /// this one any more. It goes home as by [`ask_to_stay`](Self::ask_to_stay), and stays there as
    /// long as there is a reason. True if it has to go home for that. Called by any party.
    pub fn leave_to_kernel(self, reason: NativeReason, is_so: bool) -> bool {
        adopted::leave_to_kernel(self.0, reason, is_so)
    }

    /// The tid of its home.
    pub fn home_tid(self) -> u32 {
        self.0.node.tid()
    }

    /// Whether [`mark_home`] has said that what its children inherit is changed. For an adopted
    /// worker.
    pub fn is_changed(self) -> bool {
        homes::is_changed(self.0)
    }

    /// Takes a home that rests. False if it is to be retired.
    ///
    /// # Safety
    /// The caller has the right to run the worker, whose home rests.
    pub unsafe fn take_home(self) -> bool {
        homes::take(self.0)
    }

    /// Makes a new worker at a home that was taken.
    ///
    /// # Safety
    /// As [`Worker::take_home`], which has returned true. Nothing uses the storage and the stack
    /// yet.
    pub unsafe fn begin_again(self, start: &HomeStart) {
        // SAFETY: passed on.
        unsafe { homes::begin(self.0, start) };
    }

    /// Ends the kernel thread of a home that rests. Touches no thread-local storage.
    ///
    /// # Safety
    /// The caller has the right to run the worker, and gives it up.
    pub unsafe fn retire_home(self) {
        homes::retire(self.0);
    }
}

/// Marks the home with this tid, so that it is retired when its worker ends. None if no adopted
/// worker has it; else whether it rests, so that no thread has it. `changes`: what its worker's
/// children inherit, see [`Worker::is_changed`].
pub fn mark_home(tid: u32, changes: bool) -> Option<bool> {
    homes::mark(tid, changes)
}

/// The adopted worker whose home has this tid.
pub fn worker_at_home(tid: u32) -> Option<Worker> {
    homes::worker_at(tid).map(Worker)
}

/// Makes the home with this tid, if there is one, look for all signals that its worker wants, if
/// that is away.
pub fn tell_home(tid: u32) {
    homes::tell_home(tid);
}

/// The same before a signal is sent to the home: it is to be handled as it would be now.
pub fn announce(tid: u32, number: std::ffi::c_int) {
    homes::announce(tid, number);
}

/// The same once it was sent: a worker that may let it through comes home before it sees what the
/// caller does next. Returns the worker: if a server runs it, it is to be preempted.
pub fn call_home(tid: u32, number: std::ffi::c_int) -> Option<Worker> {
    homes::call_home(tid, number).map(Worker)
}

/// Whether the home with this tid has a worker that is away, and lets the signal through.
pub fn is_away_for(tid: u32, number: std::ffi::c_int) -> bool {
    homes::is_away_for(tid, number)
}

/// Sends a signal, which a handler has got on another kernel thread, to the one with this tid.
pub fn pass_on(tid: u32, number: std::ffi::c_int, information: *const libc::siginfo_t) {
    homes::pass_on(tid, number, information);
}

/// Notes that the program is about to send this signal to one thread: it waits there if it is
/// blocked.
pub fn note_addressee(number: std::ffi::c_int, by: SentBy) {
    addressee::note(number, by);
}

/// Whether this is the tid of a home that rests.
pub fn home_rests(tid: u32) -> bool {
    homes::rests(tid)
}

/// Returns once the home with this tid, if there is one, has the storage of its worker. Handlers of
/// the C library's may run there afterwards.
pub fn settle_storage(tid: u32) {
    homes::settle_storage(tid);
}

/// Frees the resources of homes that have been retired. Returns how many have not ended yet.
pub fn reclaim_homes() -> usize {
    homes::reclaim()
}
