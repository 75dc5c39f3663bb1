//! Wake-ups of words for which nobody waits, answered before the hook.
//!
//! Locks and condition variables of C libraries make many of them: a mutex that was once contended
//! is, as far as its word tells, so a thread that frees it wakes. The hook saves registers, which
//! takes longer than the look. This is the same look
//! ([`Table::is_idle`](crate::futex::table::Table::is_idle), then the outsiders' counts) in two
//! registers: the engine's [`Quick`] code.
//!
//! - I1: *it answers 0 only where the hook would*: for FUTEX_WAKE of a private word, at an address
//!   that is aligned and surely a user's, that nobody waits for in the table nor in the kernel.
//!   The order of the looks is that of F5 and B2, with the fence after the first one.
//! - I2: *it answers for any flow*: guests at home, away and inside, children that share their
//!   memory, and outsiders. It reads nothing of theirs. What the hook does besides, such as to see
//!   to signals, the next call does, or the tick.
//! - I3: *nobody waits in the kernel uncounted*, but where `has_uncounted` says so: in children of
//!   forks, which intercept nothing.
//! - I4: *code to be looked at comes first*: while `code` wants attention, the hook is called.

use super::code;
use super::outsider::{self, FIELDS, OUTSIDERS};
use crate::futex::kernel::UNCLEAR;
use crate::futex::table::{FACTOR, bucket};
use crate::futex::{BUCKETS, TABLE};
use std::arch::global_asm;
use umcg_intercept::Quick;

/// The first bits of the hash are the index of the bucket, and of these the first ones that of the
/// count.
const BUCKET_BITS: u32 = BUCKETS.ilog2();
const COUNT_BITS: u32 = outsider::COUNTS.ilog2();

const _: () = assert!(BUCKETS.is_power_of_two() && outsider::COUNTS.is_power_of_two());
const _: () = assert!(BUCKET_BITS >= COUNT_BITS && bucket::SIZE.is_power_of_two());
const _: () = assert!(FACTOR == outsider::FACTOR as u64);

pub(super) const QUICK: Quick = Quick {
    number: libc::SYS_futex as usize,
    code: umcg_idle_wake,
};

unsafe extern "C" {
    fn umcg_idle_wake();
}

global_asm!(
    ".pushsection .text.umcg_idle_wake,\"ax\",@progbits",
    ".p2align 6",
    ".hidden umcg_idle_wake",
    ".globl umcg_idle_wake",
    ".type umcg_idle_wake,@function",
    "umcg_idle_wake:", // rax: the number; rdi, rsi: the word's address, the operation
    ".cfi_startproc",
    "cmp esi, {wake}",
    "jne 2f",
    "test edi, 3",
    "jne 2f",
    "movabs rcx, {unclear}",
    "cmp rdi, rcx",
    "jae 2f", // the kernel knows whether it is a user's
    "test dword ptr [rip + {code}], {attention}",
    "jne 2f",
    "mov rcx, rdi",
    "shr rcx, 2",
    "movabs r11, {factor}",
    "imul rcx, r11",
    "shr rcx, 64 - {bucket_bits}",
    "shl ecx, {bucket_shift}",
    "lea r11, [rip + {table}]",
    "add rcx, r11",
    "cmp byte ptr [rcx + {is_used}], 0",
    "jne 2f",
    "lock or dword ptr [rsp], 0", // the fence
    "cmp dword ptr [rcx + {lock}], 0",
    "jne 2f",
    "cmp byte ptr [rcx + {is_used}], 0",
    "jne 2f",
    "sub rcx, r11",
    "shr ecx, {bucket_shift} + {bucket_bits} - {count_bits}",
    "lea r11, [rip + {outsiders}]",
    "cmp qword ptr [r11 + 8 * rcx + {waiting}], 0",
    "jne 2f",
    "cmp qword ptr [r11 + {lists}], 0",
    "jne 2f",
    "cmp byte ptr [r11 + {has_uncounted}], 0",
    "jne 2f",
    "xor eax, eax",
    "xor ecx, ecx",
    "ret",
    "2:",
    "mov ecx, 1",
    "ret",
    ".cfi_endproc",
    ".size umcg_idle_wake, . - umcg_idle_wake",
    ".popsection",
    wake = const libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
    unclear = const UNCLEAR,
    code = sym code::STATE,
    attention = const code::ATTENTION,
    factor = const FACTOR,
    table = sym TABLE,
    bucket_bits = const BUCKET_BITS,
    bucket_shift = const bucket::SIZE.ilog2(),
    is_used = const bucket::IS_USED,
    lock = const bucket::LOCK,
    outsiders = sym OUTSIDERS,
    count_bits = const COUNT_BITS,
    waiting = const FIELDS[0],
    lists = const FIELDS[1],
    has_uncounted = const FIELDS[2],
);

#[cfg(test)]
mod tests {
    use super::super::outsider::WordCall;
    use super::*;
    use crate::futex;
    use std::arch::asm;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::thread;

    const WAKE: i32 = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

    /// Whether the code answers such a call, with 0.
    fn answers(address: usize, operation: i32) -> bool {
        let (mut number, declined) = (libc::SYS_futex as usize, usize::MAX);
        let mut left = declined;
        // SAFETY: the code changes what it may, and finds the stack as for a function.
        unsafe {
            asm!(
                "call {code}",
                code = sym umcg_idle_wake,
                inout("rax") number,
                inout("rcx") left,
                out("r11") _,
                in("rdi") address,
                in("rsi") operation as isize,
            );
        }
        assert!(
            matches!((left, number), (0, 0)) || (left != 0 && number == libc::SYS_futex as usize)
        );
        left == 0
    }

    /// Other tests may use a word of the same bucket for a while.
    fn answers_soon(word: &AtomicU32) -> bool {
        (0..100_000).any(|_| {
            thread::yield_now();
            answers(word.as_ptr().addr(), WAKE)
        })
    }

    #[test]
    fn as_the_hook_would() {
        let word = AtomicU32::new(0);
        let address = word.as_ptr().addr();
        assert!(answers_soon(&word), "nobody waits");
        for operation in [
            libc::FUTEX_WAKE,
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            WAKE | libc::FUTEX_CLOCK_REALTIME,
            libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG,
        ] {
            assert!(!answers(address, operation), "{operation}");
        }
        for wrong in [1, 2, 3].map(|by| address + by) {
            assert!(!answers(wrong, WAKE), "not aligned");
        }
        for wrong in [(1 << 47) - 4096, 1 << 47, 1 << 63, usize::MAX - 3] {
            assert!(!answers(wrong, WAKE), "{wrong:#x} may be no user's");
        }

        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    let _ = futex::wait(&word, 0);
                }
            });
            while futex::kernel::is_idle(address) {
                thread::yield_now();
            }
            assert!(!answers(address, WAKE), "a thread waits in the table");
            word.store(1, SeqCst);
            futex::wake(&word, 1);
        });
        assert!(answers_soon(&word), "nobody waits any more");

        for which in [WordCall::Wait, WordCall::WaitForList] {
            outsider::begin_wait(which, address);
            assert!(
                !answers(address, WAKE),
                "one waits in the kernel: {which:?}"
            );
            outsider::end_wait(which, address);
            assert!(answers_soon(&word), "not any more: {which:?}");
        }
        outsider::set_uncounted(true);
        assert!(!answers(address, WAKE), "one may wait in the kernel");
        outsider::set_uncounted(false);
        assert!(answers_soon(&word));
    }
}
