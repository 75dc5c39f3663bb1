//! The frame of a signal handler.

use crate::arch;
use crate::base::call::call;
use std::ffi::c_void;

/// The state that a handler interrupted, and that the kernel restores when it returns: registers,
/// signal mask, alternate stack.
#[repr(transparent)]
pub(crate) struct Frame(libc::ucontext_t);

impl Frame {
    /// The frame of a handler that was installed with `SA_SIGINFO`, by its third argument.
    ///
    /// # Safety
    /// `context` is that argument, and the handler has not returned while the result is in use.
    pub(crate) unsafe fn of<'a>(context: *mut c_void) -> &'a mut Frame {
        // SAFETY: the kernel passes a ucontext_t, and this is one.
        unsafe { &mut *context.cast::<Frame>() }
    }

    /// The signals that the interrupted flow blocks.
    pub(crate) fn mask(&self) -> u64 {
        // SAFETY: the kernel's signal set is the first word of the C library's.
        unsafe { (&raw const self.0.uc_sigmask).cast::<u64>().read() }
    }

    /// Whether the interrupted flow was on the alternate stack of its kernel thread: in a handler.
    pub(crate) fn is_on_signal_stack(&self) -> bool {
        let stack = &self.0.uc_stack;
        let offset = self.stack_pointer().wrapping_sub(stack.ss_sp as usize);
        stack.ss_flags & libc::SS_DISABLE == 0 && offset <= stack.ss_size && offset != 0
    }

    /// Whether the handler interrupted a system call that now ends or begins anew: a call that was
    /// about to sleep. `load` reads an aligned word of code, if it can be read.
    pub(crate) fn has_cut_a_call_short(&self, load: impl Fn(usize) -> Option<u32>) -> bool {
        let code = |place: usize| {
            let (word, shift) = (place & !3, place % 4 * 8);
            // Instructions need not be aligned.
            let next = if shift == 0 {
                0
            } else {
                load(word.wrapping_add(4))?
            };
            Some((u64::from(load(word)?) | u64::from(next) << 32) >> shift)
        };
        let is_call = |place: usize| {
            code(place).is_some_and(|code| code as u32 & arch::CALL_MASK == arch::CALL)
        };
        let place = self.program_counter();
        is_call(place)
            || (arch::result(&self.0) == -(libc::EINTR as isize)
                && is_call(place.wrapping_sub(arch::CALL_LENGTH)))
    }

    /// Makes the frame restore the state of the calling kernel thread, not of the one that it was
    /// made on. `mask`: the signals that the calling one blocks outside the handler.
    pub(crate) fn adopt_thread(&mut self, mask: u64) {
        // SAFETY: as in `mask`.
        unsafe { (&raw mut self.0.uc_sigmask).cast::<u64>().write(mask) };
        let stack = (&raw mut self.0.uc_stack).expose_provenance();
        // SAFETY: reads the setting into the frame.
        unsafe { call(libc::SYS_sigaltstack, [0, stack, 0, 0, 0, 0]) };
        arch::adopt_thread_pointer(&mut self.0);
    }
}

// The places of the registers.
impl Frame {
    pub(crate) fn program_counter(&self) -> usize {
        arch::program_counter(&self.0)
    }

    pub(crate) fn set_program_counter(&mut self, to: usize) {
        arch::set_program_counter(&mut self.0, to);
    }

    /// Whether a trap is to follow the next instruction. False if the architecture knows no such
    /// trap.
    pub(crate) fn set_single_step(&mut self, to: bool) -> bool {
        arch::set_single_step(&mut self.0, to)
    }

    pub(crate) fn stack_pointer(&self) -> usize {
        arch::stack_pointer(&self.0)
    }

    pub(crate) fn set_stack_pointer(&mut self, to: usize) {
        arch::set_stack_pointer(&mut self.0, to);
    }

    /// Whether the interrupted flow has registers with which it has to return on this thread.
    pub(crate) fn has_registers_of_thread(&self) -> bool {
        arch::has_registers_of_thread(&self.0)
    }

    /// The return address of a function that has no frame yet, if a register holds it.
    pub(crate) fn return_register(&self) -> Option<usize> {
        arch::return_register(&self.0)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::ffi::c_int;

    /// The area of a frame for vector registers: as the kernel describes it, with these components
    /// in use.
    #[repr(C, align(64))]
    struct Area {
        legacy: [u32; 116],
        mark: u32,
        rest: [u32; 11],
        in_use: u64,
        header: [u64; 7],
    }

    fn is_bound(mark: u32, in_use: u64) -> bool {
        let mut area = Area {
            legacy: [0; 116],
            mark,
            rest: [0; 11],
            in_use,
            header: [0; 7],
        };
        // SAFETY: zeroes are a context.
        let mut frame = Frame(unsafe { std::mem::zeroed() });
        frame.0.uc_mcontext.fpregs = (&raw mut area).cast();
        frame.has_registers_of_thread()
    }

    #[test]
    fn tiles_bind_a_flow_to_its_thread() {
        const MARK: u32 = 0x4650_5853;
        assert!(is_bound(MARK, 1 << 18 | 7));
        assert!(is_bound(MARK, 1 << 17));
        assert!(!is_bound(MARK, 0xe7 | 1 << 9 | 1 << 19));
        assert!(!is_bound(0, u64::MAX), "no header without the mark");
    }

    #[test]
    fn a_frame_of_the_kernel_is_read() {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static SEEN: AtomicU32 = AtomicU32::new(u32::MAX);
        extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
            // SAFETY: the kernel passes it, and this is the handler.
            let frame = unsafe { Frame::of(context) };
            SEEN.store(u32::from(frame.has_registers_of_thread()), Relaxed);
        }
        // SAFETY: zeroes are an action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: an action.
        let is_set = unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) } == 0;
        assert!(is_set);
        // SAFETY: no arguments.
        let tid = unsafe { call(libc::SYS_gettid, [0; 6]) } as usize;
        let process = std::process::id() as usize;
        let arguments = [process, tid, libc::SIGUSR2 as usize, 0, 0, 0];
        // SAFETY: a signal to the caller.
        assert_eq!(unsafe { call(libc::SYS_tgkill, arguments) }, 0);
        assert_eq!(SEEN.load(Relaxed), 0);
    }
}
