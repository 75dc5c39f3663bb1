//! Five words of thread-local storage, and the only code of umcg that touches any.
//!
//! The compiler may compute the address of a thread-local once and use it again after a switch,
//! when the flow may be on another kernel thread (llvm#98479). These accessors are assembly that
//! the compiler can neither cache nor merge. They therefore always read the storage that the thread
//! pointer names *now*. They cost two instructions, also from a shared library.
//!
//! | word | holds |
//! |---|---|
//! | `VP` | the virtual processor that this storage belongs to, or null |
//! | `TASK` | the server, thread worker or helper that this storage belongs to, or null; the low bits tell which |
//! | `HOLD` | how many regions are open that preemption must not cut, because it would leave a lock or a pool of this storage half-way |
//! | `ATTEMPT` | where the innermost call that a fault aborts keeps its stack pointer, or null |
//! | `GUEST` | the state that the layer which intercepts system calls keeps for this thread, or null |

use crate::arch;

/// The virtual processor of this storage, or null.
#[inline(always)]
pub fn vp() -> *mut () {
    arch::local_get::<0>()
}

/// Sets the virtual processor that this storage belongs to; null for none.
#[inline(always)]
pub fn set_vp(vp: *mut ()) {
    arch::local_set::<0>(vp);
}

/// The server, thread worker or helper of this storage, or null.
#[inline(always)]
pub fn task() -> *mut () {
    arch::local_get::<1>()
}

/// Sets the server or thread worker that this storage belongs to; null for none.
#[inline(always)]
pub fn set_task(task: *mut ()) {
    arch::local_set::<1>(task);
}

/// The size of all the words together, in bytes.
pub const BYTES: usize = 40;

/// The words of a storage that no flow runs with yet.
#[derive(Clone, Copy, Debug)]
pub struct Words(*mut usize);

impl Words {
    /// The words of the storage that this thread pointer names.
    ///
    /// # Safety
    /// The pointer names a storage that holds this library's words. That storage is the caller's
    /// while the returned value is in use.
    #[inline(always)]
    pub unsafe fn of(thread_pointer: usize) -> Words {
        Words(core::ptr::with_exposed_provenance_mut(
            thread_pointer.wrapping_add_signed(offset()),
        ))
    }

    /// As [`set_vp`], for the flow that will run with it.
    #[inline(always)]
    pub fn set_vp(self, vp: *mut ()) {
        self.put(0, vp.expose_provenance());
    }

    /// As [`set_task`].
    #[inline(always)]
    pub fn set_task(self, task: *mut ()) {
        self.put(1, task.expose_provenance());
    }

    /// As [`set_holds`].
    #[inline(always)]
    pub fn set_holds(self, holds: usize) {
        self.put(2, holds);
    }

    /// As [`set_guest`].
    #[inline(always)]
    pub fn set_guest(self, guest: *mut ()) {
        self.put(4, guest.expose_provenance());
    }

    /// As [`guest`].
    #[inline(always)]
    pub fn guest(self) -> *mut () {
        // SAFETY: by the contract of `of`, one of the words.
        let word = unsafe { self.0.wrapping_add(4).read() };
        core::ptr::with_exposed_provenance_mut(word)
    }

    #[inline(always)]
    fn put(self, index: usize, value: usize) {
        // SAFETY: by the contract of `of`, one of the words.
        unsafe { self.0.wrapping_add(index).write(value) };
    }
}

/// The offset from the thread pointer to the first word: the same in every storage.
#[inline(always)]
pub fn offset() -> isize {
    arch::local_offset()
}

/// The same for the word `GUEST`.
pub fn guest_offset() -> isize {
    offset() + 32
}

/// Whether a flow that is about to execute the instruction at `pc` may be in one of these
/// accessors, between the instruction that reads the thread pointer and the one that uses the sum.
/// From there it must not continue on another kernel thread, where it would use the first thread's
/// storage. Never true on x86-64, which does both in one instruction. `load` reads a word of code,
/// if it can be read.
///
/// The accessors are inlined everywhere, so this looks at the instructions before `pc`. Other code
/// that looks the same is taken for an accessor.
pub fn is_access(pc: usize, load: impl Fn(usize) -> Option<u32>) -> bool {
    arch::is_local_access(pc, load)
}

/// Where the innermost call that a fault aborts keeps its stack pointer, or null.
#[inline(always)]
pub fn attempt() -> *mut () {
    arch::local_get::<3>()
}

/// Sets where that is; null for no such call.
#[inline(always)]
pub fn set_attempt(place: *mut ()) {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    arch::local_set::<3>(place);
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// The state that the layer which intercepts system calls keeps for this thread, or null.
#[inline(always)]
pub fn guest() -> *mut () {
    arch::local_get::<4>()
}

/// Sets that state; null for none.
#[inline(always)]
pub fn set_guest(guest: *mut ()) {
    arch::local_set::<4>(guest);
}

/// How many holds are open on this storage.
#[inline(always)]
pub fn holds() -> usize {
    arch::local_get::<2>() as usize
}

/// Sets how many holds are open on this storage. For a flow that leaves the storage or comes to it
/// by a switch: a [`Hold`] cannot span that.
#[inline(always)]
pub fn set_holds(holds: usize) {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    arch::local_set::<2>(holds as *mut ());
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// A region that preemption does not cut. The region must not switch: it ends on the storage that
/// it began on.
#[derive(Debug)]
pub struct Hold(());

impl Hold {
    /// Begins a region.
    #[inline(always)]
    pub fn begin() -> Hold {
        arch::local_set::<2>((holds() + 1) as *mut ());
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        Hold(())
    }

    /// A region that was begun by a `Hold` which was forgotten.
    pub(crate) fn adopt() -> Hold {
        Hold(())
    }
}

impl Drop for Hold {
    #[inline(always)]
    fn drop(&mut self) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        arch::local_set::<2>((holds() - 1) as *mut ());
    }
}
