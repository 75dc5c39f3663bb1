//! The peers that are no crates. Looks for Boost.Context: if it is missing, or does not fit the
//! target, there is no such side in `umcg bench uth`. Compiles the C server of `umcg bench rt`, if
//! there is a C compiler. The build never fails for either.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const EPOLL: &str = "src/rt/peers/epoll.c";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(boost_context)");
    println!("cargo::rustc-check-cfg=cfg(epoll_c)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={EPOLL}");
    let server = cc::Build::new()
        .file(EPOLL)
        .opt_level(2)
        .std("gnu11")
        .cargo_warnings(false)
        .try_compile("umcg_bench_epoll");
    if server.is_ok() {
        println!("cargo::rustc-cfg=epoll_c");
    }
    if let Some(library) = boost() {
        println!("cargo::rerun-if-changed={}", library.display());
        if let Some(folder) = library.parent() {
            println!("cargo::rustc-link-search=native={}", folder.display());
        }
        println!("cargo::rustc-link-lib=static=boost_context");
        println!("cargo::rustc-cfg=boost_context");
    } else if Path::new("/var/lib/dpkg/status").exists() {
        // Changes when a package is installed.
        println!("cargo::rerun-if-changed=/var/lib/dpkg/status");
    }
}

/// The static library, if it is there, fits the target, and has a header that agrees with our
/// assumptions.
fn boost() -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    let probe = folder.join("probe.cc");
    let source = "#include <boost/context/detail/fcontext.hpp>\n\
                  using namespace boost::context::detail;\n\
                  static_assert(sizeof(transfer_t) == 2 * sizeof(void *), \"two pointers\");\n\
                  int main() { return jump_fcontext(make_fcontext(0, 0, 0), 0).data != 0; }\n";
    fs::write(&probe, source).ok()?;
    let compiler = cc::Build::new()
        .cpp(true)
        .cargo_metadata(false)
        .cargo_warnings(false)
        .try_get_compiler()
        .ok()?;
    let output = compiler
        .to_command()
        .arg("-print-file-name=libboost_context.a")
        .output()
        .ok()?;
    let library = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    if !library.is_absolute() {
        return None;
    }
    let mut link: Command = compiler.to_command();
    link.arg("-std=c++11")
        .arg(&probe)
        .arg(&library)
        .arg("-o")
        .arg(folder.join("probe"));
    link.output().ok()?.status.success().then_some(library)
}
