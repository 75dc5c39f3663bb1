//! Waits that are noticed, and what may come in their midst: a request to end, a time limit, a
//! signal, a panic, a fork, another runtime, a library that goes.

use super::runtime;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::rt::Runtime;

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(60);

#[test]
fn a_worker_that_is_asked_to_end_goes_on_until_its_wait_is_over() {
    runtime().run(|| {
        let mutex = Mutex::new(());
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let waits = AtomicUsize::new(0);
        let is_beyond = AtomicBool::new(false);
        let until = |count| {
            while waits.load(Relaxed) < count {
                umcg::sleep(Duration::from_millis(1));
            }
        };
        umcg::scope(|scope| {
            let held = mutex.lock().unwrap();
            let worker = scope.spawn(|| {
                waits.fetch_add(1, Relaxed);
                let began = Instant::now();
                std::thread::sleep(LONG);
                assert!(began.elapsed() >= LONG);
                waits.fetch_add(1, Relaxed);
                near.read_exact(&mut [0]).unwrap();
                waits.fetch_add(1, Relaxed);
                drop(mutex.lock().unwrap());
                waits.fetch_add(1, Relaxed);
                umcg::yield_now();
                is_beyond.store(true, Relaxed);
            });
            until(1);
            worker.abort();
            until(2);
            std::thread::sleep(SHORT);
            let after_sleep = waits.load(Relaxed);
            far.write_all(b"x").unwrap();
            until(3);
            std::thread::sleep(SHORT);
            let after_read = waits.load(Relaxed);
            drop(held);
            assert_eq!((after_sleep, after_read), (2, 3));
            assert!(worker.join().is_err());
        });
        assert_eq!(waits.into_inner(), 4);
        assert!(!is_beyond.into_inner());
        assert!(!mutex.is_poisoned());
    });
}

#[test]
fn a_time_limit_around_a_wait_does_not_end_it() {
    runtime().run(|| {
        let began = Instant::now();
        let slept = umcg::timeout(SHORT, || std::thread::sleep(LONG));
        assert!(slept.is_ok() && began.elapsed() >= LONG);

        let (mut near, mut far) = UnixStream::pair().unwrap();
        let writer = umcg::spawn(move || {
            std::thread::sleep(LONG);
            far.write_all(b"x").unwrap();
        });
        let mut byte = [0];
        let had = umcg::timeout(SHORT, || near.read(&mut byte).unwrap());
        assert_eq!((had, byte), (Ok(1), *b"x"));
        writer.join().unwrap();
    });
}

#[test]
fn a_panic_after_a_wait_unwinds_the_worker_alone() {
    runtime().run(|| {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let worker = umcg::spawn(move || {
            let caught = std::panic::catch_unwind(|| {
                std::thread::sleep(SHORT);
                std::panic::resume_unwind(Box::new(1u8));
            });
            assert_eq!(caught.unwrap_err().downcast_ref(), Some(&1u8));
            near.read_exact(&mut [0]).unwrap();
            std::panic::resume_unwind(Box::new(2u8));
        });
        std::thread::sleep(2 * SHORT);
        far.write_all(b"x").unwrap();
        assert!(worker.join().is_err());
        // The socket went with the worker.
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
    });
}

/// Runs `f` in a child of a fork, made by `fork`, and returns its exit status; 0 if all is well.
fn in_child(fork: impl FnOnce() -> libc::pid_t, f: impl FnOnce()) -> i32 {
    let child = fork();
    assert!(child >= 0);
    if child == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

fn fork() -> libc::pid_t {
    // SAFETY: no precondition; the child uses what the C library makes fit for it.
    unsafe { libc::fork() }
}

#[test]
fn a_child_of_a_fork_notices_nothing_and_has_runtimes_of_its_own() {
    umcg::intercept::notice_blocking().unwrap();
    let status = in_child(fork, || {
        assert!(!umcg::intercept::notices_blocking());
        assert!(umcg::intercept::notice_blocking().is_err());
        let runtime = Runtime::builder().servers(1).build().unwrap();
        let began = Instant::now();
        runtime.run(|| {
            let sleep = || std::thread::sleep(SHORT);
            let workers: Vec<_> = (0..4).map(|_| umcg::spawn(sleep)).collect();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
        // One after the other: each sleep has kept the server.
        assert!(began.elapsed() >= 4 * SHORT);
    });
    assert_eq!(status, 0);
}

#[test]
fn a_worker_forks_and_its_child_blocks_in_the_kernel() {
    /// A fork of which the C library knows nothing.
    fn bare_fork() -> libc::pid_t {
        // SAFETY: a process with a copy of this stack.
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }
    }
    runtime().run(|| {
        for fork in [fork, bare_fork] {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let writer = umcg::spawn(move || {
                std::thread::sleep(SHORT);
                far.write_all(b"x").unwrap();
                far
            });
            let status = in_child(fork, || {
                assert!(!umcg::intercept::notices_blocking());
                std::thread::sleep(SHORT);
                near.read_exact(&mut [0]).unwrap();
            });
            assert_eq!(status, 0);
            drop(writer.join().unwrap());
        }
    });
}

#[test]
fn workers_of_several_runtimes_wait_for_the_same_sockets() {
    const TURNS: usize = 200;
    let (near, far) = UnixStream::pair().unwrap();
    for _ in 0..3 {
        let echo = |mut stream: &UnixStream| {
            for _ in 0..TURNS {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                stream.write_all(&byte).unwrap();
            }
        };
        // The runtimes before are gone, with the drivers that knew these sockets.
        let (one, other) = (runtime(), runtime());
        std::thread::scope(|scope| {
            scope.spawn(|| one.run(|| echo(&far)));
            other.run(|| {
                let mut stream = &near;
                for turn in 0..TURNS {
                    stream.write_all(&[turn as u8]).unwrap();
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [turn as u8]);
                }
            });
        });
    }
}

#[test]
fn a_signal_does_not_end_a_wait_in_user_mode() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handle(_: i32) {
        HANDLED.fetch_add(1, Relaxed);
    }
    // SAFETY: zeros are an empty mask and no flags, so that calls are not restarted.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // SAFETY: the handler is async-signal-safe.
    let installed = unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
    runtime().run(|| {
        // SAFETY: asks for a number: the server's kernel thread.
        let server = unsafe { libc::syscall(libc::SYS_gettid) };
        let process = std::process::id();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Acquire) {
                    // SAFETY: a signal that has a handler, to a thread of this process.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, server, libc::SIGUSR2) };
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let began = Instant::now();
            std::thread::sleep(LONG);
            assert!(began.elapsed() >= LONG);
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let writer = umcg::spawn(move || {
                std::thread::sleep(LONG);
                far.write_all(b"x").unwrap();
            });
            assert_eq!(near.read(&mut [0; 2]).unwrap(), 1);
            writer.join().unwrap();
            is_over.store(true, Release);
        });
        assert!(HANDLED.load(Relaxed) > 0);
    });
}

#[test]
fn libraries_come_and_go_while_workers_wait() {
    runtime().run(|| {
        umcg::scope(|scope| {
            for name in [c"libresolv.so.2", c"libanl.so.1", c"libutil.so.1"] {
                scope.spawn(move || {
                    for _ in 0..20 {
                        // SAFETY: a library of the C library's, without constructors of its own.
                        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
                        std::thread::sleep(Duration::from_micros(100));
                        if !library.is_null() {
                            // SAFETY: open, and closed once.
                            assert_eq!(unsafe { libc::dlclose(library) }, 0);
                        }
                    }
                });
            }
        });
    });
}
