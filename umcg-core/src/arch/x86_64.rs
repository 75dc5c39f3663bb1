//! x86-64 (System V ABI).

use libc::ucontext_t;
use std::arch::asm;

// `umcg_attempt(f, argument, place)` stores the stack pointer in `place`, calls `f(argument)`, and
// returns 0. With that stack pointer `umcg_attempt_failed` makes it return 1.
function!("umcg_attempt":
    "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16",
    "mov rbp, rsp", ".cfi_def_cfa_register rbp",
    "push rbx", "push r12", "push r13", "push r14", "push r15",
    "sub rsp, 8",
    "mov [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx",
    ".cfi_remember_state",
    "pop rbp", ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_restore_state",
    ".hidden umcg_attempt_failed", ".globl umcg_attempt_failed",
    "umcg_attempt_failed:",
    "lea rbp, [rsp + 48]",
    "mov eax, 1",
    "jmp 2b",
);

// `umcg_call(number, six arguments)`: a system call that touches neither errno nor anything else in
// thread-local storage, from a section of its own.
function!("umcg_call":
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "ret",
);

/// DWARF's number of the register in which `umcg_boundary` keeps its third argument: rbx.
pub(crate) const BOUNDARY_KEEPS: std::ffi::c_int = 3;

// A frame with a personality. The personality finds `report` in a register that the callee
// preserves.
function!("umcg_boundary":
    ".cfi_personality 0x9b, umcg_boundary_personality",
    "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16",
    "mov rbp, rsp", ".cfi_def_cfa_register rbp",
    "push rbx", ".cfi_offset rbx, -24",
    "sub rsp, 8",
    "mov rbx, rdx",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov rbx, [rbp - 8]", ".cfi_restore rbx",
    "leave", ".cfi_def_cfa rsp, 8",
    "ret",
);

// The frame pointer leads back, for the unwinder too.
function!("umcg_call_on":
    "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16",
    "mov rbp, rsp", ".cfi_def_cfa_register rbp",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp", ".cfi_def_cfa rsp, 8",
    "ret",
);

access!("umcg_store": "mov [rdi], rsi", "xor eax, eax", "mov eax, 1");
access!("umcg_store_word": "mov [rdi], esi", "xor eax, eax", "mov eax, 1");
access!("umcg_load": "mov eax, [rdi]", "", "mov rax, -1");

/// `syscall`.
pub(crate) const CALL: u32 = 0x050f;
pub(crate) const CALL_MASK: u32 = 0xffff;
pub(crate) const CALL_LENGTH: usize = 2;

/// The result of the system call that the handler's frame interrupted, if there was one.
pub(crate) fn result(context: &ucontext_t) -> isize {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] as isize
}

pub(crate) fn program_counter(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

pub(crate) fn set_program_counter(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = to as i64;
}

pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

pub(crate) fn set_stack_pointer(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] = to as i64;
}

/// Whether the frame has registers that the kernel gives back only on a thread that has used such
/// before: tiles (AMX). On another one the return from the handler drops them without a word.
pub(crate) fn has_registers_of_thread(context: &ucontext_t) -> bool {
    /// Where the kernel describes the area behind the legacy part, and marks that by a number.
    const DESCRIPTION: usize = 464;
    const MARK: u32 = 0x4650_5853;
    /// Where the processor has noted the components in use.
    const HEADER: usize = 512;
    const TILES: u64 = 3 << 17;
    let area = context.uc_mcontext.fpregs.cast::<u8>();
    if area.is_null() {
        return false;
    }
    // SAFETY: the kernel has written the legacy part, which is 512 bytes.
    let mark = unsafe { area.wrapping_add(DESCRIPTION).cast::<u32>().read() };
    if mark != MARK {
        return false;
    }
    // SAFETY: by the mark the header follows.
    let in_use = unsafe { area.wrapping_add(HEADER).cast::<u64>().read() };
    in_use & TILES != 0
}

/// The return address of a function that has no frame yet, if a register holds it.
pub(crate) fn return_register(_: &ucontext_t) -> Option<usize> {
    None
}

/// Sets whether a trap is to follow the next instruction. Returns true: there is such a trap.
pub(crate) fn set_single_step(context: &mut ucontext_t, to: bool) -> bool {
    const TRAP: libc::greg_t = 1 << 8;
    let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
    *flags = if to { *flags | TRAP } else { *flags & !TRAP };
    true
}

/// Makes the frame restore the calling thread's pointer, if a frame restores any.
pub(crate) fn adopt_thread_pointer(_: &mut ucontext_t) {}

/// Whether there is the code that returns from a signal handler, and the unwinder of this
/// architecture goes by that code and not by the frame.
///
/// # Safety
/// There is code.
pub(crate) unsafe fn is_misread_signal_return(_: usize) -> bool {
    false
}

/// A return address without the bits that pointer authentication adds.
pub(crate) fn stripped(word: usize) -> usize {
    word
}

/// The word before an abort handler of restartable sequences, as glibc tells it to the kernel.
pub(crate) const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// The addresses of `__rseq_size` and `__rseq_offset` as the linker knows them; null for none.
pub(crate) fn rseq_symbols() -> [*const std::ffi::c_void; 2] {
    let (bytes, offset);
    // SAFETY: reads two words of the table of global addresses.
    unsafe {
        asm!(
            ".weak __rseq_size", ".weak __rseq_offset",
            "mov {bytes}, qword ptr [rip + __rseq_size@GOTPCREL]",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            bytes = out(reg) bytes, offset = out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    [bytes, offset]
}

/// The layout of the thread control block by the ABI.
pub(crate) mod control_block {
    /// The control block ends at the thread pointer.
    pub(crate) const BELOW: bool = false;
    /// Words that point to the block itself.
    pub(crate) const SELVES: [usize; 2] = [0, 16];
    pub(crate) const MULTIPLE_THREADS: usize = 24;
    /// Words that are the same in all threads: the guards of stacks and of saved addresses.
    pub(crate) const SHARED: [usize; 2] = [40, 48];
    /// Flags; the second says that there is a shadow stack.
    pub(crate) const FEATURES: Option<usize> = Some(72);
}

/// The kernel's frame of a signal, copied to be restored by another kernel thread.
pub(crate) mod frame_copy {
    use std::arch::asm;
    use std::ffi::c_void;
    use std::mem::offset_of;

    /// The kernel's context: that of the C library goes on behind it.
    const CONTEXT: usize = offset_of!(libc::ucontext_t, uc_sigmask) + 8;
    /// In the state of the FPU: words of the kernel's, the first of which says that there is more
    /// than `fxsave` knows, and the second how many bytes in all.
    const RESERVED: usize = 464;
    const EXTENDED: u32 = 0x4650_5853;
    const PLAIN_BYTES: usize = 512;

    #[repr(C)]
    pub(crate) struct FrameCopy(libc::ucontext_t);

    impl FrameCopy {
        /// Copies the frame into this room. None if it is too small.
        ///
        /// # Safety
        /// The context is a handler's; the room is the caller's.
        pub(crate) unsafe fn make(
            context: *const c_void,
            low: usize,
            high: usize,
        ) -> Option<*mut FrameCopy> {
            let from = context.cast::<libc::ucontext_t>();
            // SAFETY: by the contract.
            let registers = unsafe { (*from).uc_mcontext.fpregs }.cast::<u8>();
            let bytes = if registers.is_null() {
                0
            } else {
                // SAFETY: the state is there, and has these words.
                let words = unsafe { *registers.wrapping_add(RESERVED).cast::<[u32; 2]>() };
                if words[0] == EXTENDED {
                    words[1] as usize
                } else {
                    PLAIN_BYTES
                }
            };
            let to = low.next_multiple_of(64);
            let context_at = (to + bytes).next_multiple_of(64);
            if context_at + size_of::<libc::ucontext_t>() > high {
                return None;
            }
            let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
            let copy = std::ptr::with_exposed_provenance_mut::<FrameCopy>(context_at);
            if bytes > 0 {
                // SAFETY: both are that long.
                unsafe { to.copy_from_nonoverlapping(registers, bytes) };
            }
            // SAFETY: as above, for the kernel's part.
            unsafe {
                copy.cast::<u8>()
                    .copy_from_nonoverlapping(context.cast(), CONTEXT)
            };
            let registers = if bytes > 0 {
                to.cast()
            } else {
                std::ptr::null_mut()
            };
            // SAFETY: just written.
            unsafe { (*copy).0.uc_mcontext.fpregs = registers };
            Some(copy)
        }

        /// The C library's view of it.
        pub(crate) fn context(&mut self) -> *mut c_void {
            (&raw mut self.0).cast()
        }
    }

    /// Makes the handler with this context return to `function`, on a stack that ends at `top`.
    ///
    /// # Safety
    /// The context is a handler's, and the stack is free.
    pub(crate) unsafe fn redirect(
        context: *mut c_void,
        function: unsafe extern "C" fn(*mut FrameCopy) -> !,
        copy: *mut FrameCopy,
        top: usize,
    ) {
        const DIRECTION: i64 = 0x400;
        // SAFETY: by the contract.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        registers[libc::REG_RIP as usize] = function as usize as i64;
        registers[libc::REG_RDI as usize] = copy.expose_provenance() as i64;
        // As after a call.
        registers[libc::REG_RSP as usize] = (top - 8) as i64;
        registers[libc::REG_EFL as usize] &= !DIRECTION;
    }

    /// Lets the kernel restore the copy.
    ///
    /// # Safety
    /// The calling flow ends here; the copy is whole.
    pub(crate) unsafe fn restore(copy: *const FrameCopy) -> ! {
        // SAFETY: the kernel finds the context where it has the stack pointer.
        unsafe {
            asm!(
                "mov rsp, {copy}",
                "mov eax, 15", // rt_sigreturn
                "syscall",
                "ud2",
                copy = in(reg) copy,
                options(noreturn),
            )
        }
    }
}

#[cfg(test)]
function!("umcg_test_read": "mov rax, [rdi]", "ret");
