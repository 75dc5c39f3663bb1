//! x86-64 (System V ABI): general registers only.
//!
//! Small sizes are two overlapping moves, middle ones a loop, large ones `rep`.
//!
//! The functions of the C library that Rust's standard library calls besides, `memchr` and
//! `memrchr`, have no replacement here: a hook must not look for bytes by these.

use core::arch::global_asm;

macro_rules! function {
    ($name:literal, $($line:literal),* $(,)?) => {
        global_asm!(
            concat!(".pushsection .text.umcg_memory_", $name, ",\"ax\",@progbits"),
            ".p2align 5",
            concat!(".hidden ", $name),
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($line,)*
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
        );
    };
}

// All bytes of a short one, and the last 32 of a longer one, are loaded before any is stored, so
// this is `memmove` as well.
macro_rules! copy {
    ($name:literal) => {
        function!(
            $name,
            "mov rax, rdi",
            "cmp rdx, 8",
            "jb 3f",
            "cmp rdx, 16",
            "ja 1f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], r8",
            "ret",
            "1:",
            "cmp rdx, 32",
            "ja 5f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + 8]",
            "mov r9, [rsi + rdx - 16]",
            "mov r10, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + 8], r8",
            "mov [rdi + rdx - 16], r9",
            "mov [rdi + rdx - 8], r10",
            "ret",
            "3:", // up to 7
            "cmp edx, 4",
            "jb 4f",
            "mov ecx, [rsi]",
            "mov r8d, [rsi + rdx - 4]",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], r8d",
            "ret",
            "4:", // up to 3
            "test edx, edx",
            "je 2f",
            "movzx ecx, byte ptr [rsi]",
            "movzx r8d, byte ptr [rsi + rdx - 1]",
            "mov r10, rdx",
            "shr r10, 1",
            "movzx r9d, byte ptr [rsi + r10]",
            "mov [rdi], cl",
            "mov [rdi + r10], r9b",
            "mov [rdi + rdx - 1], r8b",
            "2:",
            "ret",
            "5:", // more than 32
            "mov rcx, rdi",
            "sub rcx, rsi",
            "cmp rcx, rdx",
            "jb 8f", // begins inside the source: from behind
            "cmp rdx, 1024",
            "jae 7f",
            "mov r8, [rsi + rdx - 32]",
            "mov r9, [rsi + rdx - 24]",
            "mov r10, [rsi + rdx - 16]",
            "mov r11, [rsi + rdx - 8]",
            "lea rdx, [rax + rdx - 32]", // where the last 32 bytes go
            "6:",
            "mov rcx, [rsi]",
            "mov [rdi], rcx",
            "mov rcx, [rsi + 8]",
            "mov [rdi + 8], rcx",
            "add rsi, 16",
            "add rdi, 16",
            "cmp rdi, rdx",
            "jb 6b",
            "mov [rdx], r8",
            "mov [rdx + 8], r9",
            "mov [rdx + 16], r10",
            "mov [rdx + 24], r11",
            "ret",
            "7:",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
            "8:",
            "mov r8, [rsi]",
            "mov r9, [rsi + 8]",
            "mov r10, [rsi + 16]",
            "mov r11, [rsi + 24]",
            "9:",
            "mov rcx, [rsi + rdx - 8]",
            "mov [rdi + rdx - 8], rcx",
            "mov rcx, [rsi + rdx - 16]",
            "mov [rdi + rdx - 16], rcx",
            "sub rdx, 16",
            "cmp rdx, 32",
            "ja 9b",
            "mov [rdi], r8",
            "mov [rdi + 8], r9",
            "mov [rdi + 16], r10",
            "mov [rdi + 24], r11",
            "ret",
        );
    };
}

copy!("memcpy");
copy!("memmove");

function!(
    "memset",
    "mov r9, rdi",
    "movzx eax, sil",
    "movabs r8, 0x0101010101010101",
    "imul r8, rax",
    "cmp rdx, 8",
    "jb 3f",
    "cmp rdx, 16",
    "ja 1f",
    "mov [rdi], r8",
    "mov [rdi + rdx - 8], r8",
    "mov rax, r9",
    "ret",
    "1:",
    "cmp rdx, 512",
    "jae 6f",
    "lea rcx, [rdi + rdx - 16]", // where the last 16 bytes go
    "2:",
    "mov [rdi], r8",
    "mov [rdi + 8], r8",
    "add rdi, 16",
    "cmp rdi, rcx",
    "jb 2b",
    "mov [rcx], r8",
    "mov [rcx + 8], r8",
    "mov rax, r9",
    "ret",
    "3:",
    "cmp edx, 4",
    "jb 4f",
    "mov [rdi], r8d",
    "mov [rdi + rdx - 4], r8d",
    "mov rax, r9",
    "ret",
    "4:",
    "test edx, edx",
    "je 5f",
    "mov [rdi], r8b",
    "mov [rdi + rdx - 1], r8b",
    "shr edx, 1",
    "mov [rdi + rdx], r8b",
    "5:",
    "mov rax, r9",
    "ret",
    "6:",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r9",
    "ret",
);

macro_rules! compare {
    ($name:literal) => {
        function!(
            $name,
            "cmp rdx, 8",
            "jb 4f",
            "lea r8, [rdx - 8]", // where the last 8 bytes are
            "xor ecx, ecx",
            "1:",
            "cmp rcx, r8",
            "cmova rcx, r8",
            "mov rax, [rdi + rcx]",
            "mov r9, [rsi + rcx]",
            "cmp rax, r9",
            "jne 3f",
            "add rcx, 8",
            "cmp rcx, rdx",
            "jb 2f",
            "xor eax, eax",
            "ret",
            "2:",
            "jmp 1b",
            "3:",
            "bswap rax",
            "bswap r9",
            "cmp rax, r9",
            "sbb eax, eax",
            "or eax, 1",
            "ret",
            "4:",
            "xor ecx, ecx",
            "5:",
            "cmp rcx, rdx",
            "jae 6f",
            "movzx eax, byte ptr [rdi + rcx]",
            "movzx r8d, byte ptr [rsi + rcx]",
            "inc rcx",
            "sub eax, r8d",
            "je 5b",
            "ret",
            "6:",
            "xor eax, eax",
            "ret",
        );
    };
}

compare!("memcmp");
compare!("bcmp");

function!(
    "strlen",
    "xor eax, eax",
    "1:",
    "cmp byte ptr [rdi + rax], 0",
    "je 2f",
    "inc rax",
    "jmp 1b",
    "2:",
    "ret",
);

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    unsafe extern "C" {
        fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8;
        fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32;
        fn strlen(text: *const u8) -> usize;
    }

    const SIZES: [usize; 14] = [
        100, 127, 128, 129, 500, 511, 512, 513, 1000, 1023, 1024, 1025, 4096, 5000,
    ];

    fn sizes() -> impl Iterator<Item = usize> {
        (0..100).chain(SIZES)
    }

    fn pattern() -> Vec<u8> {
        (0..12_000_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect()
    }

    #[test]
    fn copies_of_all_sizes_and_overlaps() {
        let pattern = pattern();
        for size in sizes() {
            for (from, to) in [
                (0, 6000),
                (50, 50),
                (50, 51),
                (51, 50),
                (50, 65),
                (65, 50),
                (90, 50),
            ] {
                let mut bytes = pattern.clone();
                let mut expected = bytes.clone();
                expected[to..to + size].copy_from_slice(&pattern[from..from + size]);
                let start = bytes.as_mut_ptr();
                // SAFETY: inside.
                let source = unsafe { start.add(from) };
                // SAFETY: inside.
                let target = unsafe { start.add(to) };
                // SAFETY: both have room for the size.
                let result = unsafe { memmove(target, source, size) };
                assert_eq!(result, target);
                assert!(bytes == expected, "{size} bytes from {from} to {to}");
            }
            let mut copy = vec![0; size];
            // SAFETY: `copy` has the size.
            unsafe { memcpy(copy.as_mut_ptr(), pattern.as_ptr(), size) };
            assert!(copy == pattern[..size]);
        }
    }

    #[test]
    fn sets_of_all_sizes() {
        for size in sizes() {
            let mut bytes = vec![1_u8; size + 2];
            // SAFETY: inside.
            let target = unsafe { bytes.as_mut_ptr().add(1) };
            // SAFETY: inside.
            let result = unsafe { memset(target, 0x1ab, size) };
            assert_eq!(result, target);
            assert!(bytes[1..=size].iter().all(|&byte| byte == 0xab), "{size}");
            assert_eq!([bytes[0], bytes[size + 1]], [1, 1], "{size}");
        }
    }

    #[test]
    fn comparisons_find_the_first_difference() {
        for size in sizes() {
            let one = pattern()[..size].to_vec();
            // SAFETY: both have the size.
            assert_eq!(unsafe { memcmp(one.as_ptr(), pattern().as_ptr(), size) }, 0);
            for at in (0..size).rev().step_by(7) {
                let mut other = one.clone();
                other[at] = !other[at];
                if let Some(last) = other.last_mut().filter(|_| at + 1 < size) {
                    *last = !*last;
                }
                // SAFETY: both have the size.
                let order = unsafe { memcmp(one.as_ptr(), other.as_ptr(), size) };
                assert_eq!(
                    order.signum(),
                    if one[at] < other[at] { -1 } else { 1 },
                    "{size} {at}"
                );
            }
        }
    }

    #[test]
    fn lengths_of_texts() {
        for size in 0..40 {
            let mut text = vec![b'a'; size];
            text.push(0);
            // SAFETY: ends in zero.
            assert_eq!(unsafe { strlen(text.as_ptr()) }, size);
        }
    }
}
