//! Callee-saved registers survive a switch: assembly fills them all, calls a function that
//! switches, and checks them.

mod common;

use common::Coroutine;
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::ptr::null_mut;
use std::rc::Rc;

type Function = unsafe extern "C" fn(*mut ());

unsafe extern "C" fn suspend(arg: *mut ()) {
    // SAFETY: the tests pass a coroutine that runs.
    unsafe { &*arg.cast_const().cast::<Coroutine>() }.suspend();
}

/// Calls `f(arg)` with `seed`, `seed + 1`, … in the callee-saved registers; returns their values
/// afterwards.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn through_registers(f: Function, arg: *mut (), seed: u64) -> [u64; 6] {
    let mut after = [0; 6];
    // SAFETY: the two registers that asm may not name are pushed and popped. The two further words
    // keep the stack aligned.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push rdx",
            "push rdx",
            "mov rbx, rcx",
            "lea rbp, [rcx + 1]",
            "lea r12, [rcx + 2]",
            "lea r13, [rcx + 3]",
            "lea r14, [rcx + 4]",
            "lea r15, [rcx + 5]",
            "call rsi",
            "pop rdx",
            "pop rdx",
            "mov [rdx], rbx",
            "mov [rdx + 8], rbp",
            "mov [rdx + 16], r12",
            "mov [rdx + 24], r13",
            "mov [rdx + 32], r14",
            "mov [rdx + 40], r15",
            "pop rbp",
            "pop rbx",
            inout("rdi") arg => _, inout("rsi") f => _, inout("rdx") &raw mut after => _,
            inout("rcx") seed => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    after
}

/// Calls `f(arg)` with `seed`, `seed + 1`, … in the callee-saved registers; returns their values
/// afterwards.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn through_registers(f: Function, arg: *mut (), seed: u64) -> [u64; 19] {
    let mut after = [0; 19];
    // SAFETY: the two registers that asm may not name are stored and loaded again.
    unsafe {
        asm!(
            "sub sp, sp, #32",
            "stp x29, x19, [sp]",
            "str x2, [sp, #16]",
            "mov x19, x3",
            "add x20, x3, #1",
            "add x21, x3, #2",
            "add x22, x3, #3",
            "add x23, x3, #4",
            "add x24, x3, #5",
            "add x25, x3, #6",
            "add x26, x3, #7",
            "add x27, x3, #8",
            "add x28, x3, #9",
            "add x29, x3, #10",
            "add x9, x3, #11",
            "fmov d8, x9",
            "add x9, x3, #12",
            "fmov d9, x9",
            "add x9, x3, #13",
            "fmov d10, x9",
            "add x9, x3, #14",
            "fmov d11, x9",
            "add x9, x3, #15",
            "fmov d12, x9",
            "add x9, x3, #16",
            "fmov d13, x9",
            "add x9, x3, #17",
            "fmov d14, x9",
            "add x9, x3, #18",
            "fmov d15, x9",
            "blr x1",
            "ldr x2, [sp, #16]",
            "stp x19, x20, [x2]",
            "stp x21, x22, [x2, #16]",
            "stp x23, x24, [x2, #32]",
            "stp x25, x26, [x2, #48]",
            "stp x27, x28, [x2, #64]",
            "str x29, [x2, #80]",
            "stp d8, d9, [x2, #88]",
            "stp d10, d11, [x2, #104]",
            "stp d12, d13, [x2, #120]",
            "stp d14, d15, [x2, #136]",
            "ldp x29, x19, [sp]",
            "add sp, sp, #32",
            inout("x0") arg => _, inout("x1") f => _, inout("x2") &raw mut after => _,
            inout("x3") seed => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _,
            out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
    after
}

/// Calls `f(arg)` with `seed`, `seed + 1`, … in the callee-saved registers; returns their values
/// afterwards.
#[cfg(target_arch = "riscv64")]
#[inline(never)]
fn through_registers(f: Function, arg: *mut (), seed: u64) -> [u64; 24] {
    let mut after = [0; 24];
    // SAFETY: the two registers that asm may not name are stored and loaded again.
    unsafe {
        asm!(
            "addi sp, sp, -32",
            "sd s0, 0(sp)",
            "sd s1, 8(sp)",
            "sd a2, 16(sp)",
            "mv s0, a3",
            "addi s1, a3, 1",
            "addi s2, a3, 2",
            "addi s3, a3, 3",
            "addi s4, a3, 4",
            "addi s5, a3, 5",
            "addi s6, a3, 6",
            "addi s7, a3, 7",
            "addi s8, a3, 8",
            "addi s9, a3, 9",
            "addi s10, a3, 10",
            "addi s11, a3, 11",
            "addi t0, a3, 12",
            "fmv.d.x fs0, t0",
            "addi t0, a3, 13",
            "fmv.d.x fs1, t0",
            "addi t0, a3, 14",
            "fmv.d.x fs2, t0",
            "addi t0, a3, 15",
            "fmv.d.x fs3, t0",
            "addi t0, a3, 16",
            "fmv.d.x fs4, t0",
            "addi t0, a3, 17",
            "fmv.d.x fs5, t0",
            "addi t0, a3, 18",
            "fmv.d.x fs6, t0",
            "addi t0, a3, 19",
            "fmv.d.x fs7, t0",
            "addi t0, a3, 20",
            "fmv.d.x fs8, t0",
            "addi t0, a3, 21",
            "fmv.d.x fs9, t0",
            "addi t0, a3, 22",
            "fmv.d.x fs10, t0",
            "addi t0, a3, 23",
            "fmv.d.x fs11, t0",
            "jalr a1",
            "ld a2, 16(sp)",
            "sd s0, 0(a2)",
            "sd s1, 8(a2)",
            "sd s2, 16(a2)",
            "sd s3, 24(a2)",
            "sd s4, 32(a2)",
            "sd s5, 40(a2)",
            "sd s6, 48(a2)",
            "sd s7, 56(a2)",
            "sd s8, 64(a2)",
            "sd s9, 72(a2)",
            "sd s10, 80(a2)",
            "sd s11, 88(a2)",
            "fsd fs0, 96(a2)",
            "fsd fs1, 104(a2)",
            "fsd fs2, 112(a2)",
            "fsd fs3, 120(a2)",
            "fsd fs4, 128(a2)",
            "fsd fs5, 136(a2)",
            "fsd fs6, 144(a2)",
            "fsd fs7, 152(a2)",
            "fsd fs8, 160(a2)",
            "fsd fs9, 168(a2)",
            "fsd fs10, 176(a2)",
            "fsd fs11, 184(a2)",
            "ld s0, 0(sp)",
            "ld s1, 8(sp)",
            "addi sp, sp, 32",
            inout("a0") arg => _, inout("a1") f => _, inout("a2") &raw mut after => _,
            inout("a3") seed => _,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
            out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
            clobber_abi("C"),
        );
    }
    after
}

fn check(after: &[u64], seed: u64) {
    assert!(
        after.iter().copied().eq(seed..seed + after.len() as u64),
        "spoiled registers: {after:?} from {seed}"
    );
}

fn suspend_and_check(me: &Coroutine, seed: u64) {
    check(
        &through_registers(suspend, (&raw const *me).cast_mut().cast(), seed),
        seed,
    );
}

// A planted bug: a function that returns with one register changed.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_spoil:",
    "inc r13",
    "ret",
    ".popsection"
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_spoil:",
    "fmov d12, xzr",
    "ret",
    ".popsection"
);
#[cfg(target_arch = "riscv64")]
global_asm!(
    ".pushsection .text",
    "umcg_test_spoil:",
    "li s9, 0",
    "ret",
    ".popsection"
);

unsafe extern "C" {
    fn umcg_test_spoil(_: *mut ());
}

#[test]
#[should_panic(expected = "spoiled registers")]
fn a_spoiled_register_is_noticed() {
    check(
        &through_registers(umcg_test_spoil, null_mut(), 1_000),
        1_000,
    );
}

#[test]
fn callee_saved_registers_survive() {
    let right = Rc::new(Cell::new(0));
    let coroutines: Vec<_> = (1..=3)
        .map(|number| {
            let right = Rc::clone(&right);
            Coroutine::new(move |me| {
                for round in 0..10 {
                    let seed = number * 1_000_000 + round * 100;
                    suspend_and_check(me, seed);
                    right.set(right.get() + 1);
                }
            })
        })
        .collect();
    for _ in 0..11 {
        coroutines.iter().for_each(|coroutine| coroutine.resume());
    }
    assert_eq!(right.get(), 30);
}

#[test]
fn callee_saved_registers_survive_callbacks() {
    unsafe extern "C" fn spoil(arg: *mut ()) {
        // A call that itself uses callee-saved registers, and restores them.
        // SAFETY: the test passes a counter, and waits.
        let count = unsafe { &mut *arg.cast::<u64>() };
        *count += u64::from(format!("{count}").parse::<u32>() == Ok(*count as u32));
    }
    let coroutine = Coroutine::new(|me| {
        for round in 0..10 {
            let seed = 500_000 + round * 100;
            suspend_and_check(me, seed);
        }
    });
    let mut count = 0u64;
    while !coroutine.finished() {
        if count % 2 == 0 {
            coroutine.resume_with(spoil, (&raw mut count).cast());
        } else {
            coroutine.resume_inside(spoil, (&raw mut count).cast());
        }
    }
    assert_eq!(count, 11);
}
