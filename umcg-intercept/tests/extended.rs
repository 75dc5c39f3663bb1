//! The extended state is saved, cleared and restored.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use core::arch::{asm, global_asm};
use umcg_intercept::{extended_size, may_switch, restore_extended, save_extended};

/// All of a thread's registers that a test fills and reads: ymm0 to 15, zmm0 to 31, k0 to 7.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Debug)]
struct Registers {
    wide: [[u64; 8]; 32],
    masks: [u64; 8],
}

global_asm!(
    "test_load_512:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    ".endr",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq k\n, [rdi + 2048 + 8 * \n]",
    ".endr",
    "ret",
    "test_store_512:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    ".endr",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq [rdi + 2048 + 8 * \n], k\n",
    ".endr",
    "ret",
    "test_load_256:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu ymm\n, [rdi + 64 * \n]",
    ".endr",
    "ret",
    "test_store_256:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu [rdi + 64 * \n], ymm\n",
    ".endr",
    "ret",
    // Loads, saves, stores, restores, stores: no compiled code between. rdi: loaded, rsi: area,
    // rdx: stored after saving, rcx: stored after restoring, r8: a `Functions`.
    "test_round:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset rbx, -16",
    "push r12",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset r12, -24",
    "push r13",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset r13, -32",
    "push r14",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset r14, -40",
    "push r15",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset r15, -48",
    "mov r12, rsi",
    "mov r13, rdx",
    "mov r14, rcx",
    "mov r15, r8",
    "call [r15]",
    "mov rdi, r12",
    "call [r15 + 16]",
    "mov rdi, r13",
    "call [r15 + 8]",
    "mov rdi, r12",
    "call [r15 + 24]",
    "mov rdi, r14",
    "call [r15 + 8]",
    "vzeroupper",
    "pop r15",
    ".cfi_adjust_cfa_offset -8",
    "pop r14",
    ".cfi_adjust_cfa_offset -8",
    "pop r13",
    ".cfi_adjust_cfa_offset -8",
    "pop r12",
    ".cfi_adjust_cfa_offset -8",
    "pop rbx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
);

#[repr(C)]
struct Functions {
    load: unsafe extern "C" fn(*const Registers),
    store: unsafe extern "C" fn(*mut Registers),
    save: unsafe extern "C" fn(*mut u8),
    restore: unsafe extern "C" fn(*mut u8),
}

unsafe extern "C" {
    fn test_load_512(from: *const Registers);
    fn test_store_512(to: *mut Registers);
    fn test_load_256(from: *const Registers);
    fn test_store_256(to: *mut Registers);
    fn test_round(
        loaded: *const Registers,
        area: *mut u8,
        saved: *mut Registers,
        restored: *mut Registers,
        functions: *const Functions,
    );
}

unsafe extern "C" fn save(area: *mut u8) {
    // SAFETY: the test's area.
    unsafe { save_extended(area) };
}

unsafe extern "C" fn restore(area: *mut u8) {
    // SAFETY: the test's area.
    unsafe { restore_extended(area) };
}

fn pattern(registers: usize, words: usize, masks: usize) -> Registers {
    let mut pattern = Registers {
        wide: [[0; 8]; 32],
        masks: [0; 8],
    };
    for (at, register) in pattern.wide.iter_mut().enumerate().take(registers) {
        for (word, value) in register.iter_mut().enumerate().take(words) {
            *value = 0x1122_3344_5566_7701 + (at as u64) * 0x100_0100 + word as u64;
        }
    }
    for (at, mask) in pattern.masks.iter_mut().enumerate().take(masks) {
        *mask = 0xf0f0_1234_0000_ffff + ((at as u64) << 16);
    }
    pattern
}

/// Runs a round; checks what is clear after saving and what is back after restoring.
fn round(loaded: &Registers, functions: &Functions) {
    let mut area = vec![0_u8; extended_size() + 64];
    let offset = area.as_ptr().align_offset(64);
    let mut saved = Registers {
        wide: [[0; 8]; 32],
        masks: [0; 8],
    };
    let mut restored = saved.clone();
    // SAFETY: the area is large enough; the processor has what the functions use.
    unsafe {
        test_round(
            loaded,
            area.as_mut_ptr().add(offset),
            &raw mut saved,
            &raw mut restored,
            functions,
        );
    }
    for at in 0..16 {
        assert_eq!(
            saved.wide[at][..2],
            loaded.wide[at][..2],
            "low half of {at}"
        );
        assert_eq!(saved.wide[at][2..], [0; 6], "upper part of {at}");
    }
    assert_eq!(saved.wide[16..], [[0; 8]; 16]);
    assert_eq!(saved.masks, [0; 8]);
    assert_eq!(&restored, loaded);
}

#[test]
fn vector_registers() {
    if is_x86_feature_detected!("avx512bw") {
        let functions = Functions {
            load: test_load_512,
            store: test_store_512,
            save,
            restore,
        };
        // Everything; halves of ymm only; only the upper sixteen; only masks; nothing.
        for (registers, words, masks) in [(32, 8, 8), (16, 4, 0), (16, 8, 0), (0, 0, 8), (0, 0, 0)]
        {
            round(&pattern(registers, words, masks), &functions);
        }
        let mut upper = pattern(32, 8, 0);
        upper.wide[..16].fill([0; 8]);
        round(&upper, &functions);
    }
    if is_x86_feature_detected!("avx") {
        let functions = Functions {
            load: test_load_256,
            store: test_store_256,
            save,
            restore,
        };
        round(&pattern(16, 4, 0), &functions);
        round(&pattern(16, 2, 0), &functions);
    }
    assert!(may_switch());
}

#[test]
fn control_words_and_x87_registers() {
    let mut area = vec![0_u8; extended_size()];
    let area = area.as_mut_ptr();
    let control = 0x0f7f_u16; // rounds to zero
    let other = 0x037f_u16;
    let mut back = 0_u16;
    let (mut state, mut empty) = ([0_u32; 2], [0_u32; 1]);
    let (mut one, mut pi) = (0_f64, 0_f64);
    let changed = 0x7f80_u32;
    // SAFETY: the stack of registers is empty again behind the last block, and all that changes in
    // between is put back.
    unsafe {
        asm!("stmxcsr [{0}]", "fldcw [{1}]", "fldpi", "fld1", in(reg) &raw mut state[0], in(reg) &raw const control);
        save_extended(area);
        // Another thread's: other control words and values.
        asm!("ldmxcsr [{0}]", "fldcw [{1}]", "fldz", "fstp st(0)", in(reg) &raw const changed, in(reg) &raw const other);
        restore_extended(area);
        asm!("stmxcsr [{0}]", "fnstcw [{1}]", "fstp qword ptr [{2}]", "fstp qword ptr [{3}]", "fninit",
            in(reg) &raw mut state[1], in(reg) &raw mut back, in(reg) &raw mut one, in(reg) &raw mut pi);
        // With an empty stack nothing is saved, though the registers count as used.
        asm!("fldz", "fstp st(0)");
        save_extended(area);
        asm!("mov {0:e}, [{1} + 8]", "mov [{2}], {0:e}", out(reg) _, in(reg) area, in(reg) &raw mut empty);
        restore_extended(area);
    }
    assert_eq!(state[0], state[1]);
    assert_eq!(back & 0xf00, control & 0xf00);
    assert_eq!(one, 1.0);
    assert!((pi - std::f64::consts::PI).abs() < 1e-15);
    assert_eq!(empty[0] & 1, 0);
}
