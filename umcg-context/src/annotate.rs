//! Tells checking tools about stacks and switches.
//!
//! | tool | learns | built in |
//! |---|---|---|
//! | Valgrind | each stack and that of each kernel thread that switches, so that a switch is not taken for a huge frame | always: a few instructions a new stack that do nothing elsewhere |
//! | AddressSanitizer | each switch and the bounds of the stack it goes to | under `--cfg umcg_asan` |
//! | ThreadSanitizer | each flow as a fiber, and each switch | under `--cfg umcg_tsan` |
//!
//! Without these cfgs a [`Flow`] has no bytes and its functions are empty. A switch is announced in
//! two halves: [`Flow::leave`] right before it, and [`Flow::arrive`] first thing after it, on the
//! other stack. A new flow calls `arrive` at the start of its entry function.
//!
//! Flows that take their thread-local storage along (thread workers) need none of this: the
//! sanitizers keep their notion of the current thread and its stack in that storage, so it moves by
//! itself.

#[cfg(any(umcg_asan, umcg_tsan))]
use core::ffi::c_void;
use core::ptr::null_mut;

/// Valgrind's name of a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackId(usize);

/// A new stack occupies `base..top`.
#[inline]
pub fn stack_allocated(base: usize, top: usize) -> StackId {
    // Memory that only such a stack points to is not leaked.
    #[cfg(umcg_asan)]
    // SAFETY: the range is mapped.
    unsafe {
        asan::__lsan_register_root_region(base as *const c_void, top - base)
    };
    // The range includes `top`, where the stack pointer starts.
    StackId(valgrind::request(valgrind::STACK_REGISTER, base, top))
}

/// The memory of a stack is about to be unmapped. Recycled stacks need no such call.
#[inline]
pub fn stack_freed(id: StackId, base: usize, top: usize) {
    #[cfg(umcg_asan)]
    asan::forget(base, top);
    let _ = (base, top);
    valgrind::request(valgrind::STACK_DEREGISTER, id.0, 0);
}

/// Forgets the notes about the frames between these addresses, on the caller's stack or another
/// one. These frames must not return. Safe in a signal handler.
#[inline]
pub fn frames_given_up(low: usize, high: usize) {
    #[cfg(umcg_asan)]
    asan::forget_frames(low, high);
    let _ = (low, high);
}

/// Whether a tool watches which memory is read. Safe in a signal handler.
#[inline]
pub fn watches_memory() -> bool {
    ON || valgrind::request(valgrind::RUNNING_ON_VALGRIND, 0, 0) != 0
}

/// The calling kernel thread will switch to stacks that were allocated. Valgrind does not know
/// where the thread's own stack ends. If the two stacks are close, it would take a switch back for
/// a return from a huge frame.
#[inline]
pub fn thread_started() -> Option<StackId> {
    if valgrind::request(valgrind::RUNNING_ON_VALGRIND, 0, 0) == 0 {
        return None;
    }
    let (bottom, size) = thread_stack();
    Some(StackId(valgrind::request(
        valgrind::STACK_REGISTER,
        bottom,
        bottom + size,
    )))
}

/// The calling kernel thread will switch no more.
#[inline]
pub fn thread_ended(id: Option<StackId>) {
    if let Some(id) = id {
        valgrind::request(valgrind::STACK_DEREGISTER, id.0, 0);
    }
}

/// The bounds of the calling kernel thread's own stack.
#[cold]
fn thread_stack() -> (usize, usize) {
    let (mut bottom, mut size) = (null_mut(), 0);
    // SAFETY: an all-zero attribute is overwritten by the first call.
    let mut attr: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread is alive.
    if unsafe { libc::pthread_getattr_np(me, &mut attr) } == 0 {
        // SAFETY: filled by the call above.
        unsafe { libc::pthread_attr_getstack(&attr, &mut bottom, &mut size) };
        // SAFETY: as above, and not used again.
        unsafe { libc::pthread_attr_destroy(&mut attr) };
    }
    (bottom as usize, size)
}

/// Whether a sanitizer is told about switches in this build. Code that is only needed for that can
/// be left out where this is false.
pub const ON: bool = cfg!(any(umcg_asan, umcg_tsan));

/// The sanitizers' name of a flow of control. It belongs beside the flow's context.
#[derive(Debug)]
pub struct Flow {
    #[cfg(umcg_asan)]
    asan: asan::Flow,
    #[cfg(umcg_tsan)]
    fiber: *mut c_void,
}

// SAFETY: the pointers are names that mean the same on every thread.
unsafe impl Send for Flow {}

impl Default for Flow {
    fn default() -> Self {
        Self::new()
    }
}

impl Flow {
    /// A flow that [`Flow::start`] will give a stack, or that of the kernel thread that leaves it
    /// first.
    #[inline]
    pub const fn new() -> Self {
        Self {
            #[cfg(umcg_asan)]
            asan: asan::Flow::new(),
            #[cfg(umcg_tsan)]
            fiber: null_mut(),
        }
    }

    /// The flow of the calling kernel thread, on the stack that it came with.
    #[inline]
    pub fn of_this_thread() -> Self {
        #[cfg_attr(
            not(umcg_asan),
            expect(
                unused_mut,
                reason = "only AddressSanitizer has to know its bounds beforehand"
            )
        )]
        let mut new = Self::new();
        #[cfg(umcg_asan)]
        new.asan.find_bounds();
        new
    }

    /// From now on this is a new flow on the stack `base..top`. The flow that ran there before has
    /// ended or was given up.
    #[inline]
    pub fn start(&mut self, base: usize, top: usize) {
        let _ = (base, top);
        #[cfg(umcg_asan)]
        self.asan.start(base, top);
        #[cfg(umcg_tsan)]
        {
            self.end();
            self.fiber = tsan::__tsan_create_fiber(0);
        }
    }

    /// Forgets the flow. It does not run now and will not run again. Do not call this for the flow
    /// of a kernel thread.
    #[inline]
    pub fn end(&mut self) {
        #[cfg(umcg_tsan)]
        if !self.fiber.is_null() {
            // SAFETY: made by `start`, not the current one, and forgotten here.
            unsafe { tsan::__tsan_destroy_fiber(self.fiber) };
            self.fiber = null_mut();
        }
    }

    /// Right before a switch from `from`, the running flow, to `to`.
    ///
    /// # Safety
    /// Both are valid, and the switch follows with nothing but trivial code in between.
    #[inline(always)]
    pub unsafe fn leave(from: *mut Flow, to: *mut Flow) {
        let _ = (from, to);
        #[cfg(any(umcg_asan, umcg_tsan))]
        // SAFETY: passed on.
        unsafe {
            tell(from, to, false)
        };
    }

    /// As [`Flow::leave`], from a flow that ends with this switch.
    ///
    /// # Safety
    /// As [`Flow::leave`].
    #[inline(always)]
    pub unsafe fn leave_for_good(from: *mut Flow, to: *mut Flow) {
        let _ = (from, to);
        #[cfg(any(umcg_asan, umcg_tsan))]
        // SAFETY: passed on.
        unsafe {
            tell(from, to, true)
        };
    }

    /// First thing after a switch to `me`, on the stack of `me`.
    ///
    /// # Safety
    /// `me` runs. The last [`Flow::leave`] on this thread-local storage named `me` as its `to`, or
    /// there was no announcement at all.
    #[inline(always)]
    pub unsafe fn arrive(me: *mut Flow) {
        let _ = me;
        #[cfg(umcg_asan)]
        // SAFETY: the caller vouches for it, and it is the running flow: no other code looks at it.
        unsafe { &mut *me }.asan.arrive();
    }
}

/// # Safety
/// As [`Flow::leave`].
#[cfg(any(umcg_asan, umcg_tsan))]
#[inline(always)]
unsafe fn tell(from: *mut Flow, to: *mut Flow, for_good: bool) {
    // SAFETY: the caller vouches for it, and it is the running flow: no other code looks at it.
    let from = unsafe { &mut *from };
    // SAFETY: the caller vouches for it, and it is suspended.
    let to = unsafe { &mut *to };
    #[cfg(umcg_asan)]
    from.asan.leave(&mut to.asan, for_good);
    #[cfg(umcg_tsan)]
    {
        if from.fiber.is_null() {
            from.fiber = tsan::__tsan_get_current_fiber();
        }
        // Without flags, everything before the switch happens before everything after it.
        // SAFETY: a fiber that runs nowhere.
        unsafe { tsan::__tsan_switch_to_fiber(to.fiber, 0) };
    }
    let _ = for_good;
}

#[cfg(umcg_asan)]
mod asan {
    use super::*;

    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(
            fake_stack: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        fn __sanitizer_finish_switch_fiber(
            fake_stack: *mut c_void,
            bottom: *mut *const c_void,
            size: *mut usize,
        );
        pub(super) fn __lsan_register_root_region(start: *const c_void, size: usize);
        fn __lsan_unregister_root_region(start: *const c_void, size: usize);
        fn __asan_unpoison_memory_region(start: *const c_void, size: usize);
    }

    #[derive(Debug)]
    pub(super) struct Flow {
        fake_stack: *mut c_void,
        bottom: usize,
        size: usize,
        /// Announced by `leave`, but not yet arrived.
        expected: bool,
    }

    impl Flow {
        pub(super) const fn new() -> Self {
            Self {
                fake_stack: null_mut(),
                bottom: 0,
                size: 0,
                expected: false,
            }
        }

        pub(super) fn start(&mut self, base: usize, top: usize) {
            *self = Self {
                fake_stack: null_mut(),
                bottom: base,
                size: top - base,
                expected: false,
            };
            forget_frames(base, top);
        }

        #[inline(always)]
        pub(super) fn leave(&mut self, to: &mut Flow, for_good: bool) {
            self.find_bounds();
            // Without a place to keep the fake stack in, it is freed.
            let fake_stack = if for_good {
                null_mut()
            } else {
                &raw mut self.fake_stack
            };
            // SAFETY: the switch to that stack follows.
            unsafe {
                __sanitizer_start_switch_fiber(fake_stack, to.bottom as *const c_void, to.size)
            };
            to.expected = true;
        }

        #[inline(always)]
        pub(super) fn arrive(&mut self) {
            if !self.expected {
                self.announce();
            }
            self.expected = false;
            // SAFETY: on the stack that the switch was announced for.
            unsafe { __sanitizer_finish_switch_fiber(self.fake_stack, null_mut(), null_mut()) };
        }

        /// A flow that was not started on a stack runs on its thread's stack.
        pub(super) fn find_bounds(&mut self) {
            if self.size == 0 {
                (self.bottom, self.size) = thread_stack();
            }
        }

        /// For a flow that was switched to out of an injected function, or from a flow that has a
        /// storage of its own.
        fn announce(&mut self) {
            self.find_bounds();
            let mut abandoned = null_mut();
            // SAFETY: `finish` follows.
            unsafe {
                __sanitizer_start_switch_fiber(
                    &mut abandoned,
                    self.bottom as *const c_void,
                    self.size,
                )
            };
        }
    }

    /// Frames that were given up never removed their red zones.
    pub(super) fn forget_frames(low: usize, high: usize) {
        // SAFETY: a part of a mapped stack.
        unsafe { __asan_unpoison_memory_region(low as *const c_void, high - low) };
    }

    pub(super) fn forget(base: usize, top: usize) {
        forget_frames(base, top);
        // SAFETY: registered when it was allocated.
        unsafe { __lsan_unregister_root_region(base as *const c_void, top - base) };
    }
}

#[cfg(umcg_tsan)]
mod tsan {
    use super::*;

    unsafe extern "C" {
        pub(super) safe fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        pub(super) fn __tsan_destroy_fiber(fiber: *mut c_void);
        pub(super) safe fn __tsan_get_current_fiber() -> *mut c_void;
        pub(super) fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }
}

/// Requests to Valgrind: instructions that do nothing, in an order that no compiler emits
/// (valgrind.h).
mod valgrind {
    pub(super) const RUNNING_ON_VALGRIND: usize = 0x1001;
    pub(super) const STACK_REGISTER: usize = 0x1501;
    pub(super) const STACK_DEREGISTER: usize = 0x1502;

    /// Valgrind's answer, or 0 where it does not run.
    #[inline]
    pub(super) fn request(code: usize, first: usize, second: usize) -> usize {
        let arguments = [code, first, second, 0, 0, 0];
        cfg_if::cfg_if! {
            if #[cfg(target_arch = "x86_64")] {
                let answer;
                // SAFETY: rdi is rotated by 128 bits in all, and rbx swapped with itself. Valgrind
                // reads the arguments.
                unsafe {
                    core::arch::asm!(
                        "rol rdi, 3",
                        "rol rdi, 13",
                        "rol rdi, 61",
                        "rol rdi, 51",
                        "xchg rbx, rbx",
                        inout("rdi") 0usize => _, in("rax") &raw const arguments,
                        inout("rdx") 0usize => answer,
                        options(nostack),
                    );
                }
                answer
            } else if #[cfg(target_arch = "aarch64")] {
                let answer;
                // SAFETY: x12 is rotated by 128 bits in all, and x10 or-ed with itself. Valgrind
                // reads the arguments.
                unsafe {
                    core::arch::asm!(
                        "ror x12, x12, #3",
                        "ror x12, x12, #13",
                        "ror x12, x12, #51",
                        "ror x12, x12, #61",
                        "orr x10, x10, x10",
                        inout("x12") 0usize => _, in("x4") &raw const arguments,
                        inout("x3") 0usize => answer,
                        options(nostack, preserves_flags),
                    );
                }
                answer
            } else {
                let _ = arguments;
                0
            }
        }
    }
}
