//! Stand-ins for the parts of the library that take workers off, as much of them as the sources
//! want.

use super::stuck_request::StuckRequest;
use crate::base::link::Link;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, futex_wait_until, futex_wake};
use crate::idle::EventKind;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// As `umcg/tick.rs` has it.
pub(crate) mod tick {
    use super::*;

    pub(crate) const SIGNAL: c_int = libc::SIGURG;

    pub(crate) struct Tick {
        pub(crate) tid: AtomicI32,
        pub(crate) stuck: StuckRequest,
        /// The signal is pending.
        pub(crate) is_pending: AtomicBool,
    }

    shuttle::thread_local! {
        static ERRNO: std::cell::UnsafeCell<c_int> = const { std::cell::UnsafeCell::new(0) };
    }

    pub(crate) fn errno_place() -> *mut c_int {
        ERRNO.with(std::cell::UnsafeCell::get)
    }
}

/// As `umcg/server.rs` has it.
pub(crate) mod server {
    use super::*;

    pub(crate) struct Server {
        pub(crate) current: Link<worker::Worker>,
        pub(crate) turns: AtomicU64,
        /// A bit for each turn whose worker was asked for.
        pub(crate) asked: std::sync::atomic::AtomicU64,
        pub(crate) tick: tick::Tick,
    }
}

/// As `umcg/worker.rs` has it.
pub(crate) mod worker {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Carrier {
        Sharing,
        Moving,
        Staying,
        Owning,
    }

    pub(crate) struct Worker {
        pub(crate) next_job: Link<Worker>,
        pub(crate) blocking: AtomicU32,
        pub(crate) steps: AtomicBool,
        carrier: Carrier,
        /// It has left its server with BLOCK.
        pub(crate) has_left: AtomicBool,
        is_back: AtomicU32,
    }

    pub(crate) struct Inside(pub(crate) &'static Worker);

    impl Worker {
        pub(crate) fn new(carrier: Carrier, scopes: u32) -> &'static Worker {
            Box::leak(Box::new(Worker {
                next_job: Link::none(),
                blocking: AtomicU32::new(scopes),
                steps: AtomicBool::new(false),
                carrier,
                has_left: AtomicBool::new(false),
                is_back: AtomicU32::new(0),
            }))
        }

        pub(crate) fn carrier(&self) -> Carrier {
            self.carrier
        }

        /// The rest of the handler runs here in place of the helper.
        ///
        /// # Safety
        /// As the library's.
        pub(crate) unsafe fn leave(
            &self,
            _: &'static server::Server,
            kind: EventKind,
            _: Option<u64>,
        ) {
            assert!(kind == EventKind::Block);
            assert!(!self.has_left.swap(true, SeqCst), "it leaves once");
        }

        /// Whether it has left for a helper.
        pub(crate) fn is_submitted(&self) -> bool {
            self.carrier == Carrier::Owning && self.has_left.load(SeqCst)
        }

        /// Its helper has run it.
        pub(crate) fn come_back(&self) {
            assert_eq!(self.is_back.swap(1, SeqCst), 0, "one worker, two helpers");
            futex_wake(&self.is_back, u32::MAX >> 1);
        }

        pub(crate) fn await_back(&self) {
            while self.is_back.load(SeqCst) == 0 {
                let _ = futex_wait_until(&self.is_back, 0, u64::MAX);
            }
        }
    }
}

pub(crate) mod blocking {
    use super::worker::Worker;

    pub(crate) fn end(_: &'static Worker) {
        unreachable!("the end of the scope is none of the model's")
    }
}

pub(crate) mod thread {
    use super::worker::Worker;

    pub(crate) fn came_home(_: &'static Worker) {}
}

pub(crate) enum Role {
    Blocked(&'static worker::Worker),
    Plain,
}

pub(crate) fn role_beneath() -> Role {
    unreachable!("the step is none of the model's")
}
