//! One file per architecture, the same operations in each; here, what does not differ.

use crate::{Context, EntryFn};
use core::arch::global_asm;
use core::mem::offset_of;

// As the assembly has them.
const _: () = assert!(offset_of!(Context, pc) == 0);
const _: () = assert!(offset_of!(Context, sp) == 8);
const _: () = assert!(offset_of!(Context, fp) == 16);
const _: () = assert!(offset_of!(Context, bp) == 24);

cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        mod x86_64;
        pub(crate) use x86_64::*;
    } else if #[cfg(target_arch = "aarch64")] {
        mod aarch64;
        pub(crate) use aarch64::*;
    } else if #[cfg(target_arch = "riscv64")] {
        mod riscv64;
        pub(crate) use riscv64::*;
    } else {
        compile_error!("umcg runs on x86-64, aarch64 and riscv64");
    }
}

// The thread-local words of `crate::local`, in the initial-exec form: a few instructions from any
// object, and never cached.
global_asm!(
    ".pushsection .tbss.umcg_local,\"awT\",@nobits",
    ".p2align 3",
    ".hidden umcg_local",
    ".globl umcg_local",
    ".type umcg_local,@object",
    ".size umcg_local, 40",
    "umcg_local:",
    ".zero 40",
    ".popsection",
);

unsafe extern "C" {
    fn umcg_context_first_frame();
}

#[inline]
pub(crate) fn prepare(context: &mut Context, top: usize, entry: EntryFn, arg: *mut ()) {
    context.pc = umcg_context_first_frame as *const () as usize;
    context.sp = top & !15;
    context.fp = arg as usize;
    context.bp = entry as usize;
}
