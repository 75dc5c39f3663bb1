//! The ring, with a kernel that refuses to take entries.

use super::refusal::GIVEN_UP;
use super::*;
use std::cell::Cell;
use std::ptr;
use std::sync::mpsc;

/// From now on the calling thread may not enter the kernel with a ring: it gets an error that
/// says there is no memory. False where there are no filters.
fn refuse_here() -> bool {
    let code = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    // BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ; BPF_RET
    let (load, equal, verdict) = (0x20, 0x15, 0x06);
    let mut program = [
        code(load, 0, 0),
        code(equal, 1, libc::SYS_io_uring_enter as u32),
        code(verdict, 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
        code(verdict, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes plain numbers.
    let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program lives until the kernel has copied it.
    let second = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    first == 0 && second == 0
}

/// A ring with a read under way in the kernel that never ends by itself.
struct Reading<'a> {
    ring: &'a IoRing,
    operation: &'static UringOperation,
    cancel: squeue::Entry,
    /// Makes another thread flush the queue. The kernel refuses that thread nothing.
    elsewhere: &'a dyn Fn(bool) -> bool,
}

/// Calls `f` in a thread from which the kernel refuses to take entries.
fn reading(f: impl FnOnce(Reading<'_>) + Send) {
    let Ok(ring) = IoRing::new() else {
        return eprintln!("no io_uring here");
    };
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let ((ask, asked), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    std::thread::scope(|scope| {
        let (ring, reader) = (&ring, &reader);
        scope.spawn(move || {
            // It is leaked, as the test may fail.
            let operation: &UringOperation = Box::leak(Box::new(UringOperation {
                handle: Handle::current(),
                result: AtomicI64::new(PENDING),
            }));
            let key = ptr::from_ref(operation).expose_provenance() as u64;
            let byte: &mut u8 = Box::leak(Box::new(0));
            ring.under_way.fetch_add(1, Relaxed);
            let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), byte, 1)
                .build()
                .user_data(key);
            assert!(ring.push(&read, key).is_some() && ring.flush(false));
            if !refuse_here() {
                return eprintln!("no filters of system calls here");
            }
            let elsewhere = |soon| {
                ask.send(soon).unwrap();
                answered.recv().unwrap()
            };
            let cancel = opcode::AsyncCancel::new(key).build().user_data(NOBODY);
            f(Reading {
                ring,
                operation,
                cancel,
                elsewhere: &elsewhere,
            });
        });
        asked
            .into_iter()
            .for_each(|soon| answer.send(ring.flush(soon)).unwrap());
    });
}

/// After this the ring is given up at the calling thread's next refusal.
fn refused_for_long(ring: &IoRing) {
    ring.refused_since.store(1, Relaxed);
}

/// A cancellation waits in the queue and the ring is given up. Then another thread makes the
/// kernel take the queue all the same, without the cancellation.
#[test]
fn a_cancellation_that_was_given_back_is_handed_over_again() {
    reading(
        |Reading {
             ring,
             operation,
             cancel,
             elsewhere,
         }| {
            let parks = Cell::new(0);
            let park = |pause: Option<u64>| {
                parks.set(parks.get() + 1);
                match parks.get() {
                    1 => {
                        refused_for_long(ring);
                        assert!(!ring.flush(false) && ring.is_given_up());
                        assert!(elsewhere(true) && !ring.is_given_up());
                    }
                    2 => {
                        assert!(
                            pause.is_some(),
                            "the cancellation is taken for one that the kernel has"
                        );
                        assert!(elsewhere(false));
                    }
                    3..10_000 => std::thread::sleep(std::time::Duration::from_millis(1)),
                    _ => panic!("the read is not cancelled"),
                }
            };
            let result = ring.see_through(&cancel, NOBODY, operation, &mut None, park);
            assert_eq!(result, Some(-i64::from(libc::ECANCELED)));
        },
    );
}

/// As long as a thread is in the kernel, it may hand the operation over, and a cancellation by
/// another way would not find it.
#[test]
fn a_ring_is_given_up_for_a_cancellation_once_all_have_left_the_kernel() {
    reading(
        |Reading {
             ring,
             operation,
             cancel,
             ..
         }| {
            ring.flushes.fetch_add(1, Relaxed);
            refused_for_long(ring);
            let parks = Cell::new(0);
            let park = |pause: Option<u64>| {
                parks.set(parks.get() + 1);
                assert!(parks.get() == 1 && pause.is_some() && ring.is_given_up());
                // That thread leaves.
                assert_eq!(ring.flushes.fetch_sub(1, Relaxed), GIVEN_UP | 1);
                ring.give_back();
            };
            assert_eq!(
                ring.see_through(&cancel, NOBODY, operation, &mut None, park),
                None
            );
            assert_eq!(parks.get(), 1);
        },
    );
}
