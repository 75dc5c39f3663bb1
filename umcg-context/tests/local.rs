//! The words of thread-local storage, as code.

use umcg_context::local;

#[inline(never)]
fn writes() {
    local::set_vp(std::hint::black_box(std::ptr::null_mut()));
}

#[inline(never)]
fn reads() -> *mut () {
    local::vp()
}

/// If an access takes several instructions, the places between them are recognized.
#[test]
fn accesses_are_recognised() {
    let load = |at: usize| {
        // SAFETY: code of functions, or of the code around them.
        Some(unsafe { std::ptr::with_exposed_provenance::<u32>(at).read_unaligned() })
    };
    for function in [writes as fn() as usize, reads as fn() -> *mut () as usize] {
        // The function ends with the first return, and has only one access.
        let places = (function..function + 96)
            .step_by(2)
            .filter(|pc| local::is_access(*pc, load))
            .count();
        let least = if cfg!(target_arch = "aarch64") {
            2
        } else {
            usize::from(cfg!(target_arch = "riscv64"))
        };
        assert!(places >= least, "{places}");
        assert!(least > 0 || places == 0);
    }
    writes();
    assert!(reads().is_null());
}
