//! The driver of input and output when a call that had been granted is refused, or its descriptors
//! are taken away.

use crate::filter::{refuse, refuse_for_a_moment, refuse_if, shared};
use crate::run;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use umcg::Runtime;
use umcg::io::DriverKind;
use umcg::net::unix::UnixStream;

const IN_TIME: Duration = Duration::from_secs(60);

pub(crate) fn scenario(name: &str) {
    match name {
        "no-more-entering" => {
            operations_go_on(|| refuse(&[libc::SYS_io_uring_enter], libc::EACCES))
        }
        "no-entering-for-a-moment" => {
            operations_go_on(|| refuse_for_a_moment(&[libc::SYS_io_uring_enter], libc::EAGAIN, 3))
        }
        "no-memory-for-entering" => {
            operations_go_on(|| refuse(&[libc::SYS_io_uring_enter], libc::EAGAIN))
        }
        "shortage-ends" => a_ring_is_used_again_after_a_shortage(),
        "no-ring-at-first" => a_ring_that_could_not_be_had_is_asked_for_again(),
        "under-way" => operations_under_way_end(),
        "aborted" => an_operation_that_is_not_taken_is_aborted(),
        "no-entering" => {
            refuse(&[libc::SYS_io_uring_enter], libc::EPERM);
            assert_eq!(
                Runtime::builder().build().unwrap().driver(),
                DriverKind::Epoll
            );
            assert!(
                Runtime::builder()
                    .driver(DriverKind::IoUring)
                    .build()
                    .is_err()
            );
        }
        "no-threads" => files_are_opened_without_threads_for_the_ring(),
        "closed" => descriptors_are_closed(DriverKind::Epoll, false),
        "replaced" => descriptors_are_closed(DriverKind::Epoll, true),
        "replaced-by-sockets" => a_socket_takes_the_number_of_the_set(),
        "closed-ring" => descriptors_are_closed(DriverKind::IoUring, false),
        "replaced-ring" => descriptors_are_closed(DriverKind::IoUring, true),
        errno => sockets_without_the_finer_wait(errno.parse().unwrap()),
    }
}

/// A runtime whose ring has worked. None where the kernel has none.
fn with_a_ring() -> Option<Runtime> {
    let runtime = Runtime::builder()
        .servers(2)
        .driver(DriverKind::IoUring)
        .build();
    let runtime = runtime
        .inspect_err(|error| eprintln!("no io_uring here: {error}"))
        .ok()?;
    runtime.run(write_and_read);
    Some(runtime)
}

fn write_and_read() {
    let mut file = umcg::fs::File::from(std::fs::File::from(
        rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
    ));
    file.write_all(b"text").unwrap();
    let mut text = [0; 4];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
}

/// The kernel opens files of /proc on a thread of its own, and has none for a process that may make
/// none.
fn files_are_opened_without_threads_for_the_ring() {
    let Ok(runtime) = Runtime::builder()
        .servers(2)
        .driver(DriverKind::IoUring)
        .build()
    else {
        return;
    };
    let none = rustix::process::Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    // For root there are no limits.
    if rustix::process::geteuid().is_root() {
        // SAFETY: a plain call.
        let is_group_given_up = unsafe { libc::setgid(65_534) } == 0;
        // SAFETY: as above.
        if !is_group_given_up || unsafe { libc::setuid(65_534) } != 0 {
            return;
        }
    }
    rustix::process::setrlimit(rustix::process::Resource::Nproc, none).unwrap();
    let worker = runtime.spawn(|| umcg::fs::read("/proc/cpuinfo").unwrap().len());
    wait_until("a file is read", || worker.is_finished());
    assert_ne!(worker.join().unwrap(), 0);
}

/// A pipe whose reading end is read by the ring.
fn pipe() -> (umcg::fs::File, std::fs::File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    (reader.into(), writer.into())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < IN_TIME, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn operations_go_on(refuse: impl Fn()) {
    let Some(runtime) = with_a_ring() else { return };
    refuse();
    // A single operation first: no other one makes a server look after it.
    runtime.run(write_and_read);
    let workers: Vec<_> = (0..200).map(|_| runtime.spawn(write_and_read)).collect();
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
}

/// The kernel says "later" for longer than a runtime believes it. The entries in the queue then
/// have been done otherwise, or were aborted: they are not done once more.
fn a_ring_is_used_again_after_a_shortage() {
    let Some(runtime) = with_a_ring() else { return };
    let (is_over, entered): (&AtomicBool, &AtomicU32) = (shared(), shared());
    refuse_if(&[libc::SYS_io_uring_enter], libc::EAGAIN, |_, _| {
        let is_refused = !is_over.load(Relaxed);
        entered.fetch_add(u32::from(!is_refused), Relaxed);
        is_refused
    });
    let (mut reader, mut writer) = pipe();
    let mut same = std::fs::File::from(rustix::io::dup(&reader).unwrap());
    let aborted = runtime.spawn(move || {
        let mut byte = [b'-'];
        let _ = reader.read(&mut byte);
        byte
    });
    let written = std::fs::File::from(
        rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
    );
    let mut file = umcg::fs::File::from(written.try_clone().unwrap());
    let writes = runtime.spawn(move || file.write_all(b"once").unwrap());
    wait_until("the read waits", || runtime.dump().contains("waits: read"));
    aborted.abort();
    wait_until("the aborted read has ended", || aborted.is_finished());
    writes.join().unwrap();
    // Done by helpers, once the ring is given up.
    (0..100).for_each(|_| runtime.run(write_and_read));
    is_over.store(true, Relaxed);
    wait_until("the ring is entered again", || {
        runtime.run(write_and_read);
        entered.load(Relaxed) > 20
    });
    // No other process has written again, nor does any other read the pipe.
    assert_eq!(written.metadata().unwrap().len(), 4);
    writer.write_all(b"x").unwrap();
    runtime.run(write_and_read);
    let mut byte = [0];
    same.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
}

fn a_ring_that_could_not_be_had_is_asked_for_again() {
    if with_a_ring().is_none() {
        return;
    }
    let is_over: &AtomicBool = shared();
    refuse_if(&[libc::SYS_io_uring_setup], libc::ENOMEM, |_, _| {
        !is_over.load(Relaxed)
    });
    let runtime = Runtime::builder().servers(1).build().unwrap();
    runtime.run(write_and_read);
    assert_eq!(runtime.driver(), DriverKind::Epoll);
    is_over.store(true, Relaxed);
    wait_until("there is a ring", || {
        runtime.run(write_and_read);
        runtime.driver() == DriverKind::IoUring
    });
}

/// The kernel has them when it begins to refuse: they are completed, also those that are aborted.
fn operations_under_way_end() {
    let Some(runtime) = with_a_ring() else { return };
    let (mut reader, mut writer) = pipe();
    let (mut other, _open) = pipe();
    let reading = runtime.spawn(move || reader.read(&mut [0; 8]).unwrap());
    let aborted = runtime.spawn(move || other.read(&mut [0; 8]).unwrap());
    // Parked without a deadline: the kernel has them.
    wait_until("both wait", || {
        runtime.dump().matches("waits: read").count() == 2
    });
    refuse(&[libc::SYS_io_uring_enter], libc::EPERM);
    writer.write_all(b"x").unwrap();
    assert_eq!(reading.join().unwrap(), 1);
    aborted.abort();
    wait_until("the aborted read has ended", || aborted.is_finished());
    runtime.run(write_and_read);
}

/// "Later", says the kernel, and the worker does not want to wait so long.
fn an_operation_that_is_not_taken_is_aborted() {
    let Some(runtime) = with_a_ring() else { return };
    refuse(&[libc::SYS_io_uring_enter], libc::EAGAIN);
    let reading: Vec<_> = (0..150)
        .map(|_| {
            let (mut reader, writer) = pipe();
            (
                runtime.spawn(move || reader.read(&mut [0; 8]).unwrap()),
                writer,
            )
        })
        .collect();
    wait_until("one waits", || runtime.dump().contains("waits: read"));
    reading.iter().for_each(|(worker, _)| worker.abort());
    for (worker, writer) in reading {
        wait_until("an aborted read has ended", || worker.is_finished());
        drop(writer);
    }
}

fn sockets_without_the_finer_wait(errno: i32) {
    refuse(&[libc::SYS_epoll_pwait2, libc::SYS_preadv2], errno);
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let reading = runtime.spawn(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let reading = umcg::spawn(move || {
            let mut byte = [0];
            other.read_exact(&mut byte).unwrap();
            byte
        });
        umcg::sleep(Duration::from_millis(20));
        one.write_all(b"x").unwrap();
        reading.join().unwrap()
    });
    wait_until("a byte went through a socket", || reading.is_finished());
    assert_eq!(&reading.join().unwrap(), b"x");
    runtime.run(write_and_read);
}

fn descriptors_are_closed(driver: DriverKind, replaced: bool) {
    let runtime = Runtime::builder()
        .servers(1)
        .driver(driver)
        .build()
        .unwrap();
    runtime.run(|| ());
    if driver == DriverKind::IoUring {
        runtime.run(write_and_read);
        // Never dropped: std ends a debug build that closes a descriptor which is closed already.
        let (reader, writer) = pipe();
        let (mut reader, _writer) = (ManuallyDrop::new(reader), ManuallyDrop::new(writer));
        drop(runtime.spawn(move || reader.read(&mut [0; 8])));
        wait_until("the ring has something to do", || {
            runtime.dump().contains("waits: read")
        });
    }
    let highest = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .parse()
            .unwrap()
    });
    let highest: i32 = highest.max().unwrap();
    let file = rustix::fs::memfd_create("replaced", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = rustix::io::fcntl_dupfd_cloexec(&file, highest + 10).unwrap();
    for fd in 3..=highest {
        let _ = if replaced {
            // SAFETY: the test is about that.
            unsafe { libc::dup2(file.as_raw_fd(), fd) }
        } else {
            // SAFETY: the test is about that.
            unsafe { libc::close(fd) }
        };
    }
    // A server that has nothing to do asks the ring first, and then for readiness.
    let worker = runtime.spawn(|| ());
    wait_until("the end of the process", || worker.is_finished());
}

/// The kernel's error about the set is not reported to the worker that waits for a socket.
fn a_socket_takes_the_number_of_the_set() {
    let runtime = Runtime::builder()
        .servers(1)
        .driver(DriverKind::Epoll)
        .build()
        .unwrap();
    let reads = runtime.spawn(|| {
        let highest = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC)
            .unwrap()
            .as_raw_fd();
        for fd in 3..highest {
            // SAFETY: the test is about that.
            unsafe { libc::close(fd) };
        }
        // More than there were descriptors. The server does not run meanwhile, and finds nothing
        // out.
        let mut pairs: Vec<_> = (0..highest).map(|_| UnixStream::pair().unwrap()).collect();
        let outcome = pairs.last_mut().unwrap().0.read(&mut [0; 8]);
        eprintln!("the reader was told: {outcome:?}");
        std::process::exit(3);
    });
    wait_until("the end of the process", || reads.is_finished());
}

fn fine(scenario: &str) {
    let ran = run(&format!("driver {scenario}"));
    assert!(ran.is_ok(), "{ran:#?}");
}

#[test]
fn file_operations_go_on_when_the_ring_may_not_be_entered_any_more() {
    fine("no-more-entering");
}

#[test]
fn file_operations_go_on_after_the_kernel_had_no_memory_for_a_moment() {
    fine("no-entering-for-a-moment");
}

#[test]
fn file_operations_go_on_when_the_kernel_never_has_memory_again() {
    fine("no-memory-for-entering");
}

#[test]
fn a_ring_that_was_given_up_for_a_shortage_is_used_again_afterwards() {
    fine("shortage-ends");
}

#[test]
fn a_ring_that_could_not_be_had_for_a_shortage_comes_later() {
    fine("no-ring-at-first");
}

#[test]
fn file_operations_go_on_when_the_kernel_has_no_thread_for_the_ring() {
    fine("no-threads");
}

#[test]
fn a_ring_that_may_not_be_entered_is_none() {
    fine("no-entering");
}

#[test]
fn what_the_ring_had_taken_ends_when_it_may_not_be_entered_any_more() {
    fine("under-way");
}

#[test]
fn what_the_ring_has_not_taken_can_be_aborted() {
    fine("aborted");
}

#[test]
fn sockets_and_reads_go_on_without_their_finer_calls_whatever_the_refusal_is() {
    for errno in [
        libc::EPERM,
        libc::ENOSYS,
        libc::EACCES,
        libc::EINVAL,
        libc::EAGAIN,
    ] {
        fine(&errno.to_string());
    }
}

#[test]
fn a_runtime_whose_descriptors_are_closed_or_replaced_ends_the_process_and_says_why() {
    let is_ring_there = Runtime::builder()
        .servers(1)
        .driver(DriverKind::IoUring)
        .build()
        .is_ok();
    let with_ring: &[_] = if is_ring_there {
        &["driver closed-ring", "driver replaced-ring"]
    } else {
        &[]
    };
    for scenario in [
        "driver closed",
        "driver replaced",
        "driver replaced-by-sockets",
    ]
    .iter()
    .chain(with_ring)
    {
        let ran = run(scenario);
        if !crate::filter::are_possible() {
            return;
        }
        assert!(ran.has_aborted(), "{ran:#?}");
        assert!(
            ran.output.contains("closed or replaced by the program"),
            "{ran:#?}"
        );
    }
}
