//! Workers that the kernel keeps where no call announces it.

use super::runtime;
use std::io::{Read, Write};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// A page whose first access waits until it is [`fill`](SlowPage::fill)ed.
struct SlowPage {
    fault: i32,
    at: usize,
}

const PAGE: usize = 4096;

impl SlowPage {
    /// None where the kernel forbids it.
    fn new() -> Option<SlowPage> {
        const USER_MODE_ONLY: i32 = 1;
        const API: u64 = 0xaa;
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        const MISSING: u64 = 1;
        // SAFETY: makes a descriptor.
        let fault = unsafe {
            libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) as i32
        };
        if fault < 0 {
            return None;
        }
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(
                null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let mut api = [API, 0, 0];
        let mut range = [at.expose_provenance() as u64, PAGE as u64, MISSING, 0];
        // SAFETY: the structure of the call.
        let known = unsafe { libc::ioctl(fault, UFFDIO_API, api.as_mut_ptr()) };
        // SAFETY: likewise.
        let registered = unsafe { libc::ioctl(fault, UFFDIO_REGISTER, range.as_mut_ptr()) };
        (known == 0 && registered == 0).then_some(SlowPage {
            fault,
            at: at.expose_provenance(),
        })
    }

    fn fill(&self, byte: u8) {
        const UFFDIO_COPY: libc::c_ulong = 0xc028_aa03;
        let from = [byte; PAGE];
        let from = from.as_ptr().expose_provenance() as u64;
        let mut copy = [self.at as u64, from, PAGE as u64, 0, 0];
        // SAFETY: the structure of the call.
        let filled = unsafe { libc::ioctl(self.fault, UFFDIO_COPY, copy.as_mut_ptr()) };
        assert_eq!(filled, 0);
    }

    /// Reads it by a function of the C library's, which has no frame.
    fn copy(&self) -> u8 {
        let mut bytes = [0u8; PAGE];
        let from = with_exposed_provenance_mut::<libc::c_void>(self.at);
        // SAFETY: mapped, and filled by then.
        unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), from, std::hint::black_box(PAGE)) };
        bytes[PAGE - 1]
    }

    fn read(&self) -> u8 {
        // SAFETY: mapped, and filled by then.
        unsafe { with_exposed_provenance_mut::<u8>(self.at).read_volatile() }
    }
}

#[test]
fn a_page_fault_keeps_the_worker_and_not_its_server() {
    if SlowPage::new().is_none() {
        eprintln!("userfaultfd is not allowed here: not tested");
        return;
    }
    let runtime = runtime();
    for turn in 0..20 {
        let page = SlowPage::new().unwrap();
        let is_read = AtomicBool::new(false);
        runtime.run(|| {
            umcg::scope(|scope| {
                scope.spawn(|| {
                    let sum = 2.5f64;
                    let read = if turn % 2 == 0 {
                        page.read()
                    } else {
                        page.copy()
                    };
                    assert_eq!(read, turn);
                    assert_eq!(std::hint::black_box(sum), 2.5);
                    is_read.store(true, Release);
                });
                // Runs although the only server's thread has slept in the fault.
                umcg::yield_now();
                assert!(!is_read.load(Acquire));
                page.fill(turn);
            });
        });
        assert!(is_read.into_inner());
    }
}

/// The C library may keep a lock while it calls the program.
#[test]
fn a_page_fault_beneath_the_c_library_keeps_the_server() {
    static PAGE_AT: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn compare(_: *const libc::c_void, _: *const libc::c_void) -> i32 {
        let (at, fault) = (PAGE_AT.load(Relaxed), -1);
        i32::from(SlowPage { fault, at }.copy())
    }
    let Some(page) = SlowPage::new() else {
        eprintln!("userfaultfd is not allowed here: not tested");
        return;
    };
    PAGE_AT.store(page.at, Relaxed);
    let is_read = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            page.fill(1);
        });
        runtime().run(|| {
            umcg::scope(|scope| {
                scope.spawn(|| {
                    let mut words = [1u64, 2];
                    let at = words.as_mut_ptr().cast();
                    // SAFETY: two words, and a function that compares any.
                    unsafe { libc::qsort(at, 2, size_of::<u64>(), Some(compare)) };
                    is_read.store(true, Release);
                });
                umcg::yield_now();
                assert!(is_read.load(Acquire), "taken off beneath qsort");
            });
        });
    });
}

#[test]
fn both_ends_of_a_fifo_are_opened_on_one_server() {
    let runtime = runtime();
    let path = std::env::temp_dir().join(format!("umcg-fifo-{}", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a name.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for turn in 0..20u8 {
        let text = runtime.run(|| {
            let from = path.clone();
            let reader = umcg::spawn(move || {
                let mut text = Vec::new();
                std::fs::File::open(from)
                    .unwrap()
                    .read_to_end(&mut text)
                    .unwrap();
                text
            });
            umcg::yield_now();
            let mut to = std::fs::File::create(&path).unwrap();
            to.write_all(&[turn]).unwrap();
            drop(to);
            reader.join().unwrap()
        });
        assert_eq!(text, [turn]);
    }
    std::fs::remove_file(&path).unwrap();
}
