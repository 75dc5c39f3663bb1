//! Whether an interrupted flow, or one of its callers, is in the C library, the loader or a
//! language runtime.
//!
//! A flow that is suspended there may keep one of their locks, malloc's or the loader's. The next
//! flow on the same kernel thread would wait for that lock in vain. It is not enough that the
//! *innermost* function is the program's: the C library calls the program back with a lock held,
//! from `dlopen` (constructors), `dl_iterate_phdr`, `pthread_once`, streams with functions of the
//! program's. So every frame counts. A signal handler counts, too, since it returns to the C
//! library or to the kernel's code.
//!
//! Two steps, as for most flows it is cheap to see that there is no such frame:
//!
//! 1. *Suspects.* A live caller has its return address in memory between the stack pointer and the
//!    stack's top, or in the register for it. If no word there is an address in a runtime, there is
//!    no such caller. This costs half a nanosecond a word.
//! 2. *The walk.* A suspect may be left over from an earlier call, in a part of a frame that was
//!    not written yet. So the unwinder goes from the interrupted frame up to the highest suspect,
//!    and checks each return address: about a microsecond a frame. If it takes the loader's lock,
//!    no flow on this kernel thread holds it, as no flow is suspended with it. If it loses its way,
//!    as in code without unwind tables, the answer is yes: the caller asks again later, perhaps for
//!    as long as that code runs. (For riscv64, C compilers make tables only if they are told to.)
//!    The answer is also yes if wrong tables lead it to unmapped memory ([`attempt`]), provided
//!    that it takes no lock.
//!
//! `clock_gettime` and its like have no lock, and a flow that reads the clock all the time is
//! nearly always in there. So the kernel's code may be interrupted, and its caller in the C library
//! does not count.
//!
//! The frames that a thread had when it became a worker (`start_thread`, `__libc_start_main`) do
//! not count either: [`stack`] says where they begin. A flow on a stack unknown to us, such as a
//! coroutine library's, is walked to its end.
//!
//! A runtime may be loaded after the first look. A handler cannot ask for that, since the loader
//! has a lock. So code that is about to suspend a flow first makes a call of [`renew`] happen
//! outside of handlers, and looks again if that found another runtime
//! ([`preempt`](crate::umcg::preempt)).
//!
//! # Rejected
//!
//! - *Step 1 alone*: a left-over address in the frame of a long loop would prevent preemption of
//!   its worker for as long as the loop runs.
//! - *The walk alone*: twenty times the cost, and code without unwind tables would never be
//!   preempted.
//! - *Frame pointers*: the C libraries of most systems have none.
//! - *The state of the locks*: there is no way to ask for it.

use super::Frame;
use super::runtimes::Ranges;
use super::{only, set_mask};
use crate::arch;
use crate::os::attempt;
use crate::os::unwinder::{self, StackFrame, each_caller};
use std::ops::{ControlFlow, Range};
use std::ptr::null_mut;
use umcg_context::annotate;

/// Bytes of stack that [`is_in_runtime`] may need; most of that is for registers, of which aarch64
/// has many.
pub(crate) const ROOM: usize = 8 << 10;

/// Runs the initializations that must not happen in a signal handler.
pub(crate) fn prepare() {
    base();
}

/// Takes note of runtimes that were loaded since. Do not call it in a signal handler: it waits for
/// the loader's lock.
pub(crate) fn renew() {
    Ranges::renew();
}

/// A value that names the known runtimes. It changes once [`renew`] has found others.
pub(crate) fn known() -> usize {
    (&raw const *Ranges::get()).addr()
}

/// Whether the flow is in a runtime, or may be. The frames that count lie in `stack`.
/// Async-signal-safe, once [`prepare`] has been called.
pub(crate) fn is_in_runtime(frame: &Frame, stack: Range<usize>) -> bool {
    Ranges::get().is_runtime(frame.program_counter()) || is_called_by_runtime(frame, stack)
}

/// The same for the callers of the innermost function.
fn is_called_by_runtime(frame: &Frame, stack: Range<usize>) -> bool {
    let ranges = Ranges::get();
    let Some((suspect, end)) = suspect(
        ranges,
        frame.stack_pointer(),
        frame.return_register(),
        stack,
    ) else {
        return false;
    };
    let start = frame.program_counter();
    Walk {
        ranges,
        start,
        suspect,
        end,
        before: None,
        is_clear: false,
    }
    .stops()
}

/// Whether the flow may keep a lock of a runtime's. As [`is_in_runtime`], but the innermost
/// function may be a runtime's if it has no frame, as those that copy memory: such a function takes
/// no lock.
pub(crate) fn may_keep_lock(frame: &Frame, stack: Range<usize>) -> bool {
    let is_in_function = Ranges::get().is_runtime(frame.program_counter()) && has_frame(frame);
    is_in_function || is_called_by_runtime(frame, stack)
}

/// Whether the innermost function keeps more on the stack than its return address, or may do so.
fn has_frame(frame: &Frame) -> bool {
    let (mut is_innermost, mut has_frame) = (false, true);
    let is_whole = each(&mut |StackFrame { pc, stack_pointer }| {
        if is_innermost {
            has_frame = stack_pointer > frame.stack_pointer() + size_of::<usize>();
            return ControlFlow::Break(());
        }
        is_innermost = pc == frame.program_counter();
        ControlFlow::Continue(())
    });
    !is_whole || has_frame
}

/// As [`is_in_runtime`] for the calling flow: whether a runtime has called the code that calls
/// this. If there is no `room` for the unwinder, a suspect counts as a runtime.
pub(crate) fn is_beneath_runtime(stack: Range<usize>, room: bool) -> bool {
    let (ranges, here) = (Ranges::get(), 0usize);
    let Some((suspect, end)) = suspect(ranges, (&raw const here).addr(), None, stack) else {
        return false;
    };
    !room
        || Walk {
            ranges,
            start: 0,
            suspect,
            end,
            before: Some(0),
            is_clear: false,
        }
        .stops()
}

/// The highest place that may hold a return address into a runtime, and the end of the frames that
/// count. None if there is no such place.
fn suspect(
    ranges: &Ranges,
    low: usize,
    register: Option<usize>,
    stack: Range<usize>,
) -> Option<(usize, usize)> {
    if !stack.contains(&low) {
        return Some((usize::MAX, usize::MAX));
    }
    highest_suspect(ranges, low, register, stack.end).map(|suspect| (suspect, stack.end))
}

/// As [`each_caller`]. Returns false if that read unmapped memory.
///
/// If the unwinder takes the loader's lock, a fault ends the process, as without an attempt:
/// aborted with that lock held, it would make the next `dlopen` or exception wait for ever.
fn each(step: &mut dyn FnMut(StackFrame) -> ControlFlow<()>) -> bool {
    each_by(unwinder::takes_no_lock(), step)
}

fn each_by(may_be_given_up: bool, step: &mut dyn FnMut(StackFrame) -> ControlFlow<()>) -> bool {
    if !may_be_given_up {
        each_caller(step);
        return true;
    }
    // A fault whose signal is blocked ends the process.
    let mask = set_mask(!(only(libc::SIGSEGV) | only(libc::SIGBUS)));
    // SAFETY: the unwinder takes no lock, except for code that has registered its tables by itself
    // (see `unwinder`), whose tables then have to be right. `step` owns nothing. No handler of the
    // program's runs, as all signals are blocked but those of faults.
    let is_whole = unsafe { attempt::call(&mut || each_caller(&mut *step)) };
    set_mask(mask);
    is_whole
}

/// `register`: the return address of a function that has no frame yet.
fn highest_suspect(
    ranges: &Ranges,
    low: usize,
    register: Option<usize>,
    end: usize,
) -> Option<usize> {
    let low = low.next_multiple_of(size_of::<usize>());
    if annotate::watches_memory() {
        // they would report reads of words that were never written, or must not be read
        return Some(end);
    }
    let mut at = end & !(size_of::<usize>() - 1);
    while at > low {
        at -= size_of::<usize>();
        // SAFETY: everything between the stack pointer of a flow and the top of its stack is
        // mapped.
        let word = unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() };
        if ranges.contains(arch::stripped(word)) {
            return Some(at);
        }
    }
    register
        .filter(|address| ranges.contains(arch::stripped(*address)))
        .map(|_| low)
}

struct Walk {
    ranges: &'static Ranges,
    /// Where the flow was interrupted; frames before it are the handler's. 0 for a flow that looks
    /// at itself.
    start: usize,
    suspect: usize,
    /// Frames from here on do not count.
    end: usize,
    /// The frame before.
    before: Option<usize>,
    is_clear: bool,
}

impl Walk {
    /// Whether there is a runtime among the callers, or the walk is lost.
    fn stops(mut self) -> bool {
        let is_whole = each(&mut |caller| self.step(caller));
        !(is_whole && self.is_clear)
    }

    fn step(&mut self, StackFrame { pc, stack_pointer }: StackFrame) -> ControlFlow<()> {
        match self.before {
            None if pc != self.start => return ControlFlow::Continue(()),
            None => {}
            Some(_) if stack_pointer >= self.end => {
                self.is_clear = true;
                return ControlFlow::Break(());
            }
            Some(before) => {
                let asked_for_time = before == self.start && self.ranges.is_kernel(before);
                if self.ranges.contains(pc) && !asked_for_time {
                    return ControlFlow::Break(());
                }
            }
        }
        // A flow's first frame has no caller.
        if pc == 0 || stack_pointer > self.suspect {
            self.is_clear = true;
            return ControlFlow::Break(());
        }
        self.before = Some(pc);
        ControlFlow::Continue(())
    }
}

/// Where the frames of the calling thread lie, without the frames of the C library that it began
/// with. Empty if that is not known.
pub(crate) fn stack() -> Range<usize> {
    // SAFETY: an all-zero attribute is overwritten by the first call.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread is alive.
    if unsafe { libc::pthread_getattr_np(me, &mut attributes) } != 0 {
        return 0..0;
    }
    let (mut low, mut size) = (null_mut(), 0);
    // SAFETY: filled by the call above.
    unsafe { libc::pthread_attr_getstack(&attributes, &mut low, &mut size) };
    // SAFETY: as above, and not used again.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    let (low, base) = (low.addr(), base());
    if (low..low + size).contains(&base) {
        low..base
    } else {
        0..0
    }
}

/// From which address on the frames are those of the C library that the calling thread began with;
/// 0 if that is not known.
fn base() -> usize {
    let (ranges, mut base) = (Ranges::get(), 0);
    let is_whole = each(&mut |caller| {
        base = caller.stack_pointer;
        if ranges.is_runtime(caller.pc) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    if is_whole { base } else { 0 }
}

#[cfg(all(test, not(any(umcg_asan, umcg_tsan))))]
mod tests {
    use super::*;
    use std::ffi::c_void;

    /// A walk that was aborted with the loader's lock held would leave it locked.
    #[test]
    fn a_look_that_takes_the_loaders_lock_is_not_given_up() {
        prepare();
        for may_be_given_up in [true, false] {
            let mut is_plain = None;
            assert!(each_by(may_be_given_up, &mut |_| {
                is_plain = Some(umcg_context::local::attempt().is_null());
                ControlFlow::Break(())
            }));
            assert_eq!(is_plain, Some(!may_be_given_up));
        }
    }

    /// A look at callers has enough room on a worker's stack.
    #[test]
    fn the_room_is_enough() {
        extern "C" fn look(_: *mut c_void) {
            let mut count = 0;
            assert!(each(&mut |_| {
                count += 1;
                ControlFlow::Continue(())
            }));
            assert!(count > 3);
        }
        prepare();
        const BYTES: usize = 64 << 10;
        const MARK: u64 = 0x5eed_5eed_5eed_5eed;
        let mut stack = vec![MARK; BYTES / size_of::<u64>()];
        let top = stack
            .as_mut_ptr()
            .wrapping_add(stack.len())
            .map_addr(|top| top & !15);
        // SAFETY: a stack of this test's; `look` returns.
        unsafe { crate::os::elsewhere::call(top.cast(), look, null_mut()) };
        let untouched = stack.iter().take_while(|word| **word == MARK).count() * size_of::<u64>();
        assert!(BYTES - untouched <= ROOM, "{}", BYTES - untouched);
    }
}
