//! The state that a switch does not save: a test for every row of the table in docs/switch.md that
//! a test can show.

mod common;

use common::{
    Coroutine, Mapped, Sendable, affinity, block_signal, cpus, only, set_affinity, signal_blocked,
};
use std::cell::Cell;
use std::mem::zeroed;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::rc::Rc;
use std::thread;
use umcg_context::thread_pointer;

/// Runs `body` in a flow of its own.
fn in_a_flow(body: impl FnOnce() + 'static) {
    let coroutine = Coroutine::new(move |_| body());
    coroutine.resume();
    assert!(coroutine.finished());
}

/// The floating-point control words, and the same with rounding toward zero.
#[cfg(target_arch = "x86_64")]
mod modes {
    use std::arch::asm;

    pub(super) type Modes = (u32, u16);
    const MXCSR_CONTROL: u32 = !0x3f;

    pub(super) fn get() -> Modes {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: store the two control words.
        unsafe {
            asm!(
                "stmxcsr [{}]",
                "fnstcw [{}]",
                in(reg) &raw mut mxcsr,
                in(reg) &raw mut x87,
                options(nostack),
            )
        };
        (mxcsr & MXCSR_CONTROL, x87)
    }

    pub(super) fn set((mxcsr, x87): Modes) {
        // SAFETY: only the rounding differs from what the compiler expects, and the tests compute
        // nothing meanwhile.
        unsafe {
            asm!(
                "ldmxcsr [{}]",
                "fldcw [{}]",
                in(reg) &raw const mxcsr,
                in(reg) &raw const x87,
                options(nostack),
            )
        };
    }

    pub(super) fn toward_zero((mxcsr, x87): Modes) -> Modes {
        (mxcsr | 0x6000, x87 | 0x0c00)
    }
}

/// The floating-point control register, and the same with rounding toward zero.
#[cfg(target_arch = "aarch64")]
mod modes {
    use std::arch::asm;

    pub(super) type Modes = u64;

    pub(super) fn get() -> Modes {
        let fpcr;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack)) };
        fpcr
    }

    pub(super) fn set(fpcr: Modes) {
        // SAFETY: only the rounding differs from what the compiler expects, and the tests compute
        // nothing meanwhile.
        unsafe { asm!("msr fpcr, {}", in(reg) fpcr, options(nostack)) };
    }

    pub(super) fn toward_zero(fpcr: Modes) -> Modes {
        fpcr | 3 << 22
    }
}

/// The rounding mode, and the one toward zero.
#[cfg(target_arch = "riscv64")]
mod modes {
    use std::arch::asm;

    pub(super) type Modes = u64;

    pub(super) fn get() -> Modes {
        let rounding;
        // SAFETY: reads a register.
        unsafe { asm!("frrm {}", out(reg) rounding, options(nostack)) };
        rounding
    }

    pub(super) fn set(rounding: Modes) {
        // SAFETY: the tests compute nothing meanwhile.
        unsafe { asm!("fsrm {}", in(reg) rounding, options(nostack)) };
    }

    pub(super) fn toward_zero(_: Modes) -> Modes {
        1
    }
}

#[test]
fn floating_point_modes_are_shared() {
    let before = modes::get();
    assert_ne!(modes::toward_zero(before), before);
    in_a_flow(move || modes::set(modes::toward_zero(before)));
    let after = modes::get();
    modes::set(before);
    assert_eq!(after, modes::toward_zero(before));
}

#[test]
fn the_signal_mask_is_shared() {
    in_a_flow(|| block_signal(libc::SIGUSR1, true));
    assert!(signal_blocked(libc::SIGUSR1));
    block_signal(libc::SIGUSR1, false);
}

fn alternate_stack(new: Option<libc::stack_t>) -> libc::stack_t {
    // SAFETY: filled below.
    let mut old: libc::stack_t = unsafe { zeroed() };
    let new = new
        .as_ref()
        .map_or(null_mut(), |new| (&raw const *new).cast_mut());
    // SAFETY: a null or valid new stack, and room for the old one.
    assert_eq!(unsafe { libc::sigaltstack(new, &mut old) }, 0);
    old
}

#[test]
fn the_alternate_signal_stack_is_shared() {
    let before = alternate_stack(None);
    let memory = Mapped::new(64 << 10);
    let ours = libc::stack_t {
        ss_sp: memory.base().cast(),
        ss_flags: 0,
        ss_size: memory.size(),
    };
    in_a_flow(move || {
        alternate_stack(Some(ours));
    });
    let after = alternate_stack(Some(before));
    assert_eq!((after.ss_sp, after.ss_size), (ours.ss_sp, ours.ss_size));
}

#[test]
fn a_flow_has_the_thread_pointer_of_who_runs_it() {
    let seen = Rc::new(Cell::new(0));
    let inner = Rc::clone(&seen);
    let coroutine = Coroutine::new(move |me| {
        inner.set(thread_pointer());
        me.suspend();
        inner.set(thread_pointer());
    });
    coroutine.resume();
    assert_eq!(seen.get(), thread_pointer());
    let moved = Sendable((coroutine, seen));
    thread::spawn(move || {
        let (coroutine, seen) = moved.into_inner();
        coroutine.resume_to_the_end();
        assert_eq!(seen.get(), thread_pointer());
    })
    .join()
    .expect("the thread");
}

#[test]
fn errno_is_shared() {
    fn errno() -> *mut i32 {
        // SAFETY: no preconditions.
        unsafe { libc::__errno_location() }
    }
    // SAFETY: this thread's errno.
    unsafe { errno().write(0) };
    in_a_flow(|| {
        // SAFETY: a file descriptor that cannot be.
        assert_eq!(unsafe { libc::close(-1) }, -1);
    });
    // SAFETY: this thread's errno.
    assert_eq!(unsafe { errno().read() }, libc::EBADF);
}

#[test]
fn the_panic_count_is_shared() {
    struct SuspendsInDrop<'a>(&'a Coroutine);
    impl Drop for SuspendsInDrop<'_> {
        fn drop(&mut self) {
            self.0.suspend();
        }
    }
    let coroutine = Coroutine::new(|me| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _guard = SuspendsInDrop(me);
            resume_unwind(Box::new(()));
        }));
        assert!(caught.is_err());
    });
    coroutine.resume();
    assert!(
        thread::panicking(),
        "the flow is suspended in the middle of unwinding"
    );
    coroutine.resume();
    assert!(coroutine.finished() && !thread::panicking());
}

fn robust_list() -> Option<usize> {
    let (mut head, mut size) = (0usize, 0usize);
    // SAFETY: room for both answers.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size) } != 0;
    (!failed).then_some(head)
}

#[test]
fn the_robust_list_is_the_kernel_threads() {
    let Some(head) = robust_list() else {
        eprintln!("skipped: no get_robust_list here");
        return;
    };
    in_a_flow(move || assert_eq!(robust_list(), Some(head)));
}

#[test]
fn cpu_affinity_is_the_kernel_threads() {
    let before = affinity();
    let first = cpus(&before)[0];
    in_a_flow(move || set_affinity(&only(first)));
    assert_eq!(cpus(&affinity()), [first]);
    set_affinity(&before);
}

#[test]
fn a_flow_reads_the_cpu_of_who_runs_it() {
    // glibc answers from the rseq area of the calling kernel thread.
    let seen = Rc::new(Cell::new(-1));
    let inner = Rc::clone(&seen);
    let coroutine = Coroutine::new(move |me| {
        for _ in 0..8 {
            // SAFETY: no arguments.
            inner.set(unsafe { libc::sched_getcpu() });
            me.suspend();
        }
    });
    let before = affinity();
    let mut moved = Sendable((coroutine, seen));
    for &cpu in cpus(&before).iter().cycle().take(8) {
        moved = thread::spawn(move || {
            let (coroutine, seen) = moved.into_inner();
            set_affinity(&only(cpu));
            coroutine.resume();
            assert!(
                seen.get() == cpu as i32 || seen.get() == -1,
                "{} on {cpu}",
                seen.get()
            );
            Sendable((coroutine, seen))
        })
        .join()
        .expect("a thread");
    }
    moved.into_inner().0.resume_to_the_end();
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;
    use umcg_context::switch;

    #[test]
    fn gs_base_is_shared() {
        const GET: i64 = 0x1004;
        const SET: i64 = 0x1001;
        fn gs_base() -> usize {
            let mut base = 0usize;
            assert_eq!(
                // SAFETY: room for the answer.
                unsafe { libc::syscall(libc::SYS_arch_prctl, GET, &raw mut base) },
                0
            );
            base
        }
        let before = gs_base();
        in_a_flow(|| {
            assert_eq!(
                // SAFETY: nothing in this program uses gs.
                unsafe { libc::syscall(libc::SYS_arch_prctl, SET, 0x1234_5000usize) },
                0
            );
        });
        assert_eq!(gs_base(), 0x1234_5000);
        assert_eq!(
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_arch_prctl, SET, before) },
            0
        );
    }

    #[test]
    fn there_is_no_shadow_stack() {
        const SHADOW_STACK_STATUS: i64 = 0x5005;
        let mut features = 0u64;
        // SAFETY: room for the answer; older kernels know no such request.
        let known =
            unsafe { libc::syscall(libc::SYS_arch_prctl, SHADOW_STACK_STATUS, &raw mut features) }
                == 0;
        assert!(
            !known || features & 1 == 0,
            "the kernel gave this program a shadow stack, which a switch would break"
        );
    }

    #[test]
    fn protection_keys_are_shared() {
        fn rights() -> u32 {
            let rights;
            // SAFETY: the test found that the kernel has enabled the instruction.
            unsafe {
                asm!(
                    "rdpkru",
                    in("ecx") 0,
                    out("eax") rights,
                    out("edx") _,
                    options(nomem, nostack),
                )
            };
            rights
        }
        fn set_rights(rights: u32) {
            // SAFETY: no memory has the key that changes.
            unsafe { asm!("wrpkru", in("ecx") 0, in("eax") rights, in("edx") 0, options(nostack)) };
        }
        // SAFETY: no arguments but flags.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
        if key < 0 {
            eprintln!("skipped: no protection keys here");
            return;
        }
        let before = rights();
        let denied = before | 3 << (2 * key);
        assert_ne!(before, denied);
        in_a_flow(move || set_rights(denied));
        let after = rights();
        set_rights(before);
        // SAFETY: our key.
        unsafe { libc::syscall(libc::SYS_pkey_free, key) };
        assert_eq!(after, denied);
    }

    /// # Safety
    /// The CPU has AVX; `me` runs.
    #[target_feature(enable = "avx")]
    unsafe fn across_switches(me: &Coroutine, start: f64) -> f64 {
        let (mut a, mut b) = (_mm256_set1_pd(start), _mm256_set1_pd(start * 2.0));
        let (mut c, mut d) = (_mm256_set1_pd(start * 3.0), _mm256_set1_pd(start * 4.0));
        for _ in 0..10 {
            a = _mm256_add_pd(a, b);
            // SAFETY: the resumer is suspended.
            unsafe { switch(me.context.get(), me.resumer.get()) };
            b = _mm256_add_pd(b, c);
            c = _mm256_sub_pd(c, d);
            d = _mm256_add_pd(d, a);
        }
        let sum = _mm256_add_pd(_mm256_add_pd(a, b), _mm256_add_pd(c, d));
        let mut parts = [0.0; 4];
        // SAFETY: room for four.
        unsafe { _mm256_storeu_pd(parts.as_mut_ptr(), sum) };
        parts.iter().sum()
    }

    /// # Safety
    /// The CPU has AVX.
    #[target_feature(enable = "avx")]
    unsafe fn spoil_vectors() {
        _mm256_zeroall();
    }

    #[test]
    #[cfg_attr(any(umcg_asan, umcg_tsan), ignore = "switches that are not annotated")]
    fn vector_registers_are_saved_by_the_compiler() {
        if !std::arch::is_x86_feature_detected!("avx") {
            eprintln!("skipped: no AVX here");
            return;
        }
        let run = |start: f64| {
            let sum = Rc::new(Cell::new(0.0));
            let inner = Rc::clone(&sum);
            // SAFETY: the CPU has AVX.
            (
                Coroutine::new(move |me| inner.set(unsafe { across_switches(me, start) })),
                sum,
            )
        };
        let ((alone, expected), (first, sum), (second, _)) = (run(1.5), run(1.5), run(-8.25));
        alone.resume_to_the_end();
        while !first.finished() {
            first.resume();
            second.resume();
            // SAFETY: the CPU has AVX.
            unsafe { spoil_vectors() };
        }
        assert_eq!(black_box(sum.get()), expected.get());
    }
}
