//! Decoding finds the sites that a disassembler finds, and nearly all are patched.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use std::ffi::CString;
use std::process::Command;
use umcg_intercept::{Call, Config, Next};

static ALL: [u8; 512] = [1; 512];

unsafe extern "C" fn hook(call: &mut Call) -> Next {
    match call.number as i64 {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork | libc::SYS_munmap => Next::Tail,
        _ => Next::Native,
    }
}

/// The addresses of `syscall` by objdump, relative to the file.
fn disassembled(path: &str) -> Option<usize> {
    let output = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", path])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_site = |line: &&str| {
        line.split('\t')
            .nth(1)
            .is_some_and(|code| code.trim() == "syscall")
    };
    output
        .status
        .success()
        .then(|| text.lines().filter(is_site).count())
}

#[test]
fn as_many_as_a_disassembler() {
    let libraries = [
        "libgomp.so.1",
        "libstdc++.so.6",
        "libm.so.6",
        "libcrypto.so.3",
    ];
    for name in libraries {
        let name = CString::new(name).unwrap();
        // SAFETY: libraries of the system.
        if unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null() {
            eprintln!("skipped: {name:?}");
        }
    }
    common::take_traps();
    let config = Config::new(hook, &ALL);
    // SAFETY: the hook keeps to the rules; the harness's other thread waits outside of windows.
    let report = unsafe { umcg_intercept::install(config) }.unwrap();
    println!("{report}");
    for (object, counts) in &report.objects {
        let path = String::from_utf8(object.path.clone()).unwrap();
        let Some(expected) = disassembled(&path) else {
            eprintln!("skipped: no objdump");
            return;
        };
        // A disassembler takes constants in code for instructions.
        let constants = path.contains("libcrypto");
        assert!(
            counts.sites == expected || constants,
            "{path}: {counts:?}, objdump {expected}"
        );
        let left = counts.no_window + counts.no_memory + counts.not_writable;
        assert!(left * 100 <= counts.sites, "{path}: {counts:?}");
        assert!(
            counts.undecoded + counts.outside == 0 || constants,
            "{path}: {counts:?}"
        );
    }
    let has = |name: &str| {
        let objects = &report.objects;
        objects
            .iter()
            .any(|(object, _)| String::from_utf8_lossy(&object.path).contains(name))
    };
    assert!(has("libc.so") && has("ld-linux"), "{report}");
    println!("still alive: {}", std::process::id());
}
