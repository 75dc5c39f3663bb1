//! Workers that are stuck: the kernel keeps them, and their server with them, in a place where
//! nothing announces it, as in a page fault on a slow mapping.
//!
//! A *looker*, a thread of the layer above, finds the kernel thread of a server asleep in the midst
//! of a turn, and asks for the worker to be taken off. The steps:
//!
//! ```text
//!   looker    reserves a helper, if the worker is a light one; notes the turn; interrupts the thread
//!   handler   still that turn, and the worker's own code: leaves with BLOCK, within the handler
//!   helper    (or the home) returns from the handler: the instruction, or the call, is repeated,
//!             and waits there. The frame says that one step is to be made
//!   trap      after the step: the scope ends with WAKE, within the trap's handler, and a server
//!             runs the worker again
//! ```
//!
//! - The worker has its own identity meanwhile, as in a blocking scope: a thread worker faults at
//!   home.
//! - Both handlers run on the worker's stack, and are left on another kernel thread than they were
//!   entered on: the frame is made to restore the thread that it is left on.
//! - A worker that may have a lock of a runtime's (malloc's, above all) stays, as with preemption
//!   ([`callers`](crate::os::signal::callers)): once it can go on it would wait for a server, and the
//!   servers for the lock. In a system call it has none but the loader's, and in a function that
//!   copies memory none either.
//! - The tick's signal makes calls begin anew that can be restarted. The looker asks for no others.
//!
//! Model of the request and the helper: `umcg-core/tests/model/taken_off`.
//!
//! Rejected: giving the server's context to a spare thread while the worker stays in the kernel.
//! Then each switch would need a locked operation, to find out whose the server is.

use super::idle::EventKind;
use super::preempt::{self, STUCK, StuckHandler};
use super::server::Server;
use super::tick::{SIGNAL, Tick, errno_place};
use super::worker::{Carrier, Inside, Worker};
use super::{Role, blocking, helper, role_beneath, thread};
use crate::os::signal::{self, Frame};
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;

/// A helper that is reserved is not needed after all.
fn give_back(tick: &Tick) {
    if tick.stuck.take_helper() {
        helper::POOL.came_back();
    }
}

/// The worker of this turn is stuck in the kernel: asks it to leave the server with BLOCK. Called
/// by one thread at a time.
pub(crate) fn ask(server: &'static Server, turn: u64) {
    STUCK.get_or_init(|| &TakeOff);
    let Some(worker) = server.current.see() else {
        return;
    };
    let tick = preempt::tick_of(worker, server);
    if preempt::install_handler().is_ok() && prepare(worker, tick) {
        tick.stuck.ask(turn);
        preempt::signal_thread(tick.tid.load(Relaxed));
    }
}

/// Gives back the helper of a request whose turn was over before the signal came. Called by the
/// thread that [`ask`]s, before it asks again.
pub(crate) fn settle(server: &'static Server) {
    // Those that need a helper run on the server's own kernel thread.
    let tick = &server.tick;
    let turn = server.turns.load(Relaxed);
    if tick.stuck.is_over(turn, server.current.see().is_some()) {
        give_back(tick);
    }
}

/// Reserves what the worker needs to be taken off. False if that is impossible.
fn prepare(worker: &Worker, tick: &Tick) -> bool {
    match worker.carrier() {
        Carrier::Moving | Carrier::Staying => true,
        Carrier::Owning => {
            tick.stuck.has_helper()
                || helper::POOL.reserve() && {
                    tick.stuck.add_helper();
                    true
                }
        }
        Carrier::Sharing => false,
    }
}

/// The steps in the handler of the tick.
struct TakeOff;

impl StuckHandler for TakeOff {
    fn stay(&self, tick: &Tick) {
        give_back(tick);
    }

    fn leave(&self, inside: Inside, server: &'static Server, tick: &Tick, frame: &mut Frame) {
        let worker = inside.0;
        let needs_helper = worker.carrier() == Carrier::Owning;
        let is_ready = match worker.carrier() {
            Carrier::Moving | Carrier::Staying => true,
            Carrier::Owning => tick.stuck.has_helper(),
            Carrier::Sharing => false,
        };
        let in_scope = worker.blocking.load(Relaxed) != 0;
        if !is_ready || in_scope || !frame.set_single_step(true) {
            return give_back(tick);
        }
        if needs_helper {
            // From here on it is the worker's: nothing keeps that from leaving.
            tick.stuck.take_helper();
        }
        leave(inside, server, frame);
    }
}

fn leave(inside: Inside, server: &'static Server, frame: &mut Frame) {
    let worker = inside.0;
    // SAFETY: errno of the storage that this runs with, which is the worker's own.
    let errno = unsafe { *errno_place() };
    signal::set_mask(frame.mask());
    worker.blocking.store(1, Relaxed);
    worker.steps.store(true, Relaxed);
    // SAFETY: the caller is the worker, running, inside. Its server sends it home, or to the helper
    // that is reserved, where this returns.
    unsafe { worker.leave(server, EventKind::Block, None) };
    thread::came_home(worker);
    let mask = signal::block(signal::only(SIGNAL));
    // SAFETY: as above.
    unsafe { *errno_place() = errno };
    frame.adopt_thread(mask & !signal::only(libc::SIGTRAP));
    drop(inside);
}

/// In a handler of SIGTRAP: if the trap ends the step of a worker that was stuck, ends the worker's
/// scope, and returns true when a server runs the worker.
///
/// # Safety
/// `context` is the handler's third argument. The handler was entered with `SA_NODEFER`, and not on
/// an alternate stack.
pub(crate) unsafe fn on_trap(context: *mut c_void) -> bool {
    let Role::Blocked(worker) = role_beneath() else {
        return false;
    };
    if !worker.steps.swap(false, Relaxed) {
        return false;
    }
    // SAFETY: passed on.
    let frame = unsafe { Frame::of(context) };
    frame.set_single_step(false);
    end(worker, frame);
    true
}

fn end(worker: &'static Worker, frame: &mut Frame) {
    // SAFETY: errno of the storage that this runs with, which is the worker's own.
    let errno = unsafe { *errno_place() };
    blocking::end(worker);
    let mask = signal::block(signal::only(SIGNAL));
    // SAFETY: as above.
    unsafe { *errno_place() = errno };
    frame.adopt_thread(mask);
}
