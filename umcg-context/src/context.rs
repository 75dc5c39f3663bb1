//! The context and the few operations on it.

use crate::arch;

/// A suspended flow of control: where it continues, its stack, and the two registers that inline
/// assembly cannot name.
///
/// The compiler saves everything else around the switch. `docs/switch.md` lists the state that is
/// not saved at all. While the flow runs, the contents are stale.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    pub(crate) fp: usize,
    pub(crate) bp: usize,
}

/// The function that a new context runs first. It never returns: it ends by a switch that is never
/// reversed.
pub type EntryFn = unsafe extern "C" fn(*mut ()) -> !;

impl Context {
    /// A context that holds nothing yet. A switch away from it, or [`Context::prepare`], fills it.
    pub const fn empty() -> Self {
        Self {
            pc: 0,
            sp: 0,
            fp: 0,
            bp: 0,
        }
    }

    /// Makes this the context of a new flow that calls `entry(arg)` on the stack that ends at
    /// `top`.
    ///
    /// # Safety
    /// The memory below `top` is a writable stack, large enough for `entry`, and nothing else uses
    /// it until the flow has ended.
    #[inline]
    pub unsafe fn prepare(&mut self, top: *mut u8, entry: EntryFn, arg: *mut ()) {
        arch::prepare(self, top as usize, entry, arg);
    }

    /// The stack pointer at which the flow was suspended.
    pub fn stack_pointer(&self) -> usize {
        self.sp
    }
}

/// Suspends the caller into `from` and continues `to`. Returns when some flow switches to `from`,
/// perhaps on another kernel thread.
///
/// # Safety
/// `from` is writable and stays where it is until resumed. `to` holds a suspended flow whose stack
/// is intact, and no other thread resumes it. The caller holds no reference into thread-local
/// storage across the call unless the thread pointer moves with it.
#[inline(always)]
pub unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: passed on.
    unsafe { arch::switch(from, to) }
}

/// Like [`switch`], but calls `f(arg)` on the stack of `to` before `to` continues. When `f` runs,
/// the caller is fully suspended, so `f` may publish, recycle or free it. This closes the race
/// between parking and waking.
///
/// # Safety
/// As [`switch`]; `f` does not unwind, and `to` has room for its frames.
#[inline(always)]
pub unsafe fn switch_with(
    from: *mut Context,
    to: *const Context,
    f: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
) {
    // SAFETY: passed on.
    unsafe { arch::switch_with(from, to, f, arg) }
}

/// Like [`switch_with`], but `f` is entered as if `to` had called it where it was suspended: an
/// unwinder in `f` walks through the frames of `to`. It is slower by a mispredicted return, and
/// meant for inspecting a suspended flow.
///
/// # Safety
/// As [`switch_with`].
#[inline(always)]
pub unsafe fn inject(
    from: *mut Context,
    to: *const Context,
    f: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
) {
    // SAFETY: passed on.
    unsafe { arch::inject(from, to, f, arg) }
}

/// Continues `to` and forgets the caller.
///
/// # Safety
/// As [`switch`] for `to`. No destructor of the caller's frames will run.
#[inline(always)]
pub unsafe fn resume(to: *const Context) -> ! {
    // SAFETY: passed on.
    unsafe { arch::resume(to) }
}

/// Whether [`set_thread_pointer`] works here. On x86-64 that takes FSGSBASE (Linux 5.9 and a CPU
/// since 2012).
pub fn thread_pointer_writable() -> bool {
    arch::thread_pointer_writable()
}

/// The thread pointer of the calling kernel thread: the address through which it finds its
/// thread-local storage.
#[inline(always)]
pub fn thread_pointer() -> usize {
    arch::thread_pointer()
}

/// Gives the calling kernel thread another thread-local storage.
///
/// # Safety
/// [`thread_pointer_writable`] is true. `tp` is the thread pointer of a thread whose thread-local
/// storage no other kernel thread uses until this one has given it up. Nothing between here and the
/// switch to the flow that owns the storage touches thread-local storage.
#[inline(always)]
pub unsafe fn set_thread_pointer(tp: usize) {
    // SAFETY: passed on.
    unsafe { arch::set_thread_pointer(tp) }
}
