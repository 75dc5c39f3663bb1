//! The hook is installed while threads make calls all the time.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::io::{Read, Write};
use umcg_intercept::{Call, Config, Next};

static ALL: [u8; 512] = [1; 512];
static CALLS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn hook(call: &mut Call) -> Next {
    CALLS.fetch_add(1, Relaxed);
    match call.number as i64 {
        libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_vfork
        | libc::SYS_munmap
        | libc::SYS_exit => Next::Tail,
        _ => Next::Native,
    }
}

#[test]
fn install_under_load() {
    common::take_traps();
    static DONE: AtomicBool = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for at in 0..6 {
            let rounds = &rounds;
            scope.spawn(move || {
                let (mut from, mut to) = std::io::pipe().unwrap();
                let mut byte = [0];
                while !DONE.load(Relaxed) {
                    to.write_all(&[at]).unwrap();
                    from.read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [at]);
                    // SAFETY: a call without arguments.
                    let group = unsafe { libc::syscall(libc::SYS_getpgrp) };
                    // SAFETY: likewise.
                    assert_eq!(group, i64::from(unsafe { libc::getpgrp() }));
                    std::thread::yield_now();
                    rounds.fetch_add(1, Relaxed);
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        let config = Config::new(hook, &ALL);
        // SAFETY: the hook keeps to the rules, and the handler is there.
        let report = unsafe { umcg_intercept::install(config) }.unwrap();
        assert!(report.total().patched > 100, "{report}");
        let before = rounds.load(Relaxed);
        while rounds.load(Relaxed) < before + 1000 {
            std::thread::yield_now();
        }
        DONE.store(true, Relaxed);
    });
    assert!(CALLS.load(Relaxed) > 1000);
}
