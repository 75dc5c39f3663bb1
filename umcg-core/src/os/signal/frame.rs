//! The frame of a signal handler.

use std::ffi::c_void;
use std::ptr::null;

/// What a handler interrupted, and what the kernel restores when it returns: registers, signal mask, alternate stack.
#[repr(transparent)]
pub(crate) struct Frame(libc::ucontext_t);

impl Frame {
    /// That of a handler which was installed with `SA_SIGINFO`, by its third argument.
    ///
    /// # Safety
    /// It is that, and the handler has not returned while the result is in use.
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

    /// Makes it restore what the calling kernel thread has, not what the one had that it was made on. `mask`: the signals that the calling one blocks
    /// outside the handler.
    pub(crate) fn adopt_thread(&mut self, mask: u64) {
        // SAFETY: as in `mask`.
        unsafe { (&raw mut self.0.uc_sigmask).cast::<u64>().write(mask) };
        // SAFETY: reads the setting into the frame.
        unsafe { libc::sigaltstack(null(), &mut self.0.uc_stack) };
        self.adopt_thread_pointer();
    }
}

// Where the registers are. Only riscv64 has the thread pointer among those that a frame restores.
cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        impl Frame {
            pub(crate) fn program_counter(&self) -> usize {
                self.0.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
            }

            pub(crate) fn set_program_counter(&mut self, to: usize) {
                self.0.uc_mcontext.gregs[libc::REG_RIP as usize] = to as i64;
            }

            pub(crate) fn stack_pointer(&self) -> usize {
                self.0.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
            }

            pub(crate) fn set_stack_pointer(&mut self, to: usize) {
                self.0.uc_mcontext.gregs[libc::REG_RSP as usize] = to as i64;
            }

            /// Where a function that has no frame yet returns to, if a register says so.
            pub(crate) fn return_register(&self) -> Option<usize> {
                None
            }

            fn adopt_thread_pointer(&mut self) {}
        }
    } else if #[cfg(target_arch = "aarch64")] {
        impl Frame {
            pub(crate) fn program_counter(&self) -> usize {
                self.0.uc_mcontext.pc as usize
            }

            pub(crate) fn set_program_counter(&mut self, to: usize) {
                self.0.uc_mcontext.pc = to as u64;
            }

            pub(crate) fn stack_pointer(&self) -> usize {
                self.0.uc_mcontext.sp as usize
            }

            pub(crate) fn set_stack_pointer(&mut self, to: usize) {
                self.0.uc_mcontext.sp = to as u64;
            }

            /// Where a function that has no frame yet returns to, if a register says so.
            pub(crate) fn return_register(&self) -> Option<usize> {
                Some(self.0.uc_mcontext.regs[30] as usize)
            }

            fn adopt_thread_pointer(&mut self) {}
        }
    } else if #[cfg(target_arch = "riscv64")] {
        impl Frame {
            pub(crate) fn program_counter(&self) -> usize {
                self.0.uc_mcontext.__gregs[libc::REG_PC] as usize
            }

            pub(crate) fn set_program_counter(&mut self, to: usize) {
                self.0.uc_mcontext.__gregs[libc::REG_PC] = to as libc::c_ulong;
            }

            pub(crate) fn stack_pointer(&self) -> usize {
                self.0.uc_mcontext.__gregs[libc::REG_SP] as usize
            }

            pub(crate) fn set_stack_pointer(&mut self, to: usize) {
                self.0.uc_mcontext.__gregs[libc::REG_SP] = to as libc::c_ulong;
            }

            /// Where a function that has no frame yet returns to, if a register says so.
            pub(crate) fn return_register(&self) -> Option<usize> {
                Some(self.0.uc_mcontext.__gregs[libc::REG_RA] as usize)
            }

            fn adopt_thread_pointer(&mut self) {
                const TP: usize = 4;
                self.0.uc_mcontext.__gregs[TP] = umcg_context::thread_pointer() as libc::c_ulong;
            }
        }
    }
}
