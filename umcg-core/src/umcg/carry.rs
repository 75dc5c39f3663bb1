//! Faults of adopted threads on a server: the worker goes home, and the instruction is repeated
//! there.
//!
//! A fault is the kernel thread's: it has the mask and the alternate stack that a handler gets. So
//! the program's handler must run at home. The handler of the fault, on the server, copies the
//! frame that the kernel made to the lower part of the home's stack, and returns to [`arrive`]
//! instead of the instruction. `arrive` goes home, and there lets the kernel restore the copy: all
//! registers are as they were, with the worker's own mask.
//!
//! ```text
//!   stack of the home    top     the loop at home, suspended; the C library's handlers
//!                                frames of `arrive`
//!                        low     the copy: context, registers of the FPU
//! ```

use super::adopted;
use super::worker::Worker;
use super::{CallerRole, Role, caller, guest, is_apart, role_beneath};
use crate::arch::frame_copy::{self, FrameCopy};
use crate::os::signal::Frame;
use std::ffi::c_void;
use umcg_context::local;

/// Bytes at the top of the stack of a home that its loop and the C library's handlers use.
const LOOP: usize = 10 << 10;
/// The least that `arrive` needs.
const ARRIVAL: usize = 4 << 10;

/// Lets the interrupted flow go home and repeat its instruction, if it is an adopted thread's own
/// code on a server. False if it is not, or if there is no room.
///
/// # Safety
/// Called in a handler, with its context.
pub(crate) unsafe fn home(context: *mut c_void) -> bool {
    let Role::Worker(worker, _) = role_beneath() else {
        return false;
    };
    if !adopted::is_adopted(worker) || local::holds() != 0 || is_apart() || guest::is_inside() {
        return false;
    }
    let Some((low, top)) = room(worker) else {
        return false;
    };
    // SAFETY: the kernel's context; the room is the worker's, and nothing is there.
    let copied = unsafe { FrameCopy::make(context, low, top - ARRIVAL) };
    let Some(copy) = copied else { return false };
    // SAFETY: as above; the copy stays until `arrive` has used it.
    unsafe { frame_copy::redirect(context, arrive, copy, top) };
    true
}

/// The part of the stack of the worker's home that is free while it is away.
fn room(worker: &Worker) -> Option<(usize, usize)> {
    let home = worker.home.as_ref()?;
    // SAFETY: written when the worker was made, and not while it is away.
    let stack = unsafe { &*home.stack.get() };
    let stack = stack.as_ref()?;
    let (low, top) = (stack.base().addr(), stack.top().addr());
    (top - low > LOOP + 2 * ARRIVAL).then(|| (low, (top - LOOP) & !15))
}

/// On the server, with the worker's storage.
unsafe extern "C" fn arrive(copy: *mut FrameCopy) -> ! {
    // A preemption may have brought it home already.
    if let CallerRole::Worker(inside, server) = caller() {
        adopted::go_home(inside, server);
    }
    let Some(worker) = adopted::at_home() else {
        std::process::abort()
    };
    // SAFETY: the copy that `home` has made.
    let context = unsafe { (*copy).context() };
    // SAFETY: it is as the kernel made it for a handler.
    unsafe { Frame::of(context) }.adopt_thread(adopted::opening_mask(worker));
    adopted::note_open(worker);
    // SAFETY: as above.
    unsafe { frame_copy::restore(copy) }
}
