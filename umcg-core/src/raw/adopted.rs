//! Adopted threads: pthreads that are workers without knowing it. They begin at home, and leave it
//! only when they wait. Signals reach them wherever they are.
//!
//! At home a worker is *open*, and the kernel has its signal mask; or *closed*, and the kernel
//! thread blocks all signals. It comes home closed. The caller opens by giving the kernel
//! [`Adopted::opening_mask`] and calling [`Adopted::note_open`].

use super::{Group, Reservation, RunningWorker, Worker};
use crate::umcg::{adopt, adopted, carry};
use rustix::io::Errno;

/// An adopted worker, the caller.
#[derive(Clone, Copy, Debug)]
pub struct Adopted(&'static crate::umcg::worker::Worker);

/// Called with a worker that has left home, on another stack, with the worker's storage: it touches
/// no thread-local storage, and does not unwind. It returns true if it has given the right to run
/// the worker to another party. Otherwise the worker goes on at home.
pub type LeaveStep = fn(Worker) -> bool;

impl Adopted {
    /// Adopts the calling pthread, at home and open. `id` is as for any worker of the group.
    ///
    /// # Errors
    /// `ENOSYS`: threads do not move here. `ENOMEM`: no memory or stack.
    ///
    /// # Safety
    /// The caller has no role. Its end is announced by [`Adopted::end`].
    pub unsafe fn adopt(group: Group, id: u64) -> Result<Adopted, Errno> {
        adopt::adopt(Reservation::new()?.0, group.0, id).map(Adopted)
    }

    /// The caller, if it is an adopted worker at home.
    #[inline]
    pub fn at_home() -> Option<Adopted> {
        adopted::at_home().map(Adopted)
    }

    /// The caller, if it is an adopted worker, at home or away.
    #[inline(always)]
    pub fn current() -> Option<Adopted> {
        adopted::current().map(Adopted)
    }

    /// The worker.
    #[inline]
    pub fn worker(self) -> Worker {
        Worker(self.0)
    }

    /// The tid of its home thread.
    pub fn tid(self) -> u32 {
        self.0.node.tid()
    }

    /// Leaves home: saves the caller's context, and calls `step`. Returns true when a server runs
    /// the caller, or false if the step has declined; then the caller is at home, closed. Switches.
    ///
    /// # Safety
    /// The caller is this worker, at home. `step` is as [`LeaveStep`] says.
    #[inline]
    pub unsafe fn leave(self, step: LeaveStep) -> bool {
        // SAFETY: a worker and a reference to one are the same in memory.
        let step = unsafe { std::mem::transmute::<LeaveStep, adopted::HomeStep>(step) };
        adopted::leave(self.0, step)
    }

    /// Lets the caller, which a server runs, go on at home, closed. Switches.
    ///
    /// # Safety
    /// The caller has not switched since [`RunningWorker::here`], and is an adopted worker.
    pub unsafe fn go_home(running: RunningWorker) {
        adopted::go_home(running.inside, running.server);
    }

    /// Whether the caller stays at home for some time, as [`Worker::ask_to_stay`] has asked: then
    /// it waits as a plain thread.
    #[inline(always)]
    pub fn stays(self) -> bool {
        adopted::stays(self.0)
    }

    /// The caller, which stays at home, is about to wait. If its time is over, it stays no more.
    pub fn end_stay_if_over(self) {
        adopted::end_stay_if_over(self.0);
    }

    /// Whether the caller is away, or at home and closed.
    #[inline]
    pub fn is_closed(self) -> bool {
        adopted::is_closed(self.0)
    }

    /// The mask to give to the kernel at home.
    pub fn opening_mask(self) -> u64 {
        adopted::opening_mask(self.0)
    }

    /// The kernel has the mask.
    pub fn note_open(self) {
        adopted::note_open(self.0);
    }

    /// A handler of signals has closed. `mask` is the worker's mask.
    pub fn note_closed(self, mask: u64) {
        adopted::note_closed(self.0, mask);
    }

    /// The worker's signal mask, while it is closed.
    pub fn mask(self) -> u64 {
        adopted::mask(self.0)
    }

    /// Sets the worker's signal mask, while it is closed.
    pub fn set_mask(self, mask: u64) {
        adopted::set_mask(self.0, mask);
    }

    /// The same, away, without a word to the home until [`Adopted::tell`].
    pub fn set_mask_untold(self, mask: u64) {
        adopted::set_mask_untold(self.0, mask);
    }

    /// Makes the home look for all signals that the worker, which is away, wants. Called by any
    /// party.
    pub fn tell(self) {
        adopted::tell(self.0);
    }

    /// Whether one of these signals, which the caller has blocked, may wait at home: the home was
    /// not looking for it all the time, or has found one. The caller is away.
    pub fn may_have_come(self, signals: u64) -> bool {
        adopted::may_have_come(self.0, signals)
    }

    /// Whether the home looks for no signal, and has found none. The caller is away.
    pub fn looks_for_none(self) -> bool {
        adopted::looks_for_none(self.0)
    }

    /// Whether the caller is away: a server runs it.
    #[inline(always)]
    pub fn is_away(self) -> bool {
        !self.0.is_blocked()
    }

    /// Whether the caller is at home and closed, or away and has to go home: a signal calls it, or
    /// it was asked to ([`Worker::ask_to_stay`], [`call_home`](super::call_home)).
    #[inline(always)]
    pub fn has_signal(self) -> bool {
        adopted::has_signal(self.0)
    }

    /// Whether one of these signals was sent, or sent again, to the home of the caller, which is
    /// there, after it had come when the program had a handler for it. It counts as delivered.
    pub fn take_kept(self, signals: u64) -> bool {
        adopted::take_kept(self.0, signals)
    }

    /// Makes the caller, which is at home, a plain thread again.
    ///
    /// # Safety
    /// The caller is this worker, and no queue has it.
    pub unsafe fn end(self) {
        adopt::end(self.0);
    }
}

/// Waits for a worker that a signal calls home, and returns it; none if [`rouse_courier`] was
/// called, or the deadline has passed: nanoseconds of CLOCK_MONOTONIC, `u64::MAX` for none. One
/// thread of the process calls this.
pub fn next_called(deadline: u64) -> Option<Worker> {
    adopted::next_called(deadline).map(Worker)
}

/// Notes whether the program has a handler for the signal from now on. Before that it has none.
pub fn note_handled(number: std::ffi::c_int, has_handler: bool) {
    adopted::note_handled(number, has_handler);
}

/// Makes [`next_called`] return. Async-signal-safe.
pub fn rouse_courier() {
    adopted::rouse_courier();
}

/// For a handler of a fault: lets the interrupted flow go home and repeat its instruction, if it is
/// an adopted worker's own code on a server. False if it is not, or if there is no room.
///
/// # Safety
/// Called in a handler of a signal, with the context that the kernel has passed to it.
pub unsafe fn carry_home(context: *mut std::ffi::c_void) -> bool {
    // SAFETY: passed on.
    unsafe { carry::home(context) }
}

/// Sends a signal that a handler has got to the same kernel thread again, which blocks it: before
/// all others of its number. Async-signal-safe.
pub fn requeue(number: std::ffi::c_int, information: *const libc::siginfo_t) {
    adopted::send_again(number, information);
}

/// Sends to the process the signals that had come to it and wait for the calling adopted thread,
/// which is at home, is about to end, and blocks them.
pub fn give_back_signals() {
    adopted::give_back_own_signals();
}
