//! What a patched site costs, in ns a call: medians and minima of 41 rounds.
//!
//!     cargo run --release -p umcg-intercept --example cost

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod cost {
    use std::hint::black_box;
    use std::time::Instant;
    use umcg_intercept::{Call, Config, Next, raw_syscall};

    const ROUNDS: usize = 41;
    const CALLS: u32 = 100_000;
    const RETURNED: i64 = libc::SYS_getuid;
    const NATIVE: i64 = libc::SYS_getgid;
    const AGAIN: i64 = libc::SYS_geteuid;
    const PASSED: i64 = libc::SYS_getppid;

    static HOOKED: [u8; 512] = {
        let mut hooked = [0; 512];
        hooked[RETURNED as usize] = 1;
        hooked[NATIVE as usize] = 1;
        hooked[AGAIN as usize] = 1;
        hooked
    };

    unsafe extern "C" fn hook(call: &mut Call) -> Next {
        match call.number as i64 {
            NATIVE => Next::Native,
            AGAIN if call.step == 0 => Next::Again,
            _ => Next::Return,
        }
    }

    fn measure(name: &str, mut call: impl FnMut()) -> f64 {
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                (0..CALLS).for_each(|_| call());
                start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!("{name:<44} {:8.2} {:8.2}", rounds[ROUNDS / 2], rounds[0]);
        rounds[0]
    }

    fn by_libc(number: i64) {
        // SAFETY: a call without arguments.
        black_box(unsafe { libc::syscall(number) });
    }

    #[repr(align(64))]
    struct Area([u8; 4096]);

    /// Saving and restoring the extended state, with more and more of it in use.
    fn extended() {
        let mut area = Area([0; 4096]);
        assert!(umcg_intercept::extended_size() <= area.0.len());
        let area = area.0.as_mut_ptr();
        let both = || {
            // SAFETY: the area is large enough, and one thread runs.
            unsafe { umcg_intercept::save_extended(area) };
            // SAFETY: saved before.
            unsafe { umcg_intercept::restore_extended(area) };
        };
        // A round begins with state that the clock and the formatting left, so each first clears.
        // SAFETY: clears registers.
        let clear = || unsafe { umcg_intercept::save_extended(area) };
        let measure = |name: &str, dirty: fn()| {
            let mut rounds: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    clear();
                    dirty();
                    let start = ticks();
                    (0..CALLS).for_each(|_| both());
                    (ticks() - start) as f64 / f64::from(CALLS)
                })
                .collect();
            rounds.sort_by(f64::total_cmp);
            println!(
                "{name:<44} {:8.2} {:8.2} ticks",
                rounds[ROUNDS / 2],
                rounds[0]
            );
        };
        // SAFETY: an instruction that reads.
        let in_use =
            || unsafe { core::arch::asm!("xgetbv", in("ecx") 1, out("eax") _, out("edx") _) };
        let start = ticks();
        (0..CALLS).for_each(|_| in_use());
        println!(
            "xgetbv: {:.2} ticks",
            (ticks() - start) as f64 / f64::from(CALLS)
        );
        let start = Instant::now();
        let first = ticks();
        while start.elapsed().as_millis() < 20 {}
        let rate = (ticks() - first) as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("ticks a ns: {rate:.3}");
        measure("save and restore, nothing in use", || {});
        if is_x86_feature_detected!("avx") {
            // SAFETY: the processor has the instruction.
            measure("  ymm in use", || unsafe {
                core::arch::asm!("vpcmpeqd ymm0, ymm0, ymm0", out("xmm0") _);
            });
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instruction.
            measure("  zmm16 to zmm31 in use", || unsafe {
                core::arch::asm!("vpternlogd zmm16, zmm16, zmm16, 255");
            });
            // SAFETY: the processor has the instruction.
            measure("  all zmm and masks in use", || unsafe {
                core::arch::asm!(
                    "vpternlogd zmm16, zmm16, zmm16, 255",
                    "vpternlogd zmm0, zmm0, zmm0, 255",
                    "kxnorw k1, k1, k1",
                    out("xmm0") _,
                );
            });
        }
        // SAFETY: leaves the stack of registers empty.
        measure("  x87 used, its registers empty", || unsafe {
            core::arch::asm!("fld1", "fstp st(0)", out("st(0)") _, out("st(1)") _, out("st(2)") _,
                out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _);
        });
        clear();
    }

    fn ticks() -> u64 {
        // SAFETY: reads the counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    pub(crate) fn main() {
        println!("{:<44} {:>8} {:>8}", "ns a call", "median", "minimum");
        extern "C" fn nothing() {}
        let function: extern "C" fn() = black_box(nothing);
        let nothing = measure("call of an empty function", || function());
        // SAFETY: a call without arguments.
        let raw = || drop(black_box(unsafe { raw_syscall(PASSED as usize, [0; 6]) }));
        measure("raw_syscall", raw);
        let unpatched = measure("syscall() of libc, unpatched", || by_libc(PASSED));
        let config = Config {
            hook,
            is_hooked: &HOOKED,
            except: |_| false,
        };
        let start = Instant::now();
        // SAFETY: the hook keeps to the rules, and there is one thread.
        let report = unsafe { umcg_intercept::install(config) }.unwrap();
        println!(
            "install: {:.1} ms\n{report}",
            start.elapsed().as_secs_f64() * 1e3
        );
        let passed = measure("syscall() of libc, passed by the table", || by_libc(PASSED));
        let returned = measure("getuid() of libc, hook returns", || {
            // SAFETY: no arguments.
            black_box(unsafe { libc::getuid() });
        });
        let native = measure("syscall() of libc, hook says Native", || by_libc(NATIVE));
        let again = measure("syscall() of libc, hook says Again", || by_libc(AGAIN));
        println!(
            "over nothing: the hook that returns {:.2}",
            returned - nothing
        );
        println!(
            "over the unpatched call: passed {:.2}, Native {:.2}, Again {:.2}",
            passed - unpatched,
            native - unpatched,
            again - unpatched
        );
        extended();
        let start = Instant::now();
        black_box(umcg_intercept::look_again());
        println!(
            "look_again, nothing new: {:.0} us",
            start.elapsed().as_secs_f64() * 1e6
        );
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    cost::main();
}
