//! What a patched site costs, in ns a call: medians and minima of 41 rounds.
//!
//!     cargo run --release -p umcg-intercept --example cost

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod cost {
    use core::arch::asm;
    use std::hint::black_box;
    use std::time::Instant;
    use umcg_intercept::{Call, Config, Next};

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
        print(name, &mut rounds)
    }

    /// Prints the median and the minimum, and returns the latter.
    fn print(name: &str, rounds: &mut [f64]) -> f64 {
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

    /// Puts registers into use.
    type Dirty = fn();

    fn nothing() {}

    fn ymm() {
        // SAFETY: the processor has the instruction.
        unsafe { asm!("vpcmpeqd ymm0, ymm0, ymm0", out("xmm0") _) };
    }

    fn upper_zmm() {
        // SAFETY: the processor has the instruction.
        unsafe { asm!("vpternlogd zmm16, zmm16, zmm16, 255") };
    }

    fn all() {
        upper_zmm();
        // SAFETY: the processor has the instructions.
        unsafe {
            asm!("vpternlogd zmm0, zmm0, zmm0, 255", "kxnorw k1, k1, k1", out("xmm0") _);
        };
    }

    fn x87() {
        // SAFETY: leaves the stack of registers empty.
        unsafe { asm!("fldz", "fstp st(0)", out("st(0)") _) };
    }

    fn inexact() {
        // SAFETY: leaves the stack of registers empty.
        unsafe { asm!("fldpi", "fldpi", "fmulp", "fstp st(0)", out("st(0)") _, out("st(1)") _) };
    }

    fn save(area: &mut Area, with_vectors: bool) {
        // SAFETY: the area is large enough, and one thread runs.
        unsafe { umcg_intercept::save_extended(area.0.as_mut_ptr(), with_vectors) };
    }

    fn restore(area: &Area) {
        // SAFETY: saved before.
        unsafe { umcg_intercept::restore_extended(area.0.as_ptr()) };
    }

    /// Saving and restoring the extended state, with more and more of it in use.
    fn extended() {
        assert!(umcg_intercept::extended_size() <= size_of::<Area>());
        let mut area = Area([0; 4096]);
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed().as_millis() < 20 {}
        let rate = (ticks() - first) as f64 / (start.elapsed().as_secs_f64() * 1e9);
        let mut measure = |name: &str, with_vectors, dirty: Dirty| {
            let mut rounds: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    // Clears the traces of the round before.
                    save(&mut area, true);
                    // SAFETY: no registers are relied on.
                    unsafe { umcg_intercept::clear_extended() };
                    dirty();
                    let start = ticks();
                    for _ in 0..CALLS {
                        save(&mut area, with_vectors);
                        restore(&area);
                    }
                    (ticks() - start) as f64 / f64::from(CALLS) / rate
                })
                .collect();
            print(name, &mut rounds);
        };
        measure("save and restore, no vectors", false, nothing);
        measure("  an exception of the x87", false, inexact);
        measure("save and restore, nothing in use", true, nothing);
        if is_x86_feature_detected!("avx") {
            measure("  ymm in use", true, ymm);
        }
        if is_x86_feature_detected!("avx512f") {
            measure("  zmm16 to zmm31 in use", true, upper_zmm);
            measure("  all zmm and masks in use", true, all);
        }
        measure("  x87 used, its registers empty", true, x87);
        let start = ticks();
        for _ in 0..CALLS {
            // SAFETY: reads a register of the processor, which has it if it has AVX-512.
            unsafe { asm!("xgetbv", in("ecx") 1, out("eax") _, out("edx") _) };
        }
        let each = (ticks() - start) as f64 / f64::from(CALLS) / rate;
        println!("{:<44} {each:8.2}", "xgetbv");
    }

    fn ticks() -> u64 {
        // SAFETY: reads the counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    pub(crate) fn main() {
        println!("{:<44} {:>8} {:>8}", "ns", "median", "minimum");
        let function = black_box(nothing as Dirty);
        let empty = measure("call of an empty function", function);
        let cases = [
            ("passed by the table", PASSED),
            ("hook says Native", NATIVE),
            ("hook says Again", AGAIN),
        ];
        let before = cases.map(|(name, number)| {
            measure(&format!("unpatched, later: {name}"), || by_libc(number))
        });
        let config = Config::new(hook, &HOOKED);
        let start = Instant::now();
        // SAFETY: the hook keeps to the rules, and there is one thread.
        let report = unsafe { umcg_intercept::install(config) }.unwrap();
        println!(
            "install: {:.1} ms\n{report}",
            start.elapsed().as_secs_f64() * 1e3
        );
        let returned = measure("hook returns", || {
            // SAFETY: no arguments.
            black_box(unsafe { libc::getuid() });
        });
        println!(
            "{:<44} {:>8} {:8.2}",
            "  over an empty function",
            "",
            returned - empty
        );
        for ((name, number), before) in cases.into_iter().zip(before) {
            let after = measure(name, || by_libc(number));
            println!(
                "{:<44} {:>8} {:8.2}",
                "  over unpatched",
                "",
                after - before
            );
        }
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
