//! Servers and workers by reference: the base of the safe types of the crate `umcg`. Each function
//! says what its caller must rule out. The types there do that by ownership.

mod adopted;
mod group;
mod homes;
mod origin;
mod running;
mod server;
mod sight;
mod worker;

pub use crate::umcg::addressee::SentBy;
pub use crate::umcg::homes::HomeStart;
pub use crate::umcg::idle::EventKind;
pub use crate::umcg::light::UPPER_BYTES;
pub use crate::umcg::stay::NativeReason;
pub use adopted::*;
pub use group::{Group, Visit, wake_server};
pub use homes::{
    announce, call_home, home_rests, is_away_for, mark_home, note_addressee, pass_on,
    reclaim_homes, settle_storage, tell_home, worker_at_home,
};
pub use origin::{CallOrigin, share_with_child, within};
pub use running::RunningWorker;
pub use server::{Event, Nothing, Server};
pub use sight::{WORKER_LAYOUT, WorkerLayout, find_symbol, set_request_handler};
pub use umcg_context::stack::SizeClass;
pub use worker::{Activity, Reservation, Worker, each_light_worker};

use crate::umcg::worker::Carrier;
use crate::umcg::{self, helper, preempt, thread};
use rustix::io::Errno;

/// Whether thread workers move to their servers' kernel threads, so that any two workers can switch
/// to each other directly. If they stay on their own, a switch from or to one is two hand-overs
/// between kernel threads.
pub fn threads_move() -> bool {
    thread::carrier() == Carrier::Moving
}

/// Sets how many helper threads there may be in the process, on which workers without threads of
/// their own block; 0 for the value of `UMCG_HELPERS` in the environment, or 512.
///
/// Further workers wait until a helper comes back. If none does for 10 ms, one more is made: the
/// workers on helpers may depend on the waiting ones.
pub fn set_helpers(most: usize) {
    helper::set_most(most);
}

/// Gives helpers the process's attributes, and not the caller's, from here on. A kernel thread
/// makes them. It is made now, if the system gives one, and otherwise when the first helper is
/// needed.
pub fn prepare_helpers() {
    helper::POOL.prepare();
}

/// Sets `notice`, which is called each time that a helper is made beyond the bound, with the number
/// of helpers and the number of waiting workers. It runs on a kernel thread of the library's, and
/// needed helpers wait for it.
///
/// It is also called each time that a worker is to block and the system gives no thread for a
/// helper, so that the worker blocks its server. Then the worker calls it, with 0 as the second
/// number, and `notice` must not switch, and must not unwind.
pub fn set_helper_notice(notice: fn(usize, usize)) {
    helper::set_notice(notice);
}

/// Calls `f` as if the caller were a plain thread, whatever its role. So nothing in `f` switches,
/// and it is not preempted. The caller can become neither a server nor a worker meanwhile. For
/// foreign code that is called in the middle of a switch. A panic that leaves `f` ends the process.
#[inline]
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    /// Ends the process, with the panic's message as the reason.
    struct Unwound;
    impl Drop for Unwound {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let unwound = Unwound;
    let result = umcg::apart(f);
    std::mem::forget(unwound);
    result
}

/// In a handler of SIGTRAP: if the trap is that of a worker which was
/// [stuck](Server::release_stuck), ends its scope, and returns true when a server runs it. Switches.
///
/// # Safety
/// `context` is the handler's third argument. The handler was entered with `SA_NODEFER`, and not on
/// an alternate stack.
pub unsafe fn on_trap(context: *mut std::ffi::c_void) -> bool {
    // SAFETY: passed on.
    unsafe { umcg::stuck::on_trap(context) }
}

/// Sets the preemption interval of all servers, in nanoseconds; 0 for none.
///
/// # Errors
/// The kernel's error for the interval.
pub fn set_preemption(nanoseconds: u64) -> Result<(), Errno> {
    preempt::set_interval(nanoseconds)
}
