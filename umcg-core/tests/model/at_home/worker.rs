//! Workers, as much of them as their homes want.

use super::adoption::Adoption;
use super::context::Saved;
use super::idle::EventKind;
use super::server::Server;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::atomic::Ordering::SeqCst;

pub(crate) struct Home {
    pub(crate) context: Saved,
    pub(crate) mask: AtomicU64,
    pub(crate) rseq_bytes: AtomicUsize,
    pub(crate) adoption: Adoption,
}

pub(crate) struct Node {
    tid: u32,
    state: AtomicU32,
}

impl Node {
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, SeqCst);
    }
}

pub(crate) struct Worker {
    pub(crate) node: Node,
    pub(crate) context: Saved,
    pub(crate) server: ServerLink,
    pub(crate) tp: AtomicUsize,
    pub(crate) go: AtomicU32,
    pub(crate) home: Option<Box<Home>>,
    is_at_home: AtomicBool,
}

// SAFETY: the contexts are not touched.
unsafe impl Sync for Worker {}
// SAFETY: as above.
unsafe impl Send for Worker {}

pub(crate) struct ServerLink;

impl ServerLink {
    pub(crate) fn set(&self, _: Option<&'static Server>) {}
}

pub(crate) enum Carrier {
    Moving,
}

pub(crate) struct Inside(pub(crate) &'static Worker);

impl Inside {
    pub(crate) fn enter(worker: &'static Worker) -> Inside {
        Inside(worker)
    }
}

impl Worker {
    /// An adopted worker that is away, with this mask.
    pub(crate) fn away(tid: u32, storage: usize, mask: u64) -> &'static Worker {
        let home = Home {
            context: Saved::default(),
            mask: AtomicU64::new(mask),
            rseq_bytes: AtomicUsize::new(0),
            adoption: Adoption::new(),
        };
        home.adoption.is_adopted.store(true, SeqCst);
        home.adoption.is_closed.store(true, SeqCst);
        super::adopted::look_for_what_is_open(&home);
        Box::leak(Box::new(Worker {
            node: Node {
                tid,
                state: AtomicU32::new(0),
            },
            context: Saved::default(),
            server: ServerLink,
            tp: AtomicUsize::new(storage),
            go: AtomicU32::new(0),
            home: Some(Box::new(home)),
            is_at_home: AtomicBool::new(false),
        }))
    }

    /// An adopted worker at home, open. Its last absence was with another mask.
    pub(crate) fn at_home(tid: u32, storage: usize) -> &'static Worker {
        let worker = Worker::away(tid, storage, u64::MAX);
        worker.is_at_home.store(true, SeqCst);
        super::adopted::home(worker)
            .adoption
            .is_closed
            .store(false, SeqCst);
        worker
    }

    /// It has left its home.
    pub(crate) fn go_away(&self) {
        self.is_at_home.store(false, SeqCst);
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.is_at_home.load(SeqCst)
    }

    /// It continues at home.
    pub(crate) fn send_home(&self) {
        self.is_at_home.store(true, SeqCst);
        self.go.store(1, SeqCst);
        super::adoption::wake(self.node.tid());
    }

    /// # Safety
    /// As the library's.
    pub(crate) unsafe fn leave(&'static self, _: &'static Server, _: EventKind, _: Option<u64>) {
        unreachable!("a model sends it home")
    }

    pub(crate) fn group(&self) {}

    pub(crate) fn reset(&self, (): (), _: Carrier, _: u32, _: u64, storage: usize, _: *mut ()) {
        self.tp.store(storage, SeqCst);
        self.is_at_home.store(false, SeqCst);
    }
}
