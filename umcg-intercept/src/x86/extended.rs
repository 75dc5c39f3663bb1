//! The part of a thread's registers that neither the stub nor a compiled switch saves.
//!
//! A hook that only looks and returns leaves this state alone. One that lets another thread run
//! saves it before and restores it after. The area:
//!
//! ```text
//!   +    0   MXCSR
//!   +    4   x87 control word
//!   +    8   components saved below, as bits of XCR0; VECTORS
//!   +   12   PKRU
//!   +   64   x87 registers, as `fnsave` writes them
//!   +  192   upper halves of ymm0 to ymm15
//!   +  448   k0 to k7
//!   +  512   upper halves of zmm0 to zmm15
//!   + 1024   zmm16 to zmm31
//! ```
//!
//! Invariants:
//!
//! - [`restore_extended`] sets all that the thread relies on, whatever others have left: what was
//!   saved is loaded, what was in its initial state is cleared.
//! - A flow that leaves the x87 to others leaves it clean: its stack empty, and no exceptions
//!   noted. So restoring need not look at it. [`save_extended`] and [`clear_x87`] see to that.
//! - The low halves of xmm0 to xmm15 are not touched: the stub has them.
//!
//! # Sites without vectors
//!
//! At most sites nothing lives in the upper parts, and they are neither saved nor restored: `area`
//! then ends behind the x87. [`Call::keeps_vectors`](crate::Call::keeps_vectors) tells. It is false
//! for the sites of a C library whose own note says that it was built for the first x86-64
//! processors. The argument:
//!
//! - Such code has values in xmm0 to xmm15 alone, and these the stub keeps. The functions that the
//!   library chooses by the processor (those for strings) make no system calls.
//! - Its callers have called a function. The calling convention lets functions overwrite all upper
//!   parts, all of zmm16 to zmm31 and the masks, and has the stack of the x87 empty.
//! - Code that was interrupted, by a signal, gets all registers back from the kernel's frame.
//!
//! The notes of other objects say nothing: the linker gives each program the note of its startup
//! files. The loader's own sites keep everything: it resolves functions while their arguments are
//! in vector registers.
//!
//! Figures (Zen 5; saving and restoring, all in the first cache): 11 ns without vectors. With them
//! 25 ns with nothing in use, of which `xgetbv` is 11; 31 ns with everything but the x87. An
//! exception of the x87 takes 75 ns more, for `fnsave` and `frstor`. The C library's string
//! functions leave zmm16 to zmm31 in use.
//!
//! Rejected: to save and load everything without asking. It is 5 ns faster in a loop, but writes
//! two KiB of each thread's memory, and zeros loaded into upper halves leave them in use: from then
//! on each SSE instruction of the program merges into them. Also rejected: `xsave` and `xrstor`,
//! whose microcode takes longer than the moves.

use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

const X87: u32 = 1;
const SSE: u32 = 1 << 1;
const AVX: u32 = 1 << 2;
const AVX_512: u32 = 7 << 5;
const PKRU: u32 = 1 << 9;
const HANDLED: u32 = X87 | SSE | AVX | AVX_512 | PKRU;
/// Without the two bits that `AVAILABLE` has beside components: no component has their numbers.
const UNKNOWN: u32 = !(HANDLED | WIDE_MASKS | IN_USE);
/// Beside the components: masks have 64 bits; `xgetbv` tells what is in use.
const WIDE_MASKS: u32 = 1 << 30;
const IN_USE: u32 = 1 << 31;
/// In an area, beside the components: it has those of vector registers too.
const VECTORS: u32 = 1 << 31;

/// Components that exist. Zero until asked.
static AVAILABLE: AtomicU32 = AtomicU32::new(0);

global_asm!(
    ".macro umcg_intercept_clear_upper",
    r".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vpxord zmm\n, zmm\n, zmm\n",
    r".endr",
    ".endm",
    // 16 bits each where there are no more: they clear the rest.
    ".macro umcg_intercept_clear_masks",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kxorw k\n, k\n, k\n",
    r".endr",
    ".endm",
    ".pushsection .text.umcg_intercept_extended,\"ax\",@progbits",
    ".p2align 6",
    ".hidden umcg_intercept_save",
    ".globl umcg_intercept_save",
    ".type umcg_intercept_save,@function",
    "umcg_intercept_save:", // area, available, vectors; what is in use, and was not saved
    ".cfi_startproc",
    "mov r8d, edx",
    "stmxcsr [rdi]",
    "fnstcw [rdi + 4]",
    "bt esi, 9",
    "jnc 1f",
    "xor ecx, ecx",
    "rdpkru",
    "mov [rdi + 12], eax",
    "1:",
    "test r8d, r8d",
    "jnz 10f",
    // The stack of the x87 is empty.
    "fnstsw ax",
    "and eax, 0x3f",
    "jz 11f",
    "fnsave [rdi + 64]",
    "mov eax, 1",
    "11:",
    "mov [rdi + 8], eax",
    "xor eax, eax",
    "ret",
    "10:",
    "mov eax, esi",
    "test esi, esi",
    "jns 2f",
    "mov ecx, 1",
    "xgetbv",
    "2:",
    "mov edx, eax",
    "and eax, esi",
    "and eax, 0xe5",
    "test al, 1",
    "jz 4f",
    "mov ecx, eax",
    "fxam",
    "fnstsw ax",
    "and eax, 0x453f",
    "cmp eax, 0x4100", // empty, and no exceptions
    "mov eax, ecx",
    "je 3f",
    "fnsave [rdi + 64]",
    "jmp 4f",
    "3:",
    "xor eax, 1",
    "4:",
    "or eax, {vectors}",
    "mov [rdi + 8], eax",
    "test al, 0x44",
    "jz 6f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vextractf128 [rdi + 192 + 16 * \n], ymm\n, 1",
    r".endr",
    "test al, 0x40",
    "jz 5f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vextractf64x4 [rdi + 512 + 32 * \n], zmm\n, 1",
    r".endr",
    "5:",
    // Code with the instructions of the first processors would be slow with those in use.
    "vzeroupper",
    "6:",
    "test al, 0x80",
    "jz 7f",
    r".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    r".endr",
    "7:",
    "test al, 0x20",
    "jz 9f",
    "bt esi, 30",
    "jnc 8f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq [rdi + 448 + 8 * \n], k\n",
    r".endr",
    "jmp 9f",
    "8:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovw [rdi + 448 + 8 * \n], k\n",
    r".endr",
    "9:",
    "mov eax, edx",
    "and eax, {unknown}",
    "ret",
    ".cfi_endproc",
    ".size umcg_intercept_save, . - umcg_intercept_save",
    ".p2align 6",
    ".hidden umcg_intercept_load",
    ".globl umcg_intercept_load",
    ".type umcg_intercept_load,@function",
    "umcg_intercept_load:", // area, available
    ".cfi_startproc",
    // Values as before cost nothing.
    "ldmxcsr [rdi]",
    "fldcw [rdi + 4]",
    "bt esi, 9",
    "jnc 3f",
    "xor ecx, ecx",
    "rdpkru",
    "cmp eax, [rdi + 12]",
    "je 3f",
    "mov eax, [rdi + 12]",
    "xor edx, edx",
    "wrpkru",
    "3:",
    "mov eax, [rdi + 8]",
    "test eax, eax",
    "jz 9f",
    "test al, 1",
    "jz 4f",
    "frstor [rdi + 64]",
    "4:",
    "test eax, {vectors}",
    "jz 9f",
    // The upper parts that are available, and were not in use, are cleared.
    "test sil, 0x44",
    "jz 6f",
    "vzeroupper",
    "test al, 0x44",
    "jz 6f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vinsertf128 ymm\n, ymm\n, [rdi + 192 + 16 * \n], 1",
    r".endr",
    "test al, 0x40",
    "jz 6f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vinsertf64x4 zmm\n, zmm\n, [rdi + 512 + 32 * \n], 1",
    r".endr",
    "6:",
    "test al, 0x80",
    "jz 7f",
    r".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    r".endr",
    "jmp 10f",
    "7:",
    "test sil, sil",
    "jns 10f",
    "umcg_intercept_clear_upper",
    "10:",
    "test al, 0x20",
    "jz 11f",
    "bt esi, 30",
    "jnc 8f",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq k\n, [rdi + 448 + 8 * \n]",
    r".endr",
    "ret",
    "8:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovw k\n, [rdi + 448 + 8 * \n]",
    r".endr",
    "ret",
    "11:",
    "test sil, 0x20",
    "jz 9f",
    "umcg_intercept_clear_masks",
    "9:",
    "ret",
    ".cfi_endproc",
    ".size umcg_intercept_load, . - umcg_intercept_load",
    ".p2align 6",
    ".hidden umcg_intercept_clear",
    ".globl umcg_intercept_clear",
    ".type umcg_intercept_clear,@function",
    "umcg_intercept_clear:", // available
    ".cfi_startproc",
    "test dil, 0x44",
    "jz 2f",
    "vzeroupper",
    "2:",
    "test dil, dil",
    "jns 3f",
    "umcg_intercept_clear_upper",
    "3:",
    "test dil, 0x20",
    "jz 4f",
    "umcg_intercept_clear_masks",
    "4:",
    "ret",
    ".cfi_endproc",
    ".size umcg_intercept_clear, . - umcg_intercept_clear",
    // The components in use.
    ".p2align 4",
    ".hidden umcg_intercept_in_use",
    ".globl umcg_intercept_in_use",
    ".type umcg_intercept_in_use,@function",
    "umcg_intercept_in_use:", // index
    ".cfi_startproc",
    "mov ecx, edi",
    "xgetbv",
    "ret",
    ".cfi_endproc",
    ".size umcg_intercept_in_use, . - umcg_intercept_in_use",
    ".popsection",
    ".purgem umcg_intercept_clear_upper",
    ".purgem umcg_intercept_clear_masks",
    unknown = const UNKNOWN,
    vectors = const VECTORS,
);

unsafe extern "C" {
    fn umcg_intercept_save(area: *mut u8, available: u32, vectors: u32) -> u32;
    fn umcg_intercept_load(area: *const u8, available: u32);
    fn umcg_intercept_clear(available: u32);
    fn umcg_intercept_in_use(index: u32) -> u32;
}

#[inline]
fn available() -> u32 {
    match AVAILABLE.load(Relaxed) {
        0 => ask(),
        available => available,
    }
}

#[cold]
fn ask() -> u32 {
    const SYSTEM_SAVES: u32 = 1 << 27;
    const SYSTEM_KEYS: u32 = 1 << 4;
    const KNOWS_IN_USE: u32 = 1 << 2;
    const HAS_WIDE_MASKS: u32 = 1 << 30;
    let mut available = SSE;
    if features(1, 0).ecx & SYSTEM_SAVES != 0 {
        // SAFETY: the system has enabled the instruction.
        available |= unsafe { umcg_intercept_in_use(0) } & (X87 | AVX | AVX_512);
        if features(13, 1).eax & KNOWS_IN_USE != 0 {
            available |= IN_USE;
        }
        let more = features(7, 0);
        if more.ecx & SYSTEM_KEYS != 0 {
            available |= PKRU;
        }
        if more.ebx & HAS_WIDE_MASKS != 0 {
            available |= WIDE_MASKS;
        }
    } else {
        available |= X87;
    }
    AVAILABLE.store(available, Relaxed);
    available
}

/// The processor's answer about its features.
#[allow(unused_unsafe, reason = "unsafe before Rust 1.91")]
fn features(leaf: u32, part: u32) -> CpuidResult {
    // SAFETY: every processor with 64 bits has the instruction.
    unsafe { __cpuid_count(leaf, part) }
}

/// The size of an area in bytes. Areas are fastest at multiples of 64.
#[must_use]
pub fn extended_size() -> usize {
    match available() {
        some if some & AVX_512 != 0 => 2048,
        some if some & AVX != 0 => 448,
        _ => 192,
    }
}

/// Saves the extended state of the calling thread: vector registers only `with_vectors`. The x87 is
/// clean then; vector registers may have any values.
///
/// Returns whether that is all that is in use. It is not while a thread uses tiles (AMX), or
/// registers that this version does not know: such a thread must not make room for another one. No
/// function preserves tiles for its caller, so only a call that is made by a program's own
/// instruction, between others that use tiles, is affected.
///
/// # Safety
///
/// The area has [`extended_size`] bytes. Nothing relies on vector registers beyond the low halves
/// of xmm0 to xmm15 until [`restore_extended`]; and never on those of now, if they are not saved.
#[inline]
pub unsafe fn save_extended(area: *mut u8, with_vectors: bool) -> bool {
    // SAFETY: the caller vouches for the area.
    unsafe { umcg_intercept_save(area, available(), with_vectors.into()) == 0 }
}

/// Restores the state that [`save_extended`] saved, on this or another kernel thread.
///
/// # Safety
///
/// The area was written by [`save_extended`], and the x87 is clean, as by that or [`clear_x87`].
/// Nothing relies on vector registers beyond the low halves of xmm0 to xmm15.
#[inline]
pub unsafe fn restore_extended(area: *const u8) {
    // SAFETY: the caller vouches for the area.
    unsafe { umcg_intercept_load(area, available()) };
}

/// Clears all registers and exceptions of the extended state. Control words stay.
///
/// # Safety
///
/// Nothing relies on vector registers beyond the low halves of xmm0 to xmm15.
pub unsafe fn clear_extended() {
    // SAFETY: passed on.
    unsafe { umcg_intercept_clear(available()) };
    clear_x87();
}

/// Clears the registers of the x87, and the exceptions that it has noted. The control word stays.
pub fn clear_x87() {
    let mut control = 0_u16;
    // SAFETY: stores and loads two bytes; nothing relies on the registers, as where a function is
    // called.
    unsafe {
        asm!(
            "fxam",
            "fnstsw ax",
            "and eax, 0x453f",
            "cmp eax, 0x4100", // empty, and no exceptions
            "je 2f",
            "fnstcw [{control}]",
            "fninit",
            "fldcw [{control}]",
            "2:",
            control = in(reg) &raw mut control,
            out("eax") _,
            options(nostack),
        );
    }
}
