//! User Mode Concurrency Groups: thread scheduling in the hands of the program.
//!
//! A *server* ([`Server`]) is a thread that schedules. A *worker* is scheduled by it: a pthread
//! ([`Worker::register`]) or, lighter, a function on a stack of its own ([`light`]). A server runs
//! a worker in its own place ([`Server::switch_to`]) until the worker blocks, waits, exits or has
//! run for too long, and learns which as an [`Event`]. The right to run a worker is a value,
//! [`Ready`], of which there is one: code that would let two servers run the same worker at once
//! does not compile.
//!
//! ```
//! use umcg::{Event, Server, Worker, WorkerId};
//!
//! let thread = std::thread::spawn(|| {
//!     let _worker = Worker::register(WorkerId::from_index(7)).unwrap(); // returns when a server runs it
//!     println!("hello from a worker");
//!     umcg::wait().unwrap(); // gives the processor back
//!     println!("hello again");
//! }); // the guard's drop makes it a plain thread again: EXIT
//!
//! let server = Server::register().unwrap();
//! let mut ready = match server.wait().unwrap() {
//!     Event::Wake(worker) => worker,
//!     other => panic!("{other:?}"),
//! };
//! loop {
//!     match server.switch_to(ready) {
//!         Event::Wait(worker) => ready = worker,
//!         Event::Exit(id) => break assert_eq!(id, WorkerId::from_index(7)),
//!         other => panic!("{other:?}"),
//!     }
//! }
//! thread.join().unwrap();
//! ```
//!
//! # Features
//!
//! All features but the last are on by default. Without them the crate has servers and workers,
//! `umcg_ctl` ([`ctl`]), [`uth`], the runtime ([`rt`]) and its [`sync`], [`tube`], [`mod@select`]
//! and [`futex`].
//!
//! | feature | what it adds |
//! |---|---|
//! | `net`, `fs`, `process` | sockets, files and child processes that park their worker |
//! | `nt` | the synchronisation objects of Windows NT |
//! | `segment` | semaphores, events and tubes between processes |
//! | `portable` | uths that switch by the C library's functions; needs a C compiler |
//!
//! Below this crate lies `umcg-core`, where [`uth`] comes from: threads without any scheduler.

mod current;
mod error;
mod event;
#[cfg(feature = "fs")]
pub mod fs;
pub mod futex;
#[cfg(all(feature = "intercept", target_arch = "x86_64"))]
#[doc(hidden)] // for `umcg run`
pub mod intercept;
#[cfg_attr(
    not(all(feature = "fs", feature = "net", feature = "process")),
    allow(
        dead_code,
        reason = "some of it is for files, sockets or processes alone"
    )
)]
pub mod io;
mod light;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "nt")]
pub mod nt;
#[cfg(feature = "process")]
pub mod process;
pub mod rt;
#[cfg(feature = "segment")]
pub mod segment;
pub mod select;
mod server;
pub mod sync;
pub mod tube;
mod worker;

pub use current::{
    blocking, critical, current_id, current_name, switch_to, switch_to_deadline, wait,
    wait_deadline, wait_timeout,
};
pub use error::{Error, NotAWorker, TimedOut, WaitError};
pub use event::{Event, Ready, WorkerId};
pub use light::{LightBuilder, light};
pub use rt::api::names::set_name;
pub use rt::{
    Builder, Elapsed, Handle, JoinError, JoinHandle, Runtime, Scope, ScopedJoinHandle, SpawnError,
    block_on, hand_over, park, park_deadline, park_timeout, scope, shielded, sleep, sleep_until,
    spawn, spawn_future, spawn_light, timeout, timeout_at, yield_now,
};
pub use server::{Server, set_preemption, wake};
#[doc(hidden)] // for `umcg doctor`
pub use umcg_core::{asymmetric, storage};
pub use umcg_core::{ctl, uth};
pub use worker::Worker;
