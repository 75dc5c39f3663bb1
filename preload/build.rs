//! Link options of the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The program's code jumps into it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
