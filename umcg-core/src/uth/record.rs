//! The descriptor of a uth, which lives at the top of its own stack, and the states of a uth.
//!
//! ```text
//!   … frames | portable context, if the method needs one | extension | UthRecord (two cache lines) | top
//! ```
//!
//! Stacks are never unmapped, so a record is readable for ever. A stale [`Uth`] finds the state of
//! the uth that lives there now, and a call on it gets an error instead of a fault. The extension
//! is room for the data that the layer above keeps with a uth (a worker). It never holds anything
//! else, so a stale pointer to a worker is as safe. All fields are atomics for that reason only.
//! The writers of each field:
//!
//! | field | written by |
//! |---|---|
//! | `context`, `state`, `vp`, `short_way` | the virtual processor that runs the uth; when it does not run, the thread that makes, deletes or switches to it |
//! | `arg`, `entry`, `name` | the thread that makes it anew; `arg` also by `set_arg` |
//! | `link` | the stack pool, while the uth is deleted |

use super::vp::Vp;
use super::{EntryFn, Method};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering::*};
use umcg_context::Context;
use umcg_context::annotate::Flow;
use umcg_context::stack::{SizeClass, Stack};

/// Whether a uth has a flow that can run. A zeroed record is `DELETED`. The `READY` states contain
/// the method too, so that one comparison checks both.
///
/// Whether a `READY` uth runs just now is stored in its processor: `vp.current`. So a switch
/// changes no state.
pub(crate) mod state {
    pub(crate) const DELETED: u8 = 0;
    pub(crate) const FINISHED: u8 = 1;
    pub(crate) const DISCARDED: u8 = 2;
    /// It belongs to a worker: only a server runs it.
    pub(crate) const WORKER: u8 = 3;
    pub(crate) const READY: u8 = 4;
}

/// How many bytes of a name are kept.
pub const NAME_BYTES: usize = 23;

/// Bytes between the frames and the record, for the layer above.
pub(crate) const EXTENSION_BYTES: usize = 512;

/// The address below which frames begin, on a stack without a record. Above it may lie, later or
/// before, descriptors that hold the same type for ever. The boot frame that an earlier uth's
/// method left below no longer counts.
pub(crate) fn frames_begin(stack: &Stack) -> *mut u8 {
    // SAFETY: the top of a stack.
    unsafe { UthRecord::at_top(stack.top()) }
        .boot_frame
        .store(0, Relaxed);
    stack
        .top()
        .wrapping_sub(size_of::<UthRecord>() + EXTENSION_BYTES)
}

/// The descriptor.
#[repr(C, align(64))]
pub(crate) struct UthRecord {
    pub(crate) context: UnsafeCell<Context>,
    /// The processor that may run it by the fast path. It is the one that ran it last, while the
    /// uth is `READY` and both switch by the assembly; otherwise null. So one comparison with the
    /// caller's processor is all that a switch has to check.
    pub(crate) short_way: AtomicPtr<Vp>,
    pub(crate) entry: AtomicUsize,
    pub(crate) arg: AtomicPtr<c_void>,
    pub(crate) state: AtomicU8,
    pub(crate) method: AtomicU8,
    name_len: AtomicU8,
    native: AtomicU8,
    class: AtomicU8,
    /// The frame from which the method `sjlj` begins its flows is on the stack.
    pub(crate) boot_frame: AtomicU8,
    // Second cache line: fields that a switch does not need.
    name: [AtomicU8; NAME_BYTES + 1],
    pub(crate) portable: AtomicPtr<u8>,
    /// The processor that ran it last, or null.
    pub(crate) vp: AtomicPtr<Vp>,
    /// The layer above's data for the uth (a worker), or null.
    pub(crate) extension: AtomicPtr<()>,
    base: AtomicPtr<u8>,
    /// The sanitizers' name of its flow; has no bytes without them.
    pub(crate) flow: UnsafeCell<Flow>,
    _link: usize,
}

const _: () = assert!(size_of::<UthRecord>() == 128 || cfg!(any(umcg_asan, umcg_tsan)));

// SAFETY: all fields but the context and the flow are atomics. Only the thread that runs or resumes
// the uth touches these two.
unsafe impl Sync for UthRecord {}

impl UthRecord {
    /// The record of a kernel thread's own flow, which has no stack of ours.
    pub(crate) const fn native() -> Self {
        Self {
            context: UnsafeCell::new(Context::empty()),
            short_way: AtomicPtr::new(null_mut()),
            vp: AtomicPtr::new(null_mut()),
            entry: AtomicUsize::new(0),
            arg: AtomicPtr::new(null_mut()),
            state: AtomicU8::new(state::DELETED),
            method: AtomicU8::new(0),
            name_len: AtomicU8::new(0),
            native: AtomicU8::new(1),
            class: AtomicU8::new(0),
            boot_frame: AtomicU8::new(0),
            name: [const { AtomicU8::new(0) }; NAME_BYTES + 1],
            portable: AtomicPtr::new(null_mut()),
            extension: AtomicPtr::new(null_mut()),
            base: AtomicPtr::new(null_mut()),
            flow: UnsafeCell::new(Flow::new()),
            _link: 0,
        }
    }

    /// Turns the top of a stack into a record and gives it the stack.
    pub(crate) fn place(stack: Stack, method: Method) -> &'static UthRecord {
        let place = stack
            .top()
            .wrapping_sub(size_of::<UthRecord>())
            .cast::<UthRecord>();
        let (base, class) = stack.into_parts();
        // SAFETY: the top of a stack is mapped for ever and 64-aligned, its contents are valid for
        // a `UthRecord` whatever they are (atomics and integers), and only atomics are written
        // while others may hold a reference.
        let record = unsafe { &*place };
        record.base.store(base.as_ptr(), Relaxed);
        record.class.store(class.index() as u8, Relaxed);
        if record.method.load(Relaxed) != method as u8 {
            record.method.store(method as u8, Relaxed);
            record.boot_frame.store(0, Relaxed);
        }
        record.native.store(0, Relaxed);
        record.name_len.store(0, Relaxed);
        record.short_way.store(null_mut(), Relaxed);
        record.vp.store(null_mut(), Relaxed);
        record.extension.store(null_mut(), Relaxed);
        record.portable.store(null_mut(), Relaxed);
        record
    }

    /// The record at this top of a stack. It was, is or will be placed there.
    ///
    /// # Safety
    /// It is the top of a stack.
    pub(crate) unsafe fn at_top(top: *mut u8) -> &'static UthRecord {
        // SAFETY: mapped for ever, and valid whatever it holds (see `place`).
        unsafe { &*top.wrapping_sub(size_of::<UthRecord>()).cast::<UthRecord>() }
    }

    /// Gives the stack back, once the uth is deleted.
    ///
    /// # Safety
    /// Nothing runs on the stack, and this is called once for each [`UthRecord::place`].
    pub(crate) unsafe fn take_stack(&self) -> Option<Stack> {
        let base = std::ptr::NonNull::new(self.base.load(Relaxed))?;
        self.base.store(null_mut(), Relaxed);
        let class = SizeClass::from_index(self.class.load(Relaxed) as usize);
        // SAFETY: the parts are those of `place`, and by the contract only one caller gets them.
        Some(unsafe { Stack::from_parts(base, class) })
    }

    /// Notes that a new flow begins on the stack.
    ///
    /// # Safety
    /// Nothing runs on it.
    #[inline(always)]
    pub(crate) unsafe fn start_flow(&self) {
        // SAFETY: no thread runs the uth, so its flow is the caller's to write.
        unsafe { &mut *self.flow.get() }
            .start(self.stack_base() as usize, self.stack_top() as usize);
    }

    /// The kind of this flow in messages.
    pub(crate) fn kind(&self) -> &'static str {
        if self.extension.load(Relaxed).is_null() {
            "uth"
        } else {
            "worker"
        }
    }

    /// Whether it runs on some virtual processor just now.
    pub(crate) fn is_running(&self) -> bool {
        // SAFETY: null or a processor's descriptor, which is never freed.
        let vp = unsafe { self.vp.load(Relaxed).as_ref() };
        vp.is_some_and(|vp| std::ptr::eq(vp.current.load(Relaxed), self))
    }

    /// Makes `vp` the processor that runs it, or ran it last.
    pub(crate) fn belongs_to(&self, vp: &Vp) {
        let vp = (vp as *const Vp).cast_mut();
        self.vp.store(vp, Relaxed);
        let short = self.state.load(Relaxed) == state::READY + Method::Asm as u8;
        self.short_way
            .store(if short { vp } else { null_mut() }, Relaxed);
    }

    /// Notes that it no longer has a flow that can run, or that a switch may choose.
    pub(crate) fn retire(&self, state: u8) {
        self.short_way.store(null_mut(), Relaxed);
        self.state.store(state, Relaxed);
    }

    pub(crate) fn is_native(&self) -> bool {
        self.native.load(Relaxed) == 1
    }

    /// The address below which frames may lie.
    #[inline]
    pub(crate) fn stack_top(&self) -> *mut u8 {
        let portable = self.portable.load(Relaxed);
        if portable.is_null() {
            self.extension_place()
        } else {
            portable
        }
    }

    /// Where the extension lies, in a record on a stack.
    #[inline]
    pub(crate) fn extension_place(&self) -> *mut u8 {
        (self as *const UthRecord)
            .cast_mut()
            .cast::<u8>()
            .wrapping_sub(EXTENSION_BYTES)
    }

    pub(crate) fn stack_base(&self) -> *mut u8 {
        self.base.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_entry(&self, entry: EntryFn, arg: *mut c_void) {
        self.entry.store(entry as usize, Relaxed);
        self.arg.store(arg, Relaxed);
    }

    /// The function that the uth runs; none for a kernel thread's own flow.
    pub(crate) fn entry(&self) -> Option<EntryFn> {
        // SAFETY: zero or a function that `set_entry` stored; `Option<fn>` represents null as None.
        unsafe { std::mem::transmute::<usize, Option<EntryFn>>(self.entry.load(Relaxed)) }
    }

    pub(crate) fn set_name(&self, name: &str) {
        let len = floor_char_boundary(name, NAME_BYTES);
        for (to, from) in self.name.iter().zip(name.as_bytes()[..len].iter()) {
            to.store(*from, Relaxed);
        }
        self.name_len.store(len as u8, Relaxed);
    }

    /// The name, and its length in bytes. Safe in a signal handler.
    pub(crate) fn name(&self) -> ([u8; NAME_BYTES], usize) {
        let mut bytes = [0; NAME_BYTES];
        for (to, from) in bytes.iter_mut().zip(&self.name) {
            *to = from.load(Relaxed);
        }
        (
            bytes,
            usize::from(self.name_len.load(Relaxed)).min(NAME_BYTES),
        )
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}
