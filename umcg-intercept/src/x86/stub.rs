//! The entry stub: from a site's trampoline to the hook and back.
//!
//! A trampoline jumps here with everything as at the site, except `rcx`, which holds the address
//! behind the original `syscall`, and `r11`, which holds the site's descriptor. A `syscall`
//! overwrites both, so the site expects nothing of them. The frame, with `S` for the stack pointer
//! at the site:
//!
//! ```text
//!   S             the caller's
//!   S - 128       its red zone, untouched
//!   S - 136       address behind the `syscall`: the return address
//!   S - 144       rbp of the caller; rbp points here: a frame as others
//!   S - 152       descriptor of the site
//!   S - 160       flags
//!                 up to 8 bytes, so that the rest is aligned by 16
//!   rsp + 480     rdi rsi rdx r10 r8 r9 of the caller
//!   rsp + 224     xmm0 to xmm15
//!   rsp           Call
//! ```
//!
//! A call that passes takes 152 bytes of stack, the red zone among them, and its number lies in the
//! place of rbp: lists of threads find it there. A hooked one takes 696 at most, and the frame of
//! the hook. A call that [`Quick`](crate::Quick) code answers has the flags at the stack pointer,
//! and nothing of the rest.
//!
//! Invariants:
//!
//! - **Unwinding.** At each instruction the unwind tables name the caller at the address behind its
//!   `syscall`, with `S` as stack pointer, and its rbp.
//! - **Kernel only.** While the kernel makes a call, no frame of Rust is below; all that the stub
//!   needs afterwards lies on the stack. A restart (the kernel moves the pc back by two) finds all
//!   registers as they were.
//! - **Nothing of the thread.** No `errno`, no allocation, and no thread-local but the word of
//!   [`Permit`](crate::Permit), which the hook would read as well.
//! - **Flags.** A passed call changes none: the decision is made by `movzx` and `jrcxz`.
//!
//! The table has 65536 entries, so that the low 16 bits of the number need no comparison, which
//! would change flags. Its pages above the first are never written. Larger numbers pass.
//!
//! Rejected: to keep MXCSR for hooks that compute with floats, which none does. Some processors
//! wait for all that is under way before they tell its exceptions: 8 ns a call (Zen 5).
//!
//! Rejected: `popfq` to restore flags. It takes some 20 cycles; `sahf` and an addition that
//! overflows take five. It stays for callers with the direction or trap flag set.

use crate::call::{Call, Site};
use crate::{Config, Quick};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8, Ordering::Relaxed};

const _: () = assert!(offset_of!(Call, number) == 0);
const _: () = assert!(offset_of!(Call, arguments) == 8);
const _: () = assert!(offset_of!(Call, result) == 56);
const _: () = assert!(offset_of!(Call, step) == 64);
const _: () = assert!(offset_of!(Call, notes) == 72);
const _: () = assert!(Call::FRESH == 12);
const _: () = assert!(offset_of!(Call, site) == 200);
const _: () = assert!(offset_of!(Call, stack_pointer) == 208);
const _: () = assert!(size_of::<Call>() == 216);
const _: () = assert!(offset_of!(Site, next) == 0);
const _: () = assert!(offset_of!(Site, resume) == 8);
const _: () = assert!(offset_of!(Site, tail) == 16);

const TABLE: usize = 1 << 16;

// The ways of a number. The stub knows the values.
const PASS: u8 = 0;
const HOOK: u8 = 1;
/// As `HOOK`, unless the quick code answers.
const QUICK: u8 = 2;
/// As [`crate::Next::Tail`], without the hook.
const AWAY: u8 = 3;
/// As `PASS` while the thread's byte says so, else as `HOOK`.
const PERMIT: u8 = 4;

/// Calls after which the stub's frame may be gone: a child has another stack, or overwrites this
/// one before its parent goes on.
const LEAVING: [i64; 4] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_vfork,
    libc::SYS_munmap,
];

/// The way of each number. Pages that are never written cost no memory.
static HOOKED: [AtomicU8; TABLE] = [const { AtomicU8::new(0) }; TABLE];
/// The table while everything passes.
static NONE: [AtomicU8; TABLE] = [const { AtomicU8::new(PASS) }; TABLE];
static CURRENT: AtomicPtr<[AtomicU8; TABLE]> = AtomicPtr::new((&raw const NONE).cast_mut());
/// [`word`](crate::Permit::word).
static WORD: AtomicIsize = AtomicIsize::new(0);
static FUNCTION: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static QUICK_CODE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

global_asm!(
    r".macro umcg_intercept_arguments",
    "mov rdi, [rsp + 8]",
    "mov rsi, [rsp + 16]",
    "mov rdx, [rsp + 24]",
    "mov r10, [rsp + 32]",
    "mov r8, [rsp + 40]",
    "mov r9, [rsp + 48]",
    ".endm",
    // Restores the flags, by way of rax and r11.
    r".macro umcg_intercept_flags",
    "mov r11, [rbp - 16]",
    "test r11d, 0x40500", // direction, trap, alignment check
    "jne 71f",
    "mov eax, r11d",
    "shr eax, 11",
    "and eax, 1",
    "add al, 0x7f", // overflows if the bit was set
    "mov eax, r11d",
    "mov ah, al",
    "sahf",
    "jmp 72f",
    "71:",
    "push r11",
    "popfq",
    "72:",
    ".endm",
    // The vector registers, and the flags.
    r".macro umcg_intercept_restore",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"movaps xmm\n, [rsp + 224 + 16 * \n]",
    r".endr",
    "umcg_intercept_flags",
    ".endm",
    // The first part of a hooked call's frame, rbp and the flags; and of the number the 32 bits at
    // which the kernel looks.
    r".macro umcg_intercept_frame",
    "mov [rsp + 8], rbp",
    ".cfi_offset rbp, -144",
    "lea rbp, [rsp + 8]",
    ".cfi_def_cfa rbp, 144",
    "pushfq",
    "mov eax, eax",
    ".endm",
    // Leaves the frame, for the address in rcx.
    r".macro umcg_intercept_leave",
    ".cfi_remember_state",
    "mov rsp, rbp",
    ".cfi_def_cfa rsp, 144",
    "mov rbp, [rsp]",
    ".cfi_restore rbp",
    "lea rsp, [rsp + 144]",
    ".cfi_def_cfa_offset 0",
    ".cfi_register rip, rcx",
    "jmp rcx",
    ".cfi_restore_state",
    ".endm",
    ".pushsection .text.umcg_intercept,\"ax\",@progbits",
    ".p2align 6",
    ".hidden umcg_intercept_begin",
    ".globl umcg_intercept_begin",
    "umcg_intercept_begin:",
    ".hidden umcg_intercept_entry",
    ".globl umcg_intercept_entry",
    ".type umcg_intercept_entry,@function",
    "umcg_intercept_entry:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 0",
    ".cfi_register rip, rcx",
    "lea rsp, [rsp - 152]",
    ".cfi_def_cfa_offset 152",
    "mov [rsp + 16], rcx",
    ".cfi_offset rip, -136",
    "mov [rsp], r11",
    "movzx ecx, ax",
    "mov r11, [rip + {current}]",
    "movzx ecx, byte ptr [r11 + rcx]",
    "mov [rsp + 8], rax",
    "jrcxz 20f",
    "mov r11d, eax",
    "bswap r11d",
    "movzx r11d, r11w", // bits 16 to 31 of the number, in another order
    "lea rcx, [rcx + 4 * r11 - 1]",
    "jrcxz 30f", // HOOK
    "lea rcx, [rcx - 1]",
    "jrcxz 28f", // QUICK
    "lea rcx, [rcx - 1]",
    "jrcxz 25f", // AWAY
    "lea rcx, [rcx - 1]",
    "jrcxz 27f", // PERMIT
    "20:",
    ".hidden umcg_intercept_pass",
    ".globl umcg_intercept_pass",
    "umcg_intercept_pass:",
    "syscall",
    "mov rcx, [rsp]",
    "mov rcx, [rcx + 8]",
    "lea rsp, [rsp + 152]",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 0",
    ".cfi_register rip, rcx",
    "jmp rcx",
    ".cfi_restore_state",
    "25:",
    "mov rcx, [rsp]",
    "mov rcx, [rcx + 16]",
    "lea rsp, [rsp + 152]",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 0",
    ".cfi_register rip, rcx",
    "jmp rcx",
    ".cfi_restore_state",
    "27:",
    "mov rcx, [rip + {word}]",
    "mov rcx, fs:[rcx]",
    "jrcxz 30f",
    "movzx ecx, byte ptr [rcx]",
    "jrcxz 30f",
    "jmp 20b",
    "28:",
    ".cfi_remember_state",
    "umcg_intercept_frame",
    "call [rip + {quick}]",
    "test ecx, ecx",
    "jne 35f",
    "jmp 70f",
    ".cfi_restore_state",
    "30:",
    "umcg_intercept_frame",
    "35:",
    "and rsp, -16",
    "sub rsp, 528",
    "mov [rsp], rax",
    "mov [rsp + 8], rdi",
    "mov [rsp + 16], rsi",
    "mov [rsp + 24], rdx",
    "mov [rsp + 32], r10",
    "mov [rsp + 40], r8",
    "mov [rsp + 48], r9",
    "xor ecx, ecx",
    "mov [rsp + 56], rcx",
    "mov [rsp + 64], rcx",
    "mov rcx, [rbp - 8]",
    "mov [rsp + 200], rcx",
    "lea rcx, [rbp + 144]",
    "mov [rsp + 208], rcx",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"movaps [rsp + 224 + 16 * \n], xmm\n",
    r".endr",
    "xorps xmm0, xmm0",
    "movups [rsp + 168], xmm0", // the last four notes
    "movups [rsp + 184], xmm0",
    "mov [rsp + 480], rdi",
    "mov [rsp + 488], rsi",
    "mov [rsp + 496], rdx",
    "mov [rsp + 504], r10",
    "mov [rsp + 512], r8",
    "mov [rsp + 520], r9",
    "cld",
    "40:",
    "mov rdi, rsp",
    "call [rip + {hook}]",
    "cmp eax, 1",
    "je 50f",
    "ja 60f",
    "mov rax, [rsp + 56]",
    "45:", // the way back; rax is the result
    "mov [rsp + 56], rax",
    "mov rdi, [rsp + 480]",
    "mov rsi, [rsp + 488]",
    "mov rdx, [rsp + 496]",
    "mov r10, [rsp + 504]",
    "mov r8, [rsp + 512]",
    "mov r9, [rsp + 520]",
    "umcg_intercept_restore",
    "mov rax, [rsp + 56]",
    "mov rcx, [rbp - 8]",
    "mov rcx, [rcx + 8]",
    "umcg_intercept_leave",
    "50:", // Native
    "umcg_intercept_arguments",
    "mov rax, [rsp]",
    ".hidden umcg_intercept_native",
    ".globl umcg_intercept_native",
    "umcg_intercept_native:",
    "syscall",
    "jmp 45b",
    "60:",
    "cmp eax, 3",
    "je 65f",
    "umcg_intercept_arguments", // Again
    "mov rax, [rsp]",
    ".hidden umcg_intercept_again",
    ".globl umcg_intercept_again",
    "umcg_intercept_again:",
    "syscall",
    "mov [rsp + 56], rax",
    "inc qword ptr [rsp + 64]",
    "jmp 40b",
    "65:", // Tail
    "umcg_intercept_arguments",
    "umcg_intercept_restore",
    "mov rax, [rsp]",
    "mov rcx, [rbp - 8]",
    "mov rcx, [rcx + 16]",
    "umcg_intercept_leave",
    "70:", // answered
    "push rax",
    "umcg_intercept_flags",
    "mov rax, [rbp - 24]",
    "mov rcx, [rbp - 8]",
    "mov rcx, [rcx + 8]",
    "umcg_intercept_leave",
    ".cfi_endproc",
    ".size umcg_intercept_entry, . - umcg_intercept_entry",
    // Returns from signals, for the handler of SIGSYS and by it for others. Unwinders know it by
    // its bytes, so it has no unwind table, nor a function right before it.
    ".p2align 4",
    "nop",
    ".hidden umcg_intercept_restorer",
    ".globl umcg_intercept_restorer",
    ".type umcg_intercept_restorer,@function",
    "umcg_intercept_restorer:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05",
    ".size umcg_intercept_restorer, . - umcg_intercept_restorer",
    // A call of our own: number, address of the arguments.
    ".p2align 4",
    ".hidden umcg_intercept_raw",
    ".globl umcg_intercept_raw",
    ".type umcg_intercept_raw,@function",
    "umcg_intercept_raw:",
    ".cfi_startproc",
    "mov rax, rdi",
    "mov rdi, [rsi]",
    "mov rdx, [rsi + 16]",
    "mov r10, [rsi + 24]",
    "mov r8, [rsi + 32]",
    "mov r9, [rsi + 40]",
    "mov rsi, [rsi + 8]",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size umcg_intercept_raw, . - umcg_intercept_raw",
    ".hidden umcg_intercept_end",
    ".globl umcg_intercept_end",
    "umcg_intercept_end:",
    ".popsection",
    ".purgem umcg_intercept_arguments",
    ".purgem umcg_intercept_flags",
    ".purgem umcg_intercept_restore",
    ".purgem umcg_intercept_frame",
    ".purgem umcg_intercept_leave",
    current = sym CURRENT,
    hook = sym FUNCTION,
    quick = sym QUICK_CODE,
    word = sym WORD,
);

unsafe extern "C" {
    fn umcg_intercept_begin();
    fn umcg_intercept_entry();
    fn umcg_intercept_pass();
    fn umcg_intercept_native();
    fn umcg_intercept_again();
    fn umcg_intercept_restorer();
    fn umcg_intercept_raw(number: usize, arguments: *const [usize; 6]) -> isize;
    fn umcg_intercept_end();
}

/// Makes a system call that is never hooked.
///
/// # Safety
///
/// As the call itself.
pub unsafe fn raw_syscall(number: usize, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller vouches for the call.
    unsafe { umcg_intercept_raw(number, &raw const arguments) }
}

/// The code whose own calls are never sites.
pub(crate) fn exempt() -> core::ops::Range<usize> {
    umcg_intercept_begin as *const () as usize..umcg_intercept_end as *const () as usize
}

/// The code of [`raw_syscall`].
pub(crate) fn raw() -> core::ops::Range<usize> {
    umcg_intercept_raw as *const () as usize..umcg_intercept_end as *const () as usize
}

pub(crate) fn entry() -> usize {
    umcg_intercept_entry as *const () as usize
}

/// Where a call is made and returns to its site: the frame of a passed call lies at the stack
/// pointer.
pub(crate) fn pass() -> usize {
    umcg_intercept_pass as *const () as usize
}

/// Where calls are made for the hook: a whole frame lies at rbp.
pub(crate) fn hooked_calls() -> [usize; 2] {
    [
        umcg_intercept_native as *const () as usize,
        umcg_intercept_again as *const () as usize,
    ]
}

/// A restorer for handlers of signals, whose call is the engine's own.
pub(crate) fn restorer() -> usize {
    umcg_intercept_restorer as *const () as usize
}

/// Sets the hook, and the numbers that lead to it. Nothing is patched yet.
pub(crate) fn set(config: &Config) {
    let Config {
        hook, is_hooked, ..
    } = *config;
    FUNCTION.store(hook as *mut (), Relaxed);
    for (entry, &value) in HOOKED.iter().zip(is_hooked) {
        entry.store(if value == 0 { PASS } else { HOOK }, Relaxed);
    }
    if let Some(Quick { number, code }) = config.quick {
        QUICK_CODE.store(code as *mut (), Relaxed);
        if HOOKED[number].load(Relaxed) == HOOK {
            HOOKED[number].store(QUICK, Relaxed);
        }
    }
    if let Some(permit) = config.permit {
        WORD.store(permit.word, Relaxed);
        for (entry, &value) in HOOKED.iter().zip(permit.numbers) {
            if value != 0 && entry.load(Relaxed) == HOOK {
                entry.store(PERMIT, Relaxed);
            }
        }
    }
    for number in LEAVING.map(|number| number as usize) {
        NONE[number].store(AWAY, Relaxed);
        if is_hooked[number] == 0 {
            HOOKED[number].store(AWAY, Relaxed);
        }
    }
    // Never sigreturn: it finds its frame by the stack pointer.
    HOOKED[libc::SYS_rt_sigreturn as usize].store(AWAY, Relaxed);
    NONE[libc::SYS_rt_sigreturn as usize].store(AWAY, Relaxed);
    aside(false);
}

/// Whether all sites pass their calls on.
pub(crate) fn aside(pass: bool) {
    let table = if pass { &NONE } else { &HOOKED };
    CURRENT.store((&raw const *table).cast_mut(), Relaxed);
}
