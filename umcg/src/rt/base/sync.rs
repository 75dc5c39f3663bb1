//! What the protocols of the runtime stand on. Their models put the checker's in its place
//! (`tests/model/sync.rs`).

use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use umcg_core::asymmetric::{heavy, init, light};
pub(crate) use umcg_core::context::local::Hold;
pub(crate) use umcg_core::context::lock::HoldLock;

/// As long as there is one nothing may unwind: whoever did would leave locks that are taken, and
/// frames that are gone in queues. So that ends the process, as what comes after it is not to be
/// trusted.
pub(crate) struct Firm;

impl Firm {
    /// It was all right.
    #[inline(always)]
    pub(crate) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Firm {
    #[cold]
    fn drop(&mut self) {
        umcg_core::fatal(format_args!(
            "a panic where locks are held and queues are changed, which is a bug of umcg's"
        ))
    }
}

/// How often [`PerServer::try_other`](crate::rt::PerServer::try_other) looks before it gives up.
pub(crate) const TRIES: usize = 100;

/// One turn of a short wait for another processor.
#[inline]
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// Whether there is no other processor, on which somebody else could be running now.
pub(crate) fn is_alone() -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    *ALONE.get_or_init(|| {
        std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1)
    })
}

/// One turn of a wait for a kernel thread that may not be running: it may have this processor.
pub(crate) use umcg_core::context::way::give_way;

/// The same in a wait that ends by itself after some turns.
pub(crate) fn give_way_briefly() {
    std::thread::yield_now();
}
