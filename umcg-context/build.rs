//! Compiles the portable switch methods when the feature is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/portable.c");
    #[cfg(feature = "portable")]
    portable();
}

#[cfg(feature = "portable")]
fn portable() {
    // A ucontext_t and two words: the larger of the two methods' contexts. C asserts that it
    // suffices.
    let size = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "992",
        Ok("aarch64") => "4576",
        Ok("riscv64") => "976",
        arch => panic!("no portable methods on {arch:?}"),
    };
    println!("cargo::rustc-env=UMCG_PORTABLE_SIZE={size}");
    cc::Build::new()
        .file("src/portable.c")
        .define("UMCG_PORTABLE_SIZE", size)
        // A fortified longjmp takes a jump to another stack for an attack and aborts.
        .flag("-U_FORTIFY_SOURCE")
        // Backtraces go through the frame that calls the entry function.
        .flag("-fasynchronous-unwind-tables")
        // The C code is measured and shipped optimized, also in a debug build of the crate that
        // uses it.
        .opt_level(2)
        .warnings_into_errors(true)
        .extra_warnings(true)
        .compile("umcg_portable");
}
