//! Code whose calls do not lead to the hook is told of.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

mod common;

use core::ptr::null_mut;
use umcg_intercept::{Call, Config, Next, look_again};

const PAGE: usize = 4096;

static HOOKED: [u8; 512] = common::hooked(500, 500);

unsafe extern "C" fn hook(_: &mut Call) -> Next {
    Next::Return
}

/// A page of memory without a file.
fn map(protection: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    let page = unsafe { libc::mmap(null_mut(), PAGE, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

#[test]
fn code_that_is_written_and_gone_again() {
    common::take_traps();
    let config = Config::new(hook, &HOOKED);
    // SAFETY: the hook keeps to the rules.
    let report = unsafe { umcg_intercept::install(config) }.unwrap();
    assert!(!report.misses, "trampolines are the engine's own: {report}");
    assert!(!look_again().misses);

    let data = map(libc::PROT_READ | libc::PROT_WRITE);
    assert!(!look_again().misses, "no code");
    // SAFETY: the page of this test, which nothing uses.
    let protect = |protection| unsafe { libc::mprotect(data, PAGE, protection) };
    assert_eq!(protect(libc::PROT_READ | libc::PROT_EXEC), 0);
    assert!(look_again().misses);
    assert!(umcg_intercept::report().misses);
    assert_eq!(protect(libc::PROT_READ), 0);
    assert!(!look_again().misses, "no code any more");

    let code = map(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    assert!(look_again().misses);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::munmap(code, PAGE) }, 0);
    assert!(!look_again().misses);
}
