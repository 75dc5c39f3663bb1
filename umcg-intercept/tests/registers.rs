//! A hooked call changes the registers that the kernel changes, and no others. So does one that the
//! net has caught.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use umcg_intercept::{Call, Config, Next, Permit, Quick};

const PASSES: usize = 499;
const RETURNS: usize = 500;
const NATIVE: usize = 501;
const AGAIN: usize = 502;
const TAIL: usize = 503;
const PERMITTED: usize = 504;
/// Answered by the quick code, or by the hook.
const QUICK: usize = 505;

const MAGIC: isize = 0x1234_5678_9abc;

static HOOKED: [u8; 512] = common::hooked(RETURNS, QUICK);

static PERMITS: [u8; 512] = {
    let mut permits = [0; 512];
    permits[PASSES] = 1; // never hooked
    permits[PERMITTED] = 1;
    permits
};

thread_local! {
    /// Null, or the address of the byte that permits calls.
    static WORD: Cell<*const u8> = const { Cell::new(core::ptr::null()) };
}

/// The offset of `WORD` from the thread pointer.
fn word() -> isize {
    let thread_pointer: usize;
    // SAFETY: by the convention of the ABI its first word is its own address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) thread_pointer) };
    WORD.with(|word| {
        core::ptr::from_ref(word)
            .addr()
            .wrapping_sub(thread_pointer) as isize
    })
}

/// Everything that a thread has.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq)]
struct Registers {
    wide: [[u64; 8]; 32],
    masks: [u64; 8],
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15.
    general: [u64; 15],
    flags: u64,
    mxcsr: u32,
    control: u16,
    /// 0: SSE only, 1: ymm, 2: zmm.
    width: u16,
}

const RCX: usize = 2;
const R11: usize = 10;

global_asm!(
    "test_registers:", // from, to
    ".cfi_startproc",
    ".irp register, rbx, rbp, r12, r13, r14, r15",
    r"push \register",
    ".cfi_adjust_cfa_offset 8",
    ".endr",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "cmp word ptr [rdi + 2246], 1",
    "jb 2f",
    "je 1f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    ".endr",
    ".irp n, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 zmm\n, [rdi + 64 * \n]",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq k\n, [rdi + 2048 + 8 * \n]",
    ".endr",
    "jmp 3f",
    "1:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu ymm\n, [rdi + 64 * \n]",
    ".endr",
    "jmp 3f",
    "2:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"movdqu xmm\n, [rdi + 64 * \n]",
    ".endr",
    "3:",
    "ldmxcsr [rdi + 2240]",
    "fldcw [rdi + 2244]",
    "mov rax, [rdi + 2112]",
    "mov rbx, [rdi + 2120]",
    "mov rcx, [rdi + 2128]",
    "mov rdx, [rdi + 2136]",
    "mov rsi, [rdi + 2144]",
    "mov rbp, [rdi + 2160]",
    "mov r8, [rdi + 2168]",
    "mov r9, [rdi + 2176]",
    "mov r10, [rdi + 2184]",
    "mov r11, [rdi + 2192]",
    "mov r12, [rdi + 2200]",
    "mov r13, [rdi + 2208]",
    "mov r14, [rdi + 2216]",
    "mov r15, [rdi + 2224]",
    "push qword ptr [rdi + 2232]",
    "popfq",
    "mov rdi, [rdi + 2152]",
    "syscall",
    ".globl test_registers_next",
    "test_registers_next:",
    "pushfq",
    "push rdi",
    "mov rdi, [rsp + 16]",
    "mov [rdi + 2112], rax",
    "mov [rdi + 2120], rbx",
    "mov [rdi + 2128], rcx",
    "mov [rdi + 2136], rdx",
    "mov [rdi + 2144], rsi",
    "mov [rdi + 2160], rbp",
    "mov [rdi + 2168], r8",
    "mov [rdi + 2176], r9",
    "mov [rdi + 2184], r10",
    "mov [rdi + 2192], r11",
    "mov [rdi + 2200], r12",
    "mov [rdi + 2208], r13",
    "mov [rdi + 2216], r14",
    "mov [rdi + 2224], r15",
    "pop qword ptr [rdi + 2152]",
    "pop qword ptr [rdi + 2232]",
    "cld",
    "stmxcsr [rdi + 2240]",
    "fnstcw [rdi + 2244]",
    "cmp word ptr [rdi + 2246], 1",
    "jb 5f",
    "je 4f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    ".endr",
    ".irp n, 24, 25, 26, 27, 28, 29, 30, 31",
    r"vmovdqu64 [rdi + 64 * \n], zmm\n",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    r"kmovq [rdi + 2048 + 8 * \n], k\n",
    ".endr",
    "vzeroupper",
    "jmp 6f",
    "4:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"vmovdqu [rdi + 64 * \n], ymm\n",
    ".endr",
    "vzeroupper",
    "jmp 6f",
    "5:",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"movdqu [rdi + 64 * \n], xmm\n",
    ".endr",
    "6:",
    "fninit",
    "mov dword ptr [rsp - 8], 0x1f80",
    "ldmxcsr [rsp - 8]",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    ".irp register, r15, r14, r13, r12, rbp, rbx",
    r"pop \register",
    ".cfi_adjust_cfa_offset -8",
    ".endr",
    "ret",
    ".cfi_endproc",
    // Overwrites what a function may overwrite, by instructions of SSE.
    "test_clobber:",
    ".irp register, rcx, rdx, rsi, rdi, r8, r9, r10, r11",
    r"mov \register, -1",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    r"pcmpeqd xmm\n, xmm\n",
    ".endr",
    "ret",
    // Overwrites what quick code may overwrite.
    "test_quick:",
    ".cfi_startproc",
    "mov r11, -1",
    "movzx ecx, byte ptr [rip + {answers}]",
    "xor ecx, 1",
    "jnz 2f",
    "movabs rax, {magic}",
    "2:",
    "test r11, r11",
    "stc",
    "ret",
    ".cfi_endproc",
    answers = sym QUICK_ANSWERS,
    magic = const MAGIC,
);

/// Whether the quick code does.
static QUICK_ANSWERS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn test_quick();
    fn test_registers(from: *const Registers, to: *mut Registers);
    fn test_registers_next();
    fn test_clobber();
}

/// Calls of the hook with the direction flag set.
static BACKWARDS: AtomicUsize = AtomicUsize::new(0);
/// Calls of the hook from sites that keep no vectors, as they say. The sites of this test do.
static KEEP_NONE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn hook(call: &mut Call) -> Next {
    let flags: u64;
    // SAFETY: reads the flags by way of the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
    BACKWARDS.fetch_add((flags >> 10 & 1) as usize, Relaxed);
    KEEP_NONE.fetch_add(usize::from(!call.keeps_vectors()), Relaxed);
    // SAFETY: overwrites registers that a function may overwrite.
    unsafe { test_clobber() };
    let number = std::mem::replace(&mut call.number, libc::SYS_getpid as usize);
    if number == QUICK {
        call.result = -MAGIC;
    } else if matches!(number, RETURNS | PERMITTED) {
        call.result = MAGIC;
    } else if number != TAIL {
        call.arguments = [0; 6]; // the caller keeps its own
    }
    match number {
        NATIVE => Next::Native,
        AGAIN => Next::Again,
        TAIL => Next::Tail,
        _ => Next::Return,
    }
}

fn start(number: usize, width: u16, flags: u64) -> Registers {
    let mut registers = Registers {
        wide: [[0; 8]; 32],
        masks: [0; 8],
        general: [0; 15],
        flags,
        mxcsr: 0x7f81,
        control: 0x0f7f,
        width,
    };
    let registers_of = |width| if width == 2 { 32 } else { 16 };
    for (at, register) in registers
        .wide
        .iter_mut()
        .enumerate()
        .take(registers_of(width))
    {
        for (word, value) in register.iter_mut().enumerate().take(2 << width) {
            *value = 0x1122_3344_5566_7701 + (at as u64) * 0x100_0100 + word as u64;
        }
    }
    for (at, mask) in registers
        .masks
        .iter_mut()
        .enumerate()
        .filter(|_| width == 2)
    {
        *mask = 0xf0f0_1234_0000_ffff + ((at as u64) << 16);
    }
    for (at, value) in registers.general.iter_mut().enumerate() {
        *value = 0x7700_0000_0000_1000 + at as u64;
    }
    registers.general[0] = number as u64;
    registers
}

fn by_libc(number: usize) -> isize {
    // SAFETY: no call that the kernel knows.
    unsafe { libc::syscall(number as libc::c_long) as isize }
}

fn permits_are_asked_for() {
    for word in [core::ptr::null(), &raw const PERMITS[0]] {
        WORD.set(word);
        assert_eq!(by_libc(PERMITTED), MAGIC, "not permitted");
        assert_eq!(by_libc(PASSES), -1, "not hooked");
        for number in [RETURNS, PERMITTED, QUICK] {
            for bit in 16..30 {
                assert_eq!(by_libc(number | 1 << bit), -1, "another number: bit {bit}");
            }
        }
    }
}

/// By each number, with each kind of flags and width of registers.
fn preserve_all(test: Test) {
    let width = if is_x86_feature_detected!("avx512bw") {
        2
    } else {
        u16::from(is_x86_feature_detected!("avx"))
    };
    // No flag; each of CF, PF, AF, ZF, SF, OF; all; and DF.
    let flags = [
        0x202, 0x203, 0x206, 0x212, 0x242, 0x282, 0xa02, 0xad7, 0x602, 0xed7,
    ];
    for (number, answers) in [PASSES, RETURNS, NATIVE, AGAIN, TAIL, PERMITTED, QUICK]
        .map(|number| (number, false))
        .into_iter()
        .chain([(QUICK, true)])
    {
        QUICK_ANSWERS.store(answers, Relaxed);
        for (flags, width) in flags
            .into_iter()
            .flat_map(|one| (0..=width).map(move |w| (one, w)))
        {
            let from = start(number, width, flags);
            let mut to = from.clone();
            to.wide = [[0; 8]; 32];
            to.masks = [0; 8];
            // SAFETY: the processor has the registers of this width.
            unsafe { test(&raw const from, &raw mut to) };
            let expected = match number {
                PASSES | PERMITTED => -i64::from(libc::ENOSYS),
                RETURNS => MAGIC as i64,
                QUICK if answers => MAGIC as i64,
                QUICK => -MAGIC as i64,
                _ => i64::from(std::process::id()),
            };
            let case = format!("number {number} {answers}, flags {flags:x}, width {width}");
            assert_eq!(to.general[0] as i64, expected, "{case}");
            if number != TAIL {
                let behind = test_registers_next as *const () as usize
                    - test_registers as *const () as usize;
                let next = (test as usize + behind) as u64;
                assert_eq!(to.general[RCX], next, "rcx of {case}");
                assert_eq!(to.general[R11], flags, "r11 of {case}");
            }
            for at in [0, RCX, R11] {
                to.general[at] = from.general[at];
            }
            assert_eq!(to, from, "{case}");
        }
    }
}

/// The function that a test calls: `test_registers`, or a copy of it.
type Test = unsafe extern "C" fn(*const Registers, *mut Registers);

/// A copy of the function as it is now, at a place where no site is looked for.
fn copy() -> Test {
    let start = test_registers as *const () as usize;
    let length = test_clobber as *const () as usize - start;
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    let place = unsafe { libc::mmap(core::ptr::null_mut(), length, rights, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: code that names no address outside, to new memory.
    unsafe { core::ptr::copy_nonoverlapping(start as *const u8, place.cast(), length) };
    // SAFETY: the same code.
    unsafe { core::mem::transmute::<*mut libc::c_void, Test>(place) }
}

extern "C" fn caught(_: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CAUGHT.fetch_add(1, Relaxed);
    // SAFETY: the kernel's arguments.
    if !unsafe { umcg_intercept::on_sigsys(information, context) } {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

#[test]
fn all_ways_preserve_all() {
    common::take_traps();
    let unhooked = copy();
    let config = Config {
        permit: Some(Permit {
            numbers: &PERMITS,
            word: word(),
        }),
        quick: Some(Quick {
            number: QUICK,
            code: test_quick,
        }),
        ..Config::new(hook, &HOOKED)
    };
    // SAFETY: the hook keeps to the rules, and no thread makes these calls.
    unsafe { umcg_intercept::install(config) }.unwrap();
    WORD.set(&raw const PERMITS[PERMITTED]);
    preserve_all(test_registers);
    if common::arm(caught) {
        preserve_all(unhooked);
        umcg_intercept::disarm_thread();
        assert!(CAUGHT.load(Relaxed) > 0);
    }
    assert_eq!(BACKWARDS.load(Relaxed), 0);
    assert_eq!(KEEP_NONE.load(Relaxed), 0);
    permits_are_asked_for();
}
