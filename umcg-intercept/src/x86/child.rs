//! The registers with which a thread begins that a call at a site would have made.
//!
//! The kernel gives a child all registers of its maker but the stack pointer and the result. Here
//! it gets those by which the C library's function for threads hands its arguments over, and the
//! maker's control words. The others are 0: the hook does not know them.

use crate::call::Call;
use core::arch::asm;
use core::mem::offset_of;
use core::ptr::from_ref;

/// Where the stub keeps the MXCSR of the caller, from its [`Call`] on.
const MXCSR: usize = 528;

/// The first registers of a thread.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Child {
    resume: usize,
    stack: usize,
    arguments: [usize; 6],
    mxcsr: u32,
    x87: u32,
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
        let control = u64::from(self.mxcsr) | u64::from(self.x87) << 32;
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
        let mxcsr = from_ref(self)
            .cast::<u8>()
            .wrapping_add(MXCSR)
            .cast::<u32>();
        let mut x87 = 0u16;
        // SAFETY: stores two bytes.
        unsafe { asm!("fnstcw [{}]", in(reg) &raw mut x87, options(nostack, preserves_flags)) };
        Child {
            // SAFETY: the stub stored a descriptor, and descriptors live for ever.
            resume: unsafe { (*self.site).resume },
            stack,
            arguments: self.arguments,
            // SAFETY: in the frame of the stub.
            mxcsr: unsafe { mxcsr.read() },
            x87: x87.into(),
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
