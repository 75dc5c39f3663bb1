//! Programs that know nothing of the engine run with `examples/pass.rs` preloaded, which hooks
//! every system call and changes none.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const WAYS: [&str; 4] = ["none", "native", "again", "return"];

/// The folder of this test's programs, and of cargo's for the profile.
fn folders() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap().to_path_buf();
    let own = profile.join("intercept-programs");
    std::fs::create_dir_all(&own).unwrap();
    (own, profile)
}

/// The library to preload. Cargo has built it, except if one test alone was asked for.
fn preload() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let (_, profile) = folders();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--offline", "--example", "pass"]);
        build
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success());
        profile.join("examples/libpass.so")
    })
}

/// Compiles a program or a library of tests/c, and returns its path.
fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let (own, _) = folders();
    let path = own.join(name);
    let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-g", "-Wall", "-Wextra", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&path);
    command.arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/c")
            .join(source),
    );
    assert!(command.arg("-ldl").status().unwrap().success());
    path
}

fn run(way: &str, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("100").arg(program).args(arguments);
    command.env("LD_PRELOAD", preload()).env("PASS_WAY", way);
    command.output().unwrap()
}

fn succeeds(way: &str, program: &Path, arguments: &[&str]) -> String {
    let output = run(way, program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{way}: {program:?}: {:?}\n{text}{errors}",
        output.status
    );
    text
}

#[test]
fn a_c_program() {
    let late = compile("late.c", "liblate.so", &["-shared", "-fPIC"]);
    let late = late.to_str().unwrap();
    for (name, flags) in [
        ("work", &["-rdynamic"][..]),
        ("work-fixed", &["-no-pie", "-fno-pie"]),
    ] {
        let work = compile("work.c", name, flags);
        for way in WAYS {
            let hooked = if way == "none" {
                &[late][..]
            } else {
                &[late, "hooked"]
            };
            assert!(succeeds(way, &work, hooked).ends_with("ok\n"));
        }
    }
}

#[test]
fn a_c_plus_plus_program() {
    let program = compile("unwind.cc", "unwind", &[]);
    for way in WAYS {
        assert!(succeeds(way, &program, &[]).ends_with("ok\n"));
    }
}

#[test]
fn programs_of_the_system() {
    let script = "set -e; echo a b c | tr a-z A-Z | grep -q 'A B C'; \
        for i in 1 2 3; do (exit $i) || test $? = $i; done; \
        ls -l /proc/self/fd >/dev/null; find /usr/lib -maxdepth 1 | sort | wc -l >/dev/null; \
        sleep 0.01; date >/dev/null; echo ok";
    for way in WAYS {
        assert_eq!(succeeds(way, Path::new("/bin/sh"), &["-c", script]), "ok\n");
    }
}

#[test]
fn a_debugger_sees_the_caller() {
    if Command::new("gdb").arg("--version").output().is_err() {
        eprintln!("skipped: no gdb");
        return;
    }
    let program = compile("stack.c", "stack", &[]);
    for way in ["native", "again", "none"] {
        let mut gdb = Command::new("timeout");
        gdb.args(["100", "gdb", "-q", "-batch", "-nx", "-ex"]);
        gdb.arg(format!(
            "set environment LD_PRELOAD {}",
            preload().display()
        ));
        gdb.args(["-ex", &format!("set environment PASS_WAY {way}")]);
        gdb.args([
            "-ex",
            "handle SIGALRM stop",
            "-ex",
            "run",
            "-ex",
            "backtrace",
        ]);
        let output = gdb.arg(&program).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let names = ["umcg_intercept_entry", "read", "inner", "outer", "main"];
        assert!(frames.len() >= names.len(), "{way}: {text}");
        for (frame, name) in frames.iter().zip(names) {
            assert!(frame.contains(name), "{way}: {name}: {text}");
        }
    }
}
