//! Sites of all shapes in this very executable, with a hook that looks at the number only.
//!
//! The numbers from 500 on are no calls of any kernel: a site that is not patched gets `ENOSYS`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;
use umcg_intercept::{Call, Config, Next, Report};

const RETURNS: usize = 500;
const NATIVE: usize = 501;
const AGAIN: usize = 502;
const TAIL: usize = 503;
const UNWINDS: usize = 504;
const SUMS: usize = 505;

const MAGIC: isize = 0x1234_5678_9abc;
const ENOSYS: isize = -38;

static HOOKED: [u8; 512] = common::hooked(RETURNS, SUMS);
static TRAPS: AtomicUsize = AtomicUsize::new(0);
static FRAMES: [AtomicUsize; 32] = [const { AtomicUsize::new(0) }; 32];
static NEXT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn backtrace(frames: *mut usize, count: i32) -> i32;
    fn test_clobber();
}

unsafe extern "C" fn hook(call: &mut Call) -> Next {
    // SAFETY: overwrites registers that a function may overwrite.
    unsafe { test_clobber() };
    if call.step == 0 {
        assert_eq!(call.notes[Call::FRESH..], [0; 4]);
        call.notes = [call.number; 16];
    } else {
        assert_eq!(call.notes[3], AGAIN);
    }
    NEXT.store(call.next(), Relaxed);
    match call.number {
        RETURNS => call.result = MAGIC,
        NATIVE | TAIL => {
            let next = if call.number == NATIVE {
                Next::Native
            } else {
                Next::Tail
            };
            call.number = libc::SYS_getpid as usize;
            return next;
        }
        AGAIN => {
            call.number = libc::SYS_getpid as usize;
            return Next::Again;
        }
        UNWINDS => {
            let mut frames = [0; FRAMES.len()];
            // SAFETY: the array has the length.
            unsafe { backtrace(frames.as_mut_ptr(), FRAMES.len() as i32) };
            FRAMES
                .iter()
                .zip(frames)
                .for_each(|(to, frame)| to.store(frame, Relaxed));
            call.result = call.stack_pointer() as isize;
        }
        SUMS => call.result = call.arguments.iter().sum::<usize>() as isize,
        // The second call after `Again`: the number is the changed one.
        _ => assert_eq!((call.step, call.result), (1, std::process::id() as isize)),
    }
    Next::Return
}

extern "C" fn trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    TRAPS.fetch_add(1, Relaxed);
    // SAFETY: the kernel's context.
    if !unsafe { umcg_intercept::on_trap(context) } {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

fn installed() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        common::handle(libc::SIGTRAP, trap, 0);
        let config = Config::new(hook, &HOOKED);
        // SAFETY: the hook keeps to the rules, and no thread is in a site of these numbers.
        unsafe { umcg_intercept::install(config) }.unwrap()
    })
}

macro_rules! functions {
    ($($name:literal: $($line:literal),+;)*) => {
        global_asm!($(
            concat!(".globl ", $name), concat!(".type ", $name, ",@function"), concat!($name, ":"),
            ".cfi_startproc", $($line,)+ ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
        )*);
    };
}

functions! {
    "test_clobber": "mov ecx, -1", "mov edx, -1", "mov esi, -1", "mov edi, -1", "mov r8, -1",
        "mov r9, -1", "mov r10, -1", "mov r11, -1",
        "pcmpeqd xmm0, xmm0", "pcmpeqd xmm1, xmm1", "pcmpeqd xmm2, xmm2", "pcmpeqd xmm3, xmm3",
        "pcmpeqd xmm4, xmm4", "pcmpeqd xmm5, xmm5", "pcmpeqd xmm6, xmm6", "pcmpeqd xmm7, xmm7",
        "pcmpeqd xmm8, xmm8", "pcmpeqd xmm9, xmm9", "pcmpeqd xmm10, xmm10",
        "pcmpeqd xmm11, xmm11", "pcmpeqd xmm12, xmm12", "pcmpeqd xmm13, xmm13",
        "pcmpeqd xmm14, xmm14", "pcmpeqd xmm15, xmm15",
        "xor eax, eax", "ret";
    // The plain shape.
    "test_plain": "mov eax, 500", "syscall", "ret";
    "test_native": "mov eax, 501", "syscall", "ret";
    "test_again": "mov eax, 502", "syscall", "ret";
    "test_tail": "mov eax, 503", "syscall", "ret";
    "test_unwinds": "sub rsp, 24", ".cfi_adjust_cfa_offset 24", "mov eax, 504", "syscall",
        "lea rcx, [rsp]", "sub rax, rcx", "add rsp, 24", ".cfi_adjust_cfa_offset -24", "ret";
    // Arguments of a function to those of a call.
    "test_sums": "mov eax, 505", "mov r10, rcx", "syscall", "ret";
    // The number comes in a register, and the window is short.
    "test_any": "mov rax, rdi", "mov rdi, rsi", "syscall", "ret";
    // The red zone.
    "test_red_zone": "mov rcx, -128", "1:", "mov [rsp + rcx], rcx", "add rcx, 8", "jne 1b",
        "mov eax, 500", "syscall",
        "mov rcx, -128", "2:", "cmp [rsp + rcx], rcx", "jne 3f", "add rcx, 8", "jne 2b",
        "ret", "3:", "xor eax, eax", "ret";
    // Something jumps at the syscall. Behind it is room.
    "test_entered": "mov eax, 500", "test edi, edi", "je 1f", "mov eax, 501", "1:", "syscall",
        "mov rcx, rax", "lea rax, [rcx]", "nop", "ret";
    // So it does here, and the straight line has a number that is not hooked.
    "test_other_number": "mov eax, 500", "test edi, edi", "je 1f", "mov eax, 39", "1:", "syscall",
        "mov rcx, rax", "lea rax, [rcx]", "nop", "ret";
    // Something jumps at the syscall, and behind it as well.
    "test_closed": "xor ecx, ecx", "test edi, edi", "je 1f", "mov eax, 500", "1:", "syscall",
        "2:", "inc ecx", "cmp ecx, 3", "jb 2b", "ret";
    // A neighbour jumps into the window.
    "test_neighbour": "mov eax, 500", "jmp .Ltest_neighbour";
    "test_by_neighbour": "mov eax, 500", ".Ltest_neighbour:",
        "syscall", "ret";
    // A function far away jumps into the window.
    "test_by_far": "mov eax, 500", ".Ltest_far:", "syscall", "ret";
    // So do others, by other instructions.
    "test_by_condition": "mov eax, 500", ".Ltest_condition:", "syscall", "ret";
    "test_by_lea": "mov eax, 500", ".Ltest_lea:", "syscall", "ret";
    "test_by_call": "mov eax, 500", ".Ltest_call:", "syscall", "ret";
    // Bytes look like a jump to it: a constant of a function far away, and data between functions.
    "test_by_constant": "mov eax, 500", ".Ltest_constant:", "syscall", "ret";
    "test_by_data": "mov eax, 500", ".Ltest_data:", "syscall", "ret";
    // A symbol stands before it, so another object may jump there.
    "test_by_name": "mov eax, 500", ".type test_name,@function", "test_name:", "syscall", "ret";
    // Something jumps into the instruction itself.
    "test_by_middle": "mov eax, 500", ".Ltest_middle:", "syscall", "ret";
    // A function does not decode: so its site may be data, and what looks like a jump may be one.
    "test_undecoded": "jmp 1f", ".byte 6", "1:", "mov eax, 500", "syscall", "ret";
    "test_jumps_undecoded": "mov eax, 500", "jmp 1f", ".byte 6, 6, 0xe9",
        ".long .Ltest_undecoded - . - 4", "1:", "jmp .Ltest_undecoded";
    "test_by_undecoded": "mov eax, 500", ".Ltest_undecoded:", "syscall", "ret";
    // The bytes of a `syscall` are part of constants.
    "test_constants": "mov eax, 0x050f", "mov ecx, 0x0f050f05", "sub eax, ecx", "ret";
    "test_beside_constants": "mov ecx, 0x050f", "mov eax, 500", "syscall", "ret";
    // Instructions of all kinds before the site: lengths are by tables, and by the decoder.
    "test_many_lengths": "mov rax, qword ptr fs:[0]", "movabs rax, 0x050f050f050f050f",
        "mov word ptr [rsp - 8], 0x050f", "test byte ptr [rsp - 8], 5", "neg rax",
        "test eax, 0x050f", "lea rcx, [rax + 8 * rax + 0x050f]", "pcmpeqd xmm1, xmm2",
        "lock or dword ptr [rsp - 8], 0", "rep nop", "nop word ptr [rax + rax + 0x050f]",
        "mov eax, 500", "syscall", "ret";
    // The end of a longer instruction looks like `mov $16, %eax`.
    "test_tail_of_move": "mov rax, rdi", "mov rcx, rsi",
        ".byte 0xc7, 0x81, 0x00, 0x00, 0x00, 0xb8, 0x10, 0x00, 0x00, 0x00", "syscall", "ret";
    // Nothing of a function before a `syscall`: the function before must stay.
    "test_before": "mov eax, 7", "ret";
    "test_bare": "syscall", "ret";
    "test_endbr": "endbr64", "syscall", "mov rdx, rax", "mov rax, rdx", "ret";
    // A displaced instruction that is relative to its address.
    "test_relative": "mov eax, dword ptr [rip + test_number]", "syscall", "ret";
    "test_relative_behind": "mov eax, edi", "jmp 1f", "1:", "syscall",
        "lea rax, [rip + test_number]", "ret";
    // A `call` stands before: the window begins behind it.
    "test_call": "sub rsp, 8", "call test_five_hundred", "syscall", "add rsp, 8", "ret";
    "test_five_hundred": "mov eax, 500", "ret";
    // A table of jumps, as compilers write it, with an entry inside the window.
    "test_table": "mov eax, 501", "lea rcx, [rip + test_jumps]",
        "movsxd rdx, dword ptr [rcx + 4 * rdi]",
        "add rdx, rcx", "jmp rdx", ".Ltest_table_zero:", "mov eax, 500",
        ".Ltest_table_one:", "syscall", "ret";
    // The table lies in code, between functions.
    "test_text_table": "mov eax, 501", "lea rcx, [rip + .Ltest_text_jumps]",
        "movsxd rdx, dword ptr [rcx + 4 * rdi]",
        "add rdx, rcx", "jmp rdx", ".Ltest_text_zero:", "mov eax, 500",
        ".Ltest_text_one:", "syscall", "ret";
    // An address in data.
    "test_pointer": "mov eax, 500", "jmp [rip + test_pointers]";
    "test_by_pointer": "mov eax, 500", ".Ltest_pointed:", "syscall", "ret";
    // To jump anywhere with a number.
    "test_jump": "mov rax, rdi", "jmp rsi";
    // Two sites side by side.
    "test_two": "xor r10d, r10d", "mov eax, 500", "syscall", "mov eax, 505", "syscall", "ret";
    // One behind the other: the first one's window goes on behind it, and leaves the second none.
    "test_close": "endbr64", "syscall", "mov rdx, rax", "syscall", "mov rax, rdx", "ret";
    // The number is not the constant.
    "test_overwritten": "mov eax, 39", "mov eax, edi", "syscall", "ret";
    // The restorer.
    "test_restorer": "mov rax, 15", "syscall";
}

global_asm!(
    // All functions with sites are in `.text`, and this one far from them.
    ".pushsection .text.test_far,\"ax\"",
    ".zero 4096, 0xcc",
    ".globl test_far",
    ".type test_far,@function",
    "test_far:",
    ".cfi_startproc",
    "mov eax, 500",
    "jmp .Ltest_far",
    ".cfi_endproc",
    ".size test_far, . - test_far",
    // As far as jumps of 8 bits go, from both sides, and no other site is near.
    ".zero 512, 0xcc",
    ".globl test_forth",
    ".type test_forth,@function",
    "test_forth:",
    ".cfi_startproc",
    "mov eax, 500",
    "jmp .Ltest_forth",
    ".cfi_endproc",
    ".size test_forth, . - test_forth",
    ".zero 122, 0xcc",
    ".globl test_by_forth",
    ".type test_by_forth,@function",
    "test_by_forth:",
    ".cfi_startproc",
    "mov eax, 500",
    ".Ltest_forth:",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size test_by_forth, . - test_by_forth",
    ".zero 512, 0xcc",
    ".globl test_by_back",
    ".type test_by_back,@function",
    "test_by_back:",
    ".cfi_startproc",
    "mov eax, 500",
    ".Ltest_back:",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size test_by_back, . - test_by_back",
    ".zero 118, 0xcc",
    ".globl test_back",
    ".type test_back,@function",
    "test_back:",
    ".cfi_startproc",
    "mov eax, 500",
    "jmp .Ltest_back",
    ".cfi_endproc",
    ".size test_back, . - test_back",
    ".zero 512, 0xcc",
    ".globl test_far_others",
    ".type test_far_others,@function",
    "test_far_others:",
    ".cfi_startproc",
    "mov eax, 500",
    "cmp edi, 1",
    "jb .Ltest_condition",
    "ja 1f",
    "lea rcx, [rip + .Ltest_middle + 1]",
    "lea rcx, [rip + .Ltest_lea]",
    "jmp rcx",
    "1:",
    "call .Ltest_call",
    // `movabs`
    ".byte 0x48, 0xb9, 0, 0, 0, 0xe9",
    ".long .Ltest_constant - . - 4",
    "ret",
    ".cfi_endproc",
    ".size test_far_others, . - test_far_others",
    ".byte 0xcc, 0xcc, 0xe9",
    ".long .Ltest_data - . - 4",
    ".p2align 2, 0xcc",
    ".Ltest_text_jumps:",
    ".long .Ltest_text_zero - .Ltest_text_jumps",
    ".long .Ltest_text_one - .Ltest_text_jumps",
    ".popsection",
    // Names of labels beside those of functions are local: else the table of symbols has them.
    ".pushsection .rodata.test,\"a\"",
    ".p2align 2",
    "test_jumps:",
    ".long .Ltest_table_zero - test_jumps",
    ".long .Ltest_table_one - test_jumps",
    "test_number:",
    ".long 500",
    ".popsection",
    ".pushsection .data.rel.ro.test,\"aw\"",
    ".p2align 3",
    "test_pointers:",
    ".quad .Ltest_pointed",
    ".popsection",
);

type Plain = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

macro_rules! declare {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize;)*
        }
    };
}

declare! {
    test_plain test_native test_again test_tail test_unwinds test_sums test_any test_red_zone
    test_entered test_other_number test_closed test_neighbour test_by_neighbour test_by_far test_far
    test_by_condition test_by_lea test_by_call test_far_others test_by_constant test_by_data
    test_constants test_beside_constants test_many_lengths test_text_table
    test_by_name test_by_middle test_undecoded test_jumps_undecoded test_by_undecoded
    test_forth test_by_forth test_back test_by_back
    test_tail_of_move test_before test_bare test_endbr test_relative test_relative_behind
    test_call test_table test_pointer
    test_by_pointer test_jump test_two test_close test_overwritten test_restorer
}

fn run(function: Plain, arguments: [usize; 6]) -> isize {
    installed();
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the functions of this file keep to the calling convention.
    unsafe { function(a, b, c, d, e, f) }
}

fn pid() -> isize {
    std::process::id() as isize
}

fn bytes<const N: usize>(function: Plain) -> [u8; N] {
    // SAFETY: code is readable.
    unsafe { (function as *const [u8; N]).read() }
}

#[test]
fn all_answers_of_a_hook() {
    assert_eq!(run(test_plain, [0; 6]), MAGIC);
    assert_eq!(run(test_native, [0; 6]), pid());
    assert_eq!(run(test_again, [0; 6]), pid());
    assert_eq!(run(test_tail, [0; 6]), pid());
    assert_eq!(run(test_sums, [1, 20, 300, 4000, 50_000, 600_000]), 654_321);
    assert_eq!(bytes::<1>(test_plain), [0xe9], "the site is patched");
}

#[test]
fn numbers_that_are_not_hooked_pass() {
    assert_eq!(
        run(test_any, [libc::SYS_getpid as usize, 0, 0, 0, 0, 0]),
        pid()
    );
    assert_eq!(run(test_any, [RETURNS, 0, 0, 0, 0, 0]), MAGIC);
    // The low 16 bits are those of a hooked one.
    assert_eq!(run(test_any, [RETURNS | 1 << 16, 0, 0, 0, 0, 0]), ENOSYS);
    assert_eq!(run(test_any, [RETURNS | 1 << 31, 0, 0, 0, 0, 0]), ENOSYS);
    // The kernel looks at 32 bits.
    assert_eq!(run(test_any, [RETURNS | 1 << 32, 0, 0, 0, 0, 0]), MAGIC);
    assert_eq!(run(test_any, [usize::MAX, 0, 0, 0, 0, 0]), ENOSYS);
}

#[test]
fn the_red_zone_survives() {
    assert_eq!(run(test_red_zone, [0; 6]), MAGIC);
}

#[test]
fn windows_that_are_entered() {
    assert_eq!(run(test_entered, [0; 6]), MAGIC);
    assert_eq!(run(test_entered, [1, 0, 0, 0, 0, 0]), pid());
    assert_eq!(run(test_other_number, [0; 6]), MAGIC);
    assert_eq!(run(test_other_number, [1, 0, 0, 0, 0, 0]), pid());
    assert_eq!(
        run(test_closed, [1, 0, 0, 0, 0, 0]),
        ENOSYS,
        "there is no window"
    );
    assert_eq!(run(test_neighbour, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_neighbour, [0; 6]), ENOSYS);
    assert_eq!(run(test_far, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_far, [0; 6]), ENOSYS);
    assert_eq!(run(test_table, [0; 6]), ENOSYS);
    assert_eq!(run(test_table, [1, 0, 0, 0, 0, 0]), ENOSYS);
    assert_eq!(run(test_pointer, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_pointer, [0; 6]), ENOSYS);
}

#[test]
fn windows_that_are_entered_from_far_away() {
    for way in 0..3 {
        assert_eq!(run(test_far_others, [way, 0, 0, 0, 0, 0]), ENOSYS);
    }
    assert_eq!(run(test_by_condition, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_lea, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_call, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_data, [0; 6]), ENOSYS, "it may be code");
    assert_eq!(run(test_text_table, [0; 6]), ENOSYS);
    assert_eq!(run(test_text_table, [1, 0, 0, 0, 0, 0]), ENOSYS);
    assert_eq!(run(test_by_constant, [0; 6]), MAGIC, "it is no code");
}

#[test]
fn windows_that_are_entered_by_jumps_of_eight_bits() {
    assert_eq!(bytes::<7>(test_forth)[5..], [0xeb, 0x7f]);
    assert_eq!(bytes::<7>(test_back)[5..], [0xeb, 0x80]);
    for function in [test_forth, test_by_forth, test_back, test_by_back] {
        assert_eq!(run(function, [0; 6]), ENOSYS);
    }
}

#[test]
fn windows_that_may_be_entered() {
    assert_eq!(run(test_by_name, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_middle, [0; 6]), ENOSYS);
    assert_eq!(run(test_undecoded, [0; 6]), ENOSYS);
    assert_eq!(run(test_jumps_undecoded, [0; 6]), ENOSYS);
    assert_eq!(run(test_by_undecoded, [0; 6]), ENOSYS);
    assert!(installed().total().undecoded >= 1);
}

#[test]
fn constants_are_no_sites() {
    let original = bytes::<5>(test_constants);
    let difference = 0x050f_i32.wrapping_sub(0x0f05_0f05);
    assert_eq!(run(test_constants, [0; 6]) as i32, difference);
    assert_eq!(bytes::<5>(test_constants), original);
    assert_eq!(original, [0xb8, 0x0f, 0x05, 0, 0]);
    assert_eq!(run(test_beside_constants, [0; 6]), MAGIC);
    assert_eq!(
        bytes::<6>(test_beside_constants),
        [0xb9, 0x0f, 0x05, 0, 0, 0xe9]
    );
    assert_eq!(run(test_many_lengths, [0; 6]), MAGIC);
}

#[test]
fn windows_that_would_reach_too_far() {
    let mut memory = [0_u32; 4];
    let base = (memory.as_mut_ptr() as usize).wrapping_add(0x4800_0000);
    let number = libc::SYS_getpid as usize;
    assert_eq!(run(test_tail_of_move, [number, base, 0, 0, 0, 0]), pid());
    assert_eq!(memory, [16, 0, 0, 0]);
    assert_eq!(run(test_tail_of_move, [RETURNS, base, 0, 0, 0, 0]), MAGIC);
    assert_eq!(run(test_before, [0; 6]), 7);
    let getpid = libc::SYS_getpid as usize;
    assert_eq!(
        run(
            test_jump,
            [getpid, test_bare as *const () as usize, 0, 0, 0, 0]
        ),
        pid()
    );
    assert_eq!(
        run(
            test_jump,
            [RETURNS, test_bare as *const () as usize, 0, 0, 0, 0]
        ),
        ENOSYS
    );
    assert_eq!(bytes::<3>(test_bare), [0x0f, 0x05, 0xc3]);
    assert_eq!(
        run(
            test_jump,
            [RETURNS, test_endbr as *const () as usize, 0, 0, 0, 0]
        ),
        MAGIC
    );
    assert_eq!(bytes::<5>(test_endbr), [0xf3, 0x0f, 0x1e, 0xfa, 0xe9]);
    assert_eq!(run(test_call, [0; 6]), MAGIC);
    assert_eq!(run(test_two, [100, 20, 3, 0, 0, 0]), 123);
    let close = test_close as *const () as usize;
    assert_eq!(run(test_jump, [RETURNS, close, 0, 0, 0, 0]), MAGIC);
    let [code @ .., first, second] = bytes::<11>(test_close);
    assert_eq!((code[4], first, second), (0xe9, 0x0f, 0x05));
    assert_eq!(run(test_overwritten, [RETURNS, 0, 0, 0, 0, 0]), MAGIC);
    assert_eq!(
        bytes::<9>(test_restorer),
        [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05]
    );
}

#[test]
fn relative_instructions_move() {
    assert_eq!(run(test_relative, [0; 6]), MAGIC);
    let address = run(test_relative_behind, [RETURNS, 0, 0, 0, 0, 0]) as *const u32;
    // SAFETY: the address of the number in this file.
    assert_eq!(unsafe { address.read() }, 500);
    assert_eq!(run(test_relative, [0; 6]), MAGIC);
}

#[test]
fn a_jump_to_the_old_syscall_traps_and_goes_on() {
    installed();
    let before = TRAPS.load(Relaxed);
    let inside = test_plain as *const () as usize + 5;
    assert_eq!(run(test_jump, [RETURNS, inside, 0, 0, 0, 0]), MAGIC);
    assert_eq!(run(test_jump, [NATIVE, inside, 0, 0, 0, 0]), pid());
    assert_eq!(TRAPS.load(Relaxed), before + 2);
}

#[test]
fn unwinding_sees_the_caller() {
    assert_eq!(
        run(test_unwinds, [0; 6]),
        0,
        "the stack pointer is the caller's"
    );
    let frames: Vec<usize> = FRAMES.iter().map(|frame| frame.load(Relaxed)).collect();
    let site = test_unwinds as *const () as usize;
    let at = frames
        .iter()
        .position(|frame| (site..site + 32).contains(frame));
    let at = at.unwrap_or_else(|| panic!("the site is missing: {frames:x?}"));
    assert_eq!(frames[at], site + 4 + 5 + 2);
    let here = run as *const () as usize;
    assert!(
        (here..here + 4096).contains(&frames[at + 1]),
        "{here:x} {frames:x?}"
    );
    assert!(frames[at + 4] != 0, "{frames:x?}");
}

#[test]
fn the_report_counts_all() {
    let total = installed().total();
    assert!(total.no_window >= 5, "{total:?}");
    assert!(total.patched >= 10, "{total:?}");
    assert!(total.restorers >= 2, "{total:?}");
    let sum = total.patched
        + total.unhooked
        + total.restorers
        + total.own
        + total.no_window
        + total.no_memory
        + total.not_writable;
    assert_eq!(total.sites, sum, "{total:?}");
    assert_eq!(umcg_intercept::report().total(), total);
    assert_eq!(umcg_intercept::look_again().patched, 0);
}
