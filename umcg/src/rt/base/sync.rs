//! The primitives that the protocols of the runtime are built on. The models replace them by the
//! checker's (`tests/model/checker/sync.rs`), and the simulation by its own (`sim/src/rt/base`).

use super::clock;
use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use umcg_core::asymmetric::{full_fence, heavy, init, light};
pub(crate) use umcg_core::context::local::Hold;
pub(crate) use umcg_core::context::lock::HoldLock;

/// While it exists, nothing may unwind: an unwinding would leave locks taken, and queues with
/// frames that are gone. So an unwinding ends the process: its state can no longer be trusted.
pub(crate) struct Firm;

impl Firm {
    /// Ends the section normally.
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

/// How often [`PerServer::try_other`](crate::rt::PerServer::try_other) checks before it gives up.
pub(crate) const TRIES: usize = 100;

/// One turn of a short wait for another processor.
#[inline]
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// So many pauses of the processor, in which another one may go on.
#[inline]
pub(crate) fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

/// Between two looks at the clock.
const PAUSES: u32 = 20;

/// The same for so many nanoseconds. How long a pause is depends on the kind of processor.
pub(crate) fn pause_for(nanos: u64) {
    let until = clock::now() + nanos;
    while clock::now() < until {
        pause(PAUSES);
    }
}

/// Whether there is no other processor, on which another thread could be running now.
pub(crate) fn is_alone() -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    *ALONE.get_or_init(|| {
        std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1)
    })
}

/// One turn of a wait for a kernel thread that may not be running: lets it have this processor.
pub(crate) use umcg_core::context::way::give_way;

/// The same in a wait that is limited to some turns.
pub(crate) fn give_way_briefly() {
    std::thread::yield_now();
}
