//! Restartable sequences: the kernel writes the area of the storage that runs; otherwise that area
//! says that there is none.

use crate::crowd::{on_server, with_server};
use crate::support::forks::fork;
use crate::support::{child_succeeds, is_child, say};
use std::ffi::CStr;
use umcg::Runtime;

#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;
#[cfg(target_arch = "riscv64")]
const SIGNATURE: u32 = 0xf140_1073;

fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: a C string; any handle.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the callers name the type that glibc says.
    (!address.is_null()).then(|| unsafe { address.cast::<T>().read() })
}

/// The area in the storage that the caller runs with, if glibc registers any.
fn area() -> Option<usize> {
    symbol::<u32>(c"__rseq_size").filter(|size| *size != 0)?;
    let offset = symbol::<isize>(c"__rseq_offset")?;
    Some(umcg_core::context::thread_pointer().wrapping_add_signed(offset))
}

/// The value in the area: a processor, or a negative number.
fn cpu_of(area: usize) -> i32 {
    // SAFETY: the second half-word of an area of the caller's.
    unsafe { std::ptr::with_exposed_provenance::<i32>(area + 4).read_volatile() }
}

/// Registers this area with the kernel, or unregisters it. Returns its error.
fn rseq(area: usize, flags: i32) -> Result<(), i32> {
    // SAFETY: an area of glibc's, of 32 bytes at least, in no critical section.
    let result = unsafe { libc::syscall(libc::SYS_rseq, area, 32, flags, SIGNATURE) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap())
    }
}

fn here() -> u32 {
    let mut cpu = 0u32;
    assert_eq!(
        // SAFETY: writes the number.
        unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, 0, 0) },
        0
    );
    cpu
}

/// The processors that the caller may use.
fn processors() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

#[test]
fn a_thread_worker_knows_the_processor_it_runs_on() {
    if !umcg_core::raw::threads_move() {
        return; // it is at home all the time
    }
    let processors = processors();
    let [first, .., last] = processors[..] else {
        return say("SKIPPED: one processor");
    };
    let had_area = area().map(cpu_of).is_some_and(|cpu| cpu >= 0);
    with_server(
        move || pin(first),
        move || {
            pin(last);
            let own = area();
            let before = own.map(cpu_of);
            on_server(move || {
                assert_eq!(here(), first as u32);
                // SAFETY: no precondition.
                assert_eq!(unsafe { libc::sched_getcpu() }, first as i32);
                assert!(area().map(cpu_of).is_none_or(|cpu| cpu < 0));
                umcg::blocking(|| {
                    assert_eq!(here(), last as u32);
                    // SAFETY: no precondition.
                    assert_eq!(unsafe { libc::sched_getcpu() }, last as i32);
                });
            });
            // A plain thread again.
            assert_eq!(own.map(cpu_of), before);
            assert!(!had_area || before == Some(last as i32), "{before:?}");
        },
    );
}

/// In a process of its own, and if glibc registers areas at all.
fn in_child_process(test: &str, f: impl FnOnce()) {
    if area().is_none_or(|area| cpu_of(area) < 0) {
        return say(&format!("SKIPPED: {test}: no restartable sequences"));
    }
    if is_child(test) {
        f()
    } else {
        child_succeeds(test)
    }
}

#[test]
fn a_child_forked_by_a_thread_worker_has_its_own() {
    in_child_process(
        "rseq::a_child_forked_by_a_thread_worker_has_its_own",
        || {
            let (tell, told) = std::sync::mpsc::channel();
            with_server(
                move || tell.send(area().unwrap()).unwrap(),
                move || {
                    let servers = told.recv().unwrap();
                    on_server(move || {
                        let forked = fork(move || {
                            let own = area().unwrap();
                            assert_eq!(
                                rseq(servers, 1),
                                Err(libc::EINVAL),
                                "the server's is still registered"
                            );
                            assert_eq!(rseq(own, 0), Err(libc::EBUSY), "its own is not");
                            assert_eq!(cpu_of(own), here() as i32);
                            0
                        });
                        forked.ends_well();
                    });
                },
            );
        },
    );
}

#[test]
fn a_child_forked_by_a_full_worker_has_none() {
    in_child_process("rseq::a_child_forked_by_a_full_worker_has_none", || {
        let runtime = Runtime::builder().servers(1).build().unwrap();
        let body = || {
            let forked = fork(|| {
                let own = area().unwrap();
                assert!(cpu_of(own) < 0);
                // A registered area refuses another one.
                assert_eq!(rseq(own, 0), Ok(()), "the carrier's is still registered");
                assert_eq!(rseq(own, 1), Ok(()));
                0
            });
            forked.ends_well();
        };
        if umcg::storage::available().is_ok() {
            runtime.spawn(body).join().unwrap();
            runtime.spawn(move || umcg::blocking(body)).join().unwrap();
        }
    });
}
