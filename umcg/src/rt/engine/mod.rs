//! The servers and the state of a runtime, as far as every wait needs them: the running worker, how
//! a worker leaves its server for the next one, how a worker becomes ready, which server is woken
//! for it.
//!
//! The loop of the servers, which checks deadlines and files, is above everything that waits:
//! [`run`](crate::rt::run).
//!
//! # The life of a spawned worker
//!
//! 1. `Builder::spawn` (`rt/api/making.rs`) takes a stack from the server's pool, with a block for
//!    a full worker, writes the closure onto it, begins the `Task` in the descriptor's upper part,
//!    counts the worker, and gives its `Runnable` to the server (`Local::make_ready`). The worker
//!    takes the slot, whose former holder goes to the scheduler. If a server sleeps, one is woken.
//! 2. The server, or the worker that is about to leave it, picks the next worker: the one in the
//!    slot, or that of `Scheduler::next`. It switches there; `first_frame` calls the closure.
//! 3. The worker parks: it leaves the step `commit` and switches to the next worker. That one, on
//!    its own stack, does the step: the word goes from RUNNING to PARKED, and the right to run the
//!    worker lies in it. Were it unparked in between, the step would make it ready again.
//! 4. Another worker, a plain thread, a deadline (`wait/deadline.rs`) or the driver unparks it. The
//!    party that takes the word from PARKED to RUNNING has the right, and gives the worker to the
//!    scheduler: of the server that this is on, or by way of the injector.
//! 5. It runs again, on whichever server, and looks whether it was asked to end; if so it unwinds
//!    from there (`cancel.rs`). A blocking scope in it goes as for a thread worker
//!    (`umcg-core/src/umcg/mod.rs`, step 6), but on a helper thread; the event that ends the scope
//!    wakes a server by the group's hook.
//! 6. The closure returns, or has unwound: its destructors of worker-locals and thread-locals run,
//!    the result is left on its own stack, and it leaves for good. The step writes DONE and wakes
//!    the joiner. The party that takes the result gives stack and block back to the pool; those of
//!    a detached worker the step itself gives back.

pub(crate) mod active;
pub(crate) mod countdown;
pub(crate) mod guest;
pub(crate) mod lack;
pub(crate) mod poller;
pub(crate) mod runtime;
pub(crate) mod server;
pub(crate) mod sleepers;
pub(crate) mod stalls;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod turns;
pub(crate) mod watch;
