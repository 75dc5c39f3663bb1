//! The extended state is saved and restored, whatever others leave meanwhile, and cleared.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use core::arch::{asm, global_asm};
use umcg_intercept::{clear_extended, clear_x87, extended_size, restore_extended, save_extended};

/// All of a thread's registers that a test fills and reads: ymm0 to 15, zmm0 to 31, k0 to 7.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Debug)]
struct Registers {
    wide: [[u64; 8]; 32],
    masks: [u64; 8],
}

global_asm!(
    "test_load_512:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    ".endr",
    r".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    ".endr",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq k\n, [rdi + 2048 + 8 * \n]",
    ".endr",
    "ret",
    "test_store_512:",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    ".endr",
    r".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    ".endr",
    r".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq [rdi + 2048 + 8 * \n], k\n",
    ".endr",
    "ret",
    // The low halves. All else is in its initial state, which no value that is loaded brings about.
    "test_load_initial:",
    "call test_load_512",
    "mov eax, 0xe4",
    "xor edx, edx",
    "lea rcx, [rip + test_initial]",
    "xrstor [rcx]",
    "ret",
    ".pushsection .data",
    ".p2align 6",
    "test_initial:",
    ".zero 24",
    ".long 0x1f80",
    ".zero 4068",
    ".popsection",
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
    // Loads, saves, loads what others leave, restores, stores: no compiled code between. rdi:
    // loaded, rsi: area, rdx: left by others, rcx: stored at the end, r8: a `Functions`.
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
    "call [r15 + 32]",
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
    /// Loads what others leave.
    dirty: unsafe extern "C" fn(*const Registers),
}

unsafe extern "C" {
    fn test_load_512(from: *const Registers);
    fn test_load_initial(from: *const Registers);
    fn test_store_512(to: *mut Registers);
    fn test_load_256(from: *const Registers);
    fn test_store_256(to: *mut Registers);
    fn test_round(
        loaded: *const Registers,
        area: *mut u8,
        others: *const Registers,
        restored: *mut Registers,
        functions: *const Functions,
    );
}

unsafe extern "C" fn save(area: *mut u8) {
    // SAFETY: the test's area.
    let is_all = unsafe { save_extended(area, true) };
    assert!(is_all, "no register that this version does not know");
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

/// Runs a round, and returns the registers at its end.
fn through(loaded: &Registers, others: &Registers, functions: &Functions) -> Registers {
    let mut area = vec![0_u8; extended_size() + 64];
    let offset = area.as_ptr().align_offset(64);
    let mut restored = pattern(0, 0, 0);
    let place = area[offset..].as_mut_ptr();
    // SAFETY: the area is large enough; the processor has what the functions use.
    unsafe { test_round(loaded, place, others, &raw mut restored, functions) };
    restored
}

/// Whatever others leave, the registers are as they were. The stub sees to the low halves.
fn round(loaded: &Registers, functions: &Functions) {
    let mut clear = pattern(0, 0, 0);
    let mut full = pattern(32, 8, 8);
    full.wide
        .iter_mut()
        .flatten()
        .for_each(|word| *word = !*word);
    full.masks.iter_mut().for_each(|mask| *mask = !*mask);
    for others in [&mut clear, &mut full] {
        for at in 0..16 {
            others.wide[at][..2].copy_from_slice(&loaded.wide[at][..2]);
        }
        assert_eq!(&through(loaded, others, functions), loaded);
    }
}

#[test]
fn vector_registers() {
    if is_x86_feature_detected!("avx512bw") {
        let functions = Functions {
            load: test_load_512,
            store: test_store_512,
            save,
            restore,
            dirty: test_load_512,
        };
        // Everything; halves of ymm only; only the upper sixteen; only masks; nothing.
        for (registers, words, masks) in [(32, 8, 8), (16, 4, 0), (16, 8, 0), (0, 0, 8), (0, 0, 0)]
        {
            round(&pattern(registers, words, masks), &functions);
        }
        let mut upper = pattern(32, 8, 0);
        upper.wide[..16].fill([0; 8]);
        round(&upper, &functions);
        let functions = Functions {
            load: test_load_initial,
            ..functions
        };
        round(&pattern(16, 2, 0), &functions);
    }
    if is_x86_feature_detected!("avx") {
        let functions = Functions {
            load: test_load_256,
            store: test_store_256,
            save,
            restore,
            dirty: test_load_256,
        };
        round(&pattern(16, 4, 0), &functions);
        round(&pattern(16, 2, 0), &functions);
    }
}

/// Control words: MXCSR and that of the x87.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Control(u32, u16);

fn control() -> Control {
    let mut control = Control(0, 0);
    // SAFETY: stores two words.
    unsafe { asm!("stmxcsr [{0}]", "fnstcw [{0} + 4]", in(reg) &raw mut control) };
    control
}

fn set_control(control: Control) {
    // SAFETY: masks all exceptions, and the test puts the words back.
    unsafe { asm!("ldmxcsr [{0}]", "fldcw [{0} + 4]", in(reg) &raw const control) };
}

#[test]
fn control_words() {
    let mut area = vec![0_u8; extended_size()];
    for with_vectors in [true, false] {
        let at_first = control();
        let own = Control(0x7f80, 0x0f7f);
        set_control(own);
        // SAFETY: the area is large enough.
        unsafe { save_extended(area.as_mut_ptr(), with_vectors) };
        set_control(Control(0x1f80, 0x037f));
        // SAFETY: saved before.
        unsafe { restore_extended(area.as_ptr()) };
        let restored = control();
        set_control(at_first);
        assert_eq!(restored, own);
    }
}

/// Notes in the x87 that a result is inexact, and leaves its stack of registers as it was.
fn note_exception() {
    // SAFETY: takes off as much as it puts there.
    unsafe { asm!("fldpi", "fldpi", "fmulp", "fstp st(0)") };
}

/// The exceptions that the x87 has noted.
fn exceptions() -> u16 {
    let mut status = 0_u16;
    // SAFETY: stores two bytes.
    unsafe { asm!("fnstsw [{}]", in(reg) &raw mut status) };
    status & 0x3f
}

#[test]
fn x87_exceptions() {
    let mut area = vec![0_u8; extended_size()];
    for with_vectors in [true, false] {
        note_exception();
        let before = exceptions();
        assert_ne!(before, 0);
        // SAFETY: the area is large enough.
        unsafe { save_extended(area.as_mut_ptr(), with_vectors) };
        let meanwhile = exceptions();
        // SAFETY: saved before.
        unsafe { restore_extended(area.as_ptr()) };
        assert_eq!((meanwhile, exceptions()), (0, before));
        clear_x87();
        // SAFETY: the area is large enough.
        unsafe { save_extended(area.as_mut_ptr(), with_vectors) };
        // SAFETY: saved before.
        unsafe { restore_extended(area.as_ptr()) };
        assert_eq!(exceptions(), 0);
    }
}

#[test]
fn cleared() {
    unsafe extern "C" fn clear(_: *mut u8) {
        // SAFETY: nothing needs the registers.
        unsafe { clear_extended() };
    }
    unsafe extern "C" fn nothing(_: *mut u8) {}
    let mut functions = Functions {
        load: test_load_256,
        store: test_store_256,
        save: nothing,
        restore: clear,
        dirty: test_load_256,
    };
    let clears = |full: &Registers, functions: &Functions| {
        let mut expected = pattern(0, 0, 0);
        for at in 0..16 {
            expected.wide[at][..2].copy_from_slice(&full.wide[at][..2]);
        }
        assert_eq!(through(full, full, functions), expected);
    };
    if is_x86_feature_detected!("avx") {
        clears(&pattern(16, 4, 0), &functions);
    }
    if is_x86_feature_detected!("avx512bw") {
        (functions.load, functions.store) = (test_load_512, test_store_512);
        functions.dirty = test_load_512;
        clears(&pattern(32, 8, 8), &functions);
    }
    note_exception();
    // SAFETY: nothing needs the registers.
    unsafe { clear_extended() };
    assert_eq!(exceptions(), 0);
}

/// As a thread may leave it that ends in the midst of a calculation.
#[test]
fn x87_is_cleared() {
    let mut environment = [0_u32; 7];
    let before = control();
    // SAFETY: leaves two values on the stack of registers, which are cleared below.
    unsafe { asm!("fldpi", "fldpi", "fmul st(0), st(1)") };
    clear_x87();
    // SAFETY: stores 28 bytes; the environment is loaded again, as storing it masks exceptions.
    unsafe { asm!("fnstenv [{0}]", "fldenv [{0}]", in(reg) environment.as_mut_ptr()) };
    assert_eq!(environment[2] & 0xffff, 0xffff, "all registers are empty");
    assert_eq!((exceptions(), control()), (0, before));
}

#[test]
fn x87_registers() {
    let mut area = vec![0_u8; extended_size()];
    let place = area.as_mut_ptr();
    let mut values = [0_f64; 2];
    // SAFETY: leaves two values on the stack of registers, which are taken off below.
    unsafe { asm!("fldpi", "fld1") };
    // SAFETY: the area is large enough.
    unsafe { save_extended(place, true) };
    // SAFETY: another thread's calculation, on an empty stack.
    unsafe {
        asm!(
            "fldz",
            "fldz",
            "fldz",
            "fstp st(0)",
            "fstp st(0)",
            "fstp st(0)"
        )
    };
    // SAFETY: saved before.
    unsafe { restore_extended(place) };
    // SAFETY: takes off the two.
    unsafe {
        asm!("fstp qword ptr [{0}]", "fstp qword ptr [{0} + 8]", in(reg) values.as_mut_ptr())
    };
    assert_eq!(values, [1.0, std::f64::consts::PI]);
    // With an empty stack nothing is saved, though the registers count as used.
    clear_x87(); // the value stored last was inexact
    // SAFETY: the area is large enough.
    unsafe { save_extended(place, true) };
    // SAFETY: saved before.
    unsafe { restore_extended(place) };
    assert_eq!(area[8] & 1, 0);
}
