//! The registers with which a thread begins that a call at a site would have made.
//!
//! The kernel gives a child all registers of its maker but the stack pointer and the result. Here
//! it gets those by which the C library's function for threads hands its arguments over, and the
//! maker's floating-point environment: control words and exceptions. The others are 0: the hook
//! does not know them.

use crate::call::Call;
use core::arch::asm;
use core::mem::offset_of;

/// The first registers of a thread.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Child {
    resume: usize,
    stack: usize,
    arguments: [usize; 6],
    mxcsr: u32,
    /// Control word and status word.
    x87: [u16; 2],
}

const _: () = assert!(offset_of!(Child, resume) == 0);
const _: () = assert!(offset_of!(Child, stack) == 8);
const _: () = assert!(offset_of!(Child, arguments) == 16);
const _: () = assert!(offset_of!(Child, mxcsr) == 64);
const _: () = assert!(offset_of!(Child, x87) == 68);
const _: () = assert!(size_of::<Child>() == 72);

impl Child {
    /// The same in words.
    #[must_use]
    pub fn into_words(self) -> [u64; 9] {
        let [control, status] = self.x87.map(u64::from);
        let control = u64::from(self.mxcsr) | control << 32 | status << 48;
        let mut words = [0; 9];
        words[0] = self.resume as u64;
        words[1] = self.stack as u64;
        for (word, argument) in words[2..].iter_mut().zip(self.arguments) {
            *word = argument as u64;
        }
        words[8] = control;
        words
    }
}

impl Call {
    /// A child of the caller that goes on behind the site, on the stack that ends here.
    ///
    /// # Safety
    /// Called by the hook, with the call that the stub has passed.
    #[must_use]
    pub unsafe fn child(&self, stack: usize) -> Child {
        let (mut mxcsr, mut x87) = (0u32, [0u16; 2]);
        // SAFETY: stores four bytes and four.
        unsafe {
            asm!(
                "stmxcsr [{0}]",
                "fnstcw [{1}]",
                "fnstsw [{1} + 2]",
                in(reg) &raw mut mxcsr,
                in(reg) &raw mut x87,
                options(nostack, preserves_flags),
            );
        }
        Child {
            // SAFETY: the stub stored a descriptor, and descriptors live for ever.
            resume: unsafe { (*self.site).resume },
            stack,
            arguments: self.arguments,
            mxcsr,
            x87,
        }
    }
}

/// Becomes the child, with the result 0.
///
/// # Safety
/// The words of a [`Child`], whose stack and code are there. Nothing on the calling stack is used
/// again.
pub unsafe fn begin_child(child: *const u64) -> ! {
    // The stack pointer comes last: handlers of signals write below it, where the words may be.
    // SAFETY: passed on.
    unsafe {
        asm!(
            "ldmxcsr [rdi + 64]",
            "fldcw [rdi + 68]",
            "mov ax, [rdi + 70]",
            "and eax, 0x3f",
            "jz 2f",
            "sub rsp, 32",
            "fnstenv [rsp]",
            "or [rsp + 4], ax",
            "fldenv [rsp]",
            "2:",
            "mov rcx, [rdi]",
            "mov r11, [rdi + 8]",
            "mov rsi, [rdi + 24]",
            "mov rdx, [rdi + 32]",
            "mov r10, [rdi + 40]",
            "mov r8, [rdi + 48]",
            "mov r9, [rdi + 56]",
            "mov rdi, [rdi + 16]",
            "xor ebx, ebx",
            "xor ebp, ebp",
            "xor r12d, r12d",
            "xor r13d, r13d",
            "xor r14d, r14d",
            "xor r15d, r15d",
            "mov rsp, r11",
            "xor eax, eax",
            "jmp rcx",
            in("rdi") child,
            options(noreturn),
        )
    }
}
