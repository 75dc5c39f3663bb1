//! Two words of thread-local storage, and the only code of umcg that touches any.
//!
//! The compiler may compute the address of a thread-local once and use it again after a switch, when the flow may be on another kernel
//! thread (llvm#98479). These accessors are assembly that it can neither cache nor merge, so the value read is always that
//! of the storage that the thread pointer names *now*. They cost two instructions, also from a shared library.
//!
//! | word | holds |
//! |---|---|
//! | `VP` | the virtual processor that this storage belongs to, or null |
//! | `TASK` | the server or thread worker that this storage belongs to, or null |

use crate::arch;

/// The virtual processor of this storage, or null.
#[inline(always)]
pub fn vp() -> *mut () {
    arch::local_get::<0>()
}

/// Says which virtual processor this storage belongs to; null for none.
#[inline(always)]
pub fn set_vp(vp: *mut ()) {
    arch::local_set::<0>(vp);
}

/// The server or thread worker of this storage, or null.
#[inline(always)]
pub fn task() -> *mut () {
    arch::local_get::<1>()
}

/// Says which server or thread worker this storage belongs to; null for none.
#[inline(always)]
pub fn set_task(task: *mut ()) {
    arch::local_set::<1>(task);
}
