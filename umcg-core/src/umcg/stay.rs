//! Adopted threads that stay at home: for some time, those whose page faults keep servers; for
//! good, those that are left to the kernel.
//!
//! ```text
//!   away --ask: any party--> away, asked --comes home: by a preemption, or by the hook--> STAYS
//!     ^                                                                                     |
//!     '----- leaves at a wait <--- home <--- a wait after its time, if it faults no more ---'
//! ```
//!
//! Nothing lets a fault go that waits for a disk, and the server waits with it. At home such a
//! fault keeps nobody else, as natively. A worker that stays waits for words as a plain thread
//! does, asleep in the kernel.
//!
//! Threads that fault once, at their beginning, do not do so later; threads of a database that maps
//! its files do so for good. So after its time the worker asks how many times it had to wait for a
//! disk meanwhile, and if that is often, stays as long again.
//!
//! A thread for which the kernel does what no server can ([`NativeReason`]) stays as long as there
//! is a reason.
//!
//! The worker itself begins and ends its stay, never in the midst of a wait: the places where a
//! wait looks at it agree.

use super::adoption::Adoption;
use super::tick::now;
use crate::base::call::call;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

/// How long it stays, in nanoseconds.
const TIME: u64 = 250_000_000;
/// With so many faults in that time or more it stays on.
const OFTEN: u64 = 8;

/// Why a thread is left to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum NativeReason {
    /// Its policy, priority or processors are others than those of servers.
    Scheduling = 1,
    /// A timer or a counter follows its kernel thread.
    Counting = 2,
    /// It has other credentials, filters, namespaces or the like than servers.
    State = 4,
}

/// Notes whether there is this reason. True if there was none before. Called by any party.
pub(super) fn note_native(adoption: &Adoption, reason: NativeReason, is_so: bool) -> bool {
    let bit = reason as u32;
    if is_so {
        adoption.native.fetch_or(bit, Relaxed) == 0
    } else {
        adoption.native.fetch_and(!bit, Relaxed);
        false
    }
}

/// The calling worker, which was asked, has come home.
pub(super) fn begin(adoption: &Adoption) {
    adoption.faults_before.store(own_faults(), Relaxed);
    adoption.stays_until.store(now() + TIME, Relaxed);
    adoption.stays.store(true, Relaxed);
}

/// The calling worker, which stays, is about to wait. If its time is over, and it has not faulted
/// often, nor is left to the kernel, it stays no more.
pub(super) fn end_if_over(adoption: &Adoption) {
    let now = now();
    let is_native = adoption.native.load(Relaxed) != 0;
    if is_native || now < adoption.stays_until.load(Relaxed) {
        return;
    }
    let faults = own_faults();
    let before = adoption.faults_before.load(Relaxed);
    adoption.faults_before.store(faults, Relaxed);
    adoption.stays_until.store(now + TIME, Relaxed);
    let faults_often = faults.saturating_sub(before) >= OFTEN;
    adoption.stays.store(faults_often, Relaxed);
}

/// How many page faults of the calling kernel thread had to wait for a disk or the like.
fn own_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let place = usage.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes the record.
    unsafe {
        call(
            libc::SYS_getrusage,
            [libc::RUSAGE_THREAD as usize, place, 0, 0, 0, 0],
        )
    };
    // SAFETY: zeroes are one, too.
    unsafe { usage.assume_init() }.ru_majflt as u64
}
