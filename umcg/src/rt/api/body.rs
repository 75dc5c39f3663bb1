//! The body of a worker: its first frame, the call of its function, and the place of its result.

use super::count;
use super::end::{self, Packet};
use crate::rt::task::{Task, locals};
use crate::rt::wait::cancel::{self, Unwinding};
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use umcg_core::raw;

/// Larger closures are kept on the heap, to leave the stack to the frames.
pub(super) const LARGEST_IN_PLACE: usize = 512;

/// Room on the worker's stack for its function, and later for the result.
pub(super) const fn room<F, R>() -> Layout {
    let (f, packet) = (Layout::new::<F>(), Layout::new::<Packet<R>>());
    let packet = if end::in_place::<R>() {
        packet
    } else {
        Layout::new::<()>()
    };
    let size = if f.size() > packet.size() {
        f.size()
    } else {
        packet.size()
    };
    let align = if f.align() > packet.align() {
        f.align()
    } else {
        packet.align()
    };
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => panic!("a layout no larger than those of two types is valid"),
    }
}

/// The worker's first frame: calls its function, and ends it.
pub(super) unsafe extern "C" fn first_frame<F: FnOnce() -> R, R>(argument: *mut ()) -> ! {
    // SAFETY: first thing in the entry function that `carve` was given.
    let worker = unsafe { raw::Worker::begin(argument) };
    let task = Task::of(worker);
    let room = worker.room(room::<F, R>());
    // SAFETY: `carve_in_place` wrote it there; it is read once.
    let f = unsafe { room.cast::<F>().read() };
    let mut packet: Option<Packet<R>> = None;
    let body = || packet = run_body(task, f);
    // SAFETY: the caller is that worker, and this is done once.
    unsafe { worker.run(body) };
    // SAFETY: only the packet is left on the stack, and it is moved; the room is empty.
    unsafe { end::end(task, room.cast(), packet) }
}

/// Calls the function of the calling worker. Drops the result, if no handle wants it, and the
/// worker's locals.
pub(crate) fn run_body<F: FnOnce() -> R, R>(task: &'static Task, f: F) -> Option<Packet<R>> {
    let packet = if cancel::is_asked(task) {
        // The function is not called, but the values it owns have destructors as well. They may
        // wait, and the cancellation must not cut them short.
        cancel::shield_for_good(task);
        catch_unwind(AssertUnwindSafe(|| drop(f))).and_then(|()| Err(Box::new(Unwinding(1))))
    } else {
        catch_unwind(AssertUnwindSafe(f))
    };
    if let Err(payload) = &packet {
        // SAFETY: the scope that the worker was put into, if any. It is told of the end later.
        unsafe { count::note_unwound(task.scope.load(Relaxed), &**payload) };
    }
    // From here on only destructors run, those of locals included: unwinding out of them would end
    // the process.
    cancel::shield_for_good(task);
    let packet = end::wanted(task, packet);
    locals::clear(task);
    packet
}
