//! Workers that are pthreads, and their home threads.
//!
//! ```text
//!   the worker's context                     its kernel thread ("home")
//!   ------------------------------------     ------------------------------------------------
//!   register: saved, switches to the loop -> on a small stack: post WAKE, wait for `go`
//!   runs on servers' kernel threads          asleep
//!   begins to block: saved, server settles   `go`: loads the context
//!   makes its system calls at home      <->  (the same flow)
//!   ends blocking: saved, to the loop     -> post WAKE, wait for `go`
//!   exits: saved, server settles             `go`: loads the context, for good
//! ```
//!
//! The home thread keeps the worker's thread pointer all the time. So while the worker is away, the
//! loop must not touch thread-local storage: two threads would use it. The loop makes raw system
//! calls only, and all signals are blocked except the one that glibc's `setuid` waits for. A signal
//! sent to the worker's tid therefore waits until the worker is at home.

use super::group::Group;
use super::idle::{EventKind, state};
use super::worker::{Carrier, Home, Inside, Worker};
use super::{Owner, Role, WORKERS, adopted, preempt, role, set_role, tick};
use crate::base::page_offset;
use crate::base::scarce::SpareList;
use crate::identity;
use crate::identity::{credentials, rseq};
use crate::os::sanitizer::{self, Sanitizer};
use crate::os::signal;
use crate::uth::overflow;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;
use umcg_context::annotate;
use umcg_context::lock::HoldLock;
use umcg_context::stack::{self, SizeClass, Stack};

/// Bytes of stack for the loop at home, and for signal handlers that glibc runs there.
const HOME_STACK: usize = 32 << 10;
/// The signal by which glibc changes credentials in all threads at once. Its sender waits for every
/// thread.
const SIGSETXID: i32 = 33;

/// Descriptors that are not in use.
pub(crate) static SPARE: HoldLock<SpareList<Worker>> = HoldLock::new(SpareList::new());

/// Whether thread workers move to servers' kernel threads. `UMCG_NO_FSGSBASE` in the environment
/// forbids it.
pub(crate) fn carrier() -> Carrier {
    static CARRIER: OnceLock<Carrier> = OnceLock::new();
    *CARRIER.get_or_init(|| {
        let forbidden = std::env::var_os("UMCG_NO_FSGSBASE").is_some()
            || sanitizer::find() == Some(Sanitizer::Thread);
        let can_move =
            !forbidden && umcg_context::thread_pointer_writable() && credentials::install().is_ok();
        if can_move {
            Carrier::Moving
        } else {
            Carrier::Staying
        }
    })
}

/// The resources that a thread needs to become a worker. They are reserved before the thread
/// exists, so the maker of the thread knows early whether it can become one.
pub(crate) struct Reservation {
    worker: Option<&'static Worker>,
    /// For the loop at home, if the worker has one.
    stack: Option<Stack>,
}

impl Reservation {
    /// Reserves a descriptor and a stack.
    pub(crate) fn new() -> Result<Reservation, Errno> {
        let stack = match carrier() {
            Carrier::Moving => Some(
                stack::allocate(const { SizeClass::for_size(HOME_STACK).unwrap() })
                    .map_err(|_| Errno::NOMEM)?,
            ),
            _ => None,
        };
        let mut reserved = Reservation {
            worker: None,
            stack,
        };
        let make = || page_offset::try_leak_at(page_offset::thread_worker(), Worker::with_home()?);
        let worker = SPARE.lock().take_or(make);
        reserved.worker = Some(worker.ok_or(Errno::NOMEM)?);
        Ok(reserved)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(stack) = self.stack.take() {
            stack::release(stack);
        }
        if let Some(worker) = self.worker.take() {
            SPARE.lock().give_back(worker);
        }
    }
}

/// Makes the calling pthread a worker, with the resources reserved for it. Returns when a server
/// runs it. `interval` is the default interval of the preemption tick.
pub(crate) fn register(
    reserved: Reservation,
    group: &'static Group,
    id: u64,
    interval: u64,
) -> Result<&'static Worker, Errno> {
    let worker = prepare(reserved, group, id, signal::callers::stack())?;
    let Some(home) = &worker.home else {
        return Err(Errno::INVAL);
    };
    if worker.carrier() == Carrier::Staying && start_ticks(home, interval).is_err() {
        forget(worker);
        leave_home(home);
        SPARE.lock().give_back(worker);
        return Err(Errno::NOMEM);
    }
    // BLOCKED until its WAKE is posted: a server that waits for it by its tid finds that event
    // afterwards.
    worker.node.set_state(state::BLOCKED);
    set_role(Owner::Worker(worker));
    let inside = Inside::enter(worker);
    arrive(worker);
    drop(inside);
    Ok(worker)
}

/// Makes a descriptor for the calling pthread, of the resources reserved for it, and enters it
/// under the thread's tid. Its frames lie in `frames`; empty where no preemption asks for that.
pub(crate) fn prepare(
    mut reserved: Reservation,
    group: &'static Group,
    id: u64,
    frames: Range<usize>,
) -> Result<&'static Worker, Errno> {
    let Some(worker) = reserved.worker.take() else {
        return Err(Errno::INVAL);
    };
    let tid = identity::tid();
    worker.reset(
        group,
        carrier(),
        tid,
        id,
        umcg_context::thread_pointer(),
        std::ptr::null_mut(),
    );
    let Some(home) = &worker.home else {
        return Err(Errno::INVAL);
    };
    home.name.lock().clear();
    home.low.store(frames.start, Relaxed);
    home.base.store(frames.end, Relaxed);
    if let Some(stack) = reserved.stack.take() {
        // SAFETY: the descriptor is new, so its contexts are ours.
        let context = unsafe { &mut *home.context.get() };
        // SAFETY: the stack is new.
        unsafe {
            context.prepare(
                crate::uth::record::frames_begin(&stack),
                home_loop,
                (worker as *const Worker).cast_mut().cast(),
            )
        };
        // SAFETY: no other thread reads the stack.
        unsafe { home.stack.get().write(Some(stack)) };
        // SAFETY: as above.
        unsafe { home.stack_id.get().write(annotate::thread_started()) };
        home.rseq_bytes
            .store(rseq::unregister(umcg_context::thread_pointer()), Relaxed);
    }
    // Not runnable by its tid before it has posted an event.
    worker.node.set_state(state::BLOCKED);
    if !WORKERS.set(tid, Some(worker)) {
        leave_home(home);
        SPARE.lock().give_back(worker);
        return Err(Errno::NOMEM);
    }
    Ok(worker)
}

/// Called by a thread that stays on its own kernel thread. Ticks come there, also in handlers of
/// the program's.
fn start_ticks(home: &'static Home, interval: u64) -> Result<(), Errno> {
    overflow::enlarge_signal_stack();
    preempt::start(&home.tick, interval)
}

/// The thread did not become a worker, or is none any more: frees its worker's resources.
fn leave_home(home: &'static Home) {
    tick::stop(&home.tick);
    rseq::register(
        umcg_context::thread_pointer(),
        home.rseq_bytes.swap(0, Relaxed),
    );
    // SAFETY: the worker is at home, so the loop is suspended for ever, or was never begun.
    let stack = unsafe { &mut *home.stack.get() };
    // SAFETY: as above.
    annotate::thread_ended(unsafe { (*home.stack_id.get()).take() });
    if let Some(stack) = stack.take() {
        stack::release(stack);
    }
}

/// At home, in the worker's own flow: reports WAKE, and returns when a server runs the worker.
pub(crate) fn arrive(worker: &'static Worker) {
    match &worker.home {
        Some(home) if worker.carrier() == Carrier::Moving => {
            block_signals(home);
            // SAFETY: the loop is suspended, or new; it posts WAKE once this context is saved.
            unsafe { umcg_context::switch(worker.context.get(), home.context.get()) };
        }
        _ => {
            worker.post(EventKind::Wake, None);
            worker.await_go();
        }
    }
}

/// The worker's own flow continues at home, after the server has let it go.
pub(crate) fn came_home(worker: &Worker) {
    if let (Some(home), Carrier::Moving) = (&worker.home, worker.carrier()) {
        signal::set_mask(home.mask.load(Relaxed));
    }
}

unsafe extern "C" fn home_loop(worker: *mut ()) -> ! {
    // SAFETY: `register` passed the worker; descriptors are never freed.
    let worker: &'static Worker = unsafe { &*worker.cast::<Worker>() };
    let Some(home) = &worker.home else {
        std::process::abort()
    };
    loop {
        if adopted::is_adopted(worker) {
            adopted::see_off(worker, home);
        } else {
            worker.post(EventKind::Wake, None);
            worker.await_go();
        }
        // SAFETY: the server that posted `go` saw the worker leave for here, and no other thread
        // may resume it.
        unsafe { umcg_context::switch(home.context.get(), worker.context.get()) };
    }
}

fn block_signals(home: &Home) {
    home.mask
        .store(signal::set_mask(!signal::only(SIGSETXID)), Relaxed);
}

/// Makes the running or blocked caller a plain pthread again, on its own kernel thread.
pub(crate) fn unregister(worker: &'static Worker) {
    let inside = Inside::enter(worker);
    if let Role::Worker(_, server) = role() {
        // SAFETY: the caller is the worker, running, inside.
        unsafe { worker.leave(server, EventKind::Exit, None) };
        came_home(worker);
    } else {
        forget(worker);
        worker.post(EventKind::Exit, None);
    }
    set_role(Owner::Nobody);
    drop(inside);
    if let Some(home) = &worker.home {
        leave_home(home);
    }
    release(worker);
}

/// Frees the descriptor of a worker that ends at home, and of whose end no server learns.
pub(crate) fn retire(worker: &'static Worker) {
    forget(worker);
    if let Some(home) = &worker.home {
        leave_home(home);
    }
    SPARE.lock().give_back(worker);
}

/// Frees the resources of a worker whose home thread is gone. No tid names it.
pub(crate) fn give_back(worker: &'static Worker) {
    if let Some(home) = &worker.home {
        // The area was the home thread's. The caller's own is none of this.
        home.rseq_bytes.store(0, Relaxed);
        leave_home(home);
    }
    SPARE.lock().give_back(worker);
}

/// The child of a fork by a worker has one plain thread: its storage belongs to its kernel thread
/// again.
pub(crate) fn forked_in_child() {
    let (Role::Worker(worker, _) | Role::Blocked(worker)) = role() else {
        return;
    };
    if let Some(home) = &worker.home {
        rseq::register(
            umcg_context::thread_pointer(),
            home.rseq_bytes.swap(0, Relaxed),
        );
    }
}

/// Removes the worker from the tids.
fn forget(worker: &Worker) {
    WORKERS.set(worker.node.tid(), None);
}

/// The worker's server has seen it exit: lets it continue as a plain thread.
pub(crate) fn settle_exit(worker: &'static Worker) {
    forget(worker);
    worker.node.set_state(state::GONE);
    worker.post_go();
    release(worker);
}

/// One of the two users of the descriptor is done with it. They are the thread itself, and its
/// EXIT.
pub(crate) fn release(worker: &'static Worker) {
    // ORDERING(users): AcqRel with itself. The last user sees that the other is done.
    if worker.users.fetch_sub(1, AcqRel) == 1 {
        SPARE.lock().give_back(worker);
    }
}
