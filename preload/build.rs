//! Link options of the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Its constructor comes before all others: those may make threads and install handlers.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
    // The program's code jumps into it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
