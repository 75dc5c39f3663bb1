//! Cases that need a process of their own: it is refused calls, threads, descriptors or `/proc`, or
//! its environment forbids to notice.

use super::filter;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};
use umcg::intercept::notice_blocking;
use umcg::rt::Runtime;

/// Names the scenario to the process that runs it.
const SCENARIO: &str = "UMCG_TEST_SCENARIO";
/// Generous: a machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(100);
const SHORT: Duration = Duration::from_millis(20);

/// The program that the processes of the other tests run. On its own this is no test.
#[test]
fn scenario() {
    let Ok(name) = std::env::var(SCENARIO) else {
        return;
    };
    match name.as_str() {
        "forbidden" => forbidden(),
        "at once" => at_once(),
        "one helper" => one_helper(),
        "no try" => refused(&[libc::SYS_preadv2, libc::SYS_pwritev2]),
        "no driver" => refused(&[libc::SYS_epoll_ctl]),
        "no thread" => no_thread(),
        "no descriptor" => no_descriptor(),
        "stopped" => stopped(),
        "no /proc" => assert!(notice_blocking().is_err()),
        other => panic!("no scenario: {other}"),
    }
    std::process::exit(0);
}

/// A process for the scenario.
fn process(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let scenario = ["processes::scenario", "--exact", "--nocapture"];
    command.args(scenario).env(SCENARIO, name);
    command
}

fn succeeds(mut command: Command) {
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return assert!(status.success(), "{status}");
        }
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn one_server() -> Runtime {
    Runtime::builder().servers(1).build().unwrap()
}

/// Two workers that wait for each other, by the calls for files and by those for sockets.
fn converse() {
    let file = |stream: UnixStream| File::from(OwnedFd::from(stream));
    let (from, to) = UnixStream::pair().unwrap();
    let (mut from, mut to) = (file(from), file(to));
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let worker = umcg::spawn(move || {
        for _ in 0..20 {
            let mut byte = [0];
            from.read_exact(&mut byte).unwrap();
            far.write_all(&byte).unwrap();
        }
    });
    for turn in 0..20 {
        let mut byte = [0];
        to.write_all(&[turn]).unwrap();
        near.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [turn]);
    }
    worker.join().unwrap();
}

#[test]
fn the_environment_forbids_it() {
    let mut command = process("forbidden");
    command.env("UMCG_NOTICE", "0");
    succeeds(command);
}

fn forbidden() {
    assert!(notice_blocking().is_err());
    assert!(!umcg::intercept::notices_blocking());
    let began = Instant::now();
    one_server().run(|| {
        let sleep = || std::thread::sleep(SHORT);
        let workers = [umcg::spawn(sleep), umcg::spawn(sleep)];
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
    // One after the other: a sleep keeps its server.
    assert!(began.elapsed() >= 2 * SHORT);
}

#[test]
fn threads_begin_it_at_once() {
    (0..5).for_each(|_| succeeds(process("at once")));
}

fn at_once() {
    const THREADS: usize = 8;
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                notice_blocking().unwrap();
                assert!(umcg::intercept::notices_blocking());
                one_server().run(converse);
            });
        }
    });
}

#[test]
fn more_workers_wait_in_scopes_than_there_may_be_helpers() {
    let mut command = process("one helper");
    command.env("UMCG_HELPERS", "1");
    succeeds(command);
}

fn one_helper() {
    notice_blocking().unwrap();
    one_server().run(|| {
        let wait = || {
            assert!(
                Command::new("sleep")
                    .arg("0.05")
                    .status()
                    .unwrap()
                    .success()
            )
        };
        let workers: Vec<_> = (0..12).map(|_| umcg::spawn(wait)).collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn calls_that_tries_and_waits_need_are_refused() {
    if filter::are_possible() {
        succeeds(process("no try"));
        succeeds(process("no driver"));
    }
}

fn refused(calls: &[i64]) {
    notice_blocking().unwrap();
    let runtime = one_server();
    runtime.run(converse);
    // The last filter that refuses a call says with which error.
    for errno in [libc::ENOSYS, libc::EPERM] {
        filter::refuse(calls, errno);
        runtime.run(converse);
    }
}

#[test]
fn there_are_no_threads_left_for_scopes() {
    if filter::are_possible() {
        succeeds(process("no thread"));
    }
}

fn no_thread() {
    notice_blocking().unwrap();
    let runtime = one_server();
    runtime.run(|| {
        filter::refuse(&[libc::SYS_clone, libc::SYS_clone3], libc::EAGAIN);
        converse();
        // In place, then: nothing else could run it.
        // SAFETY: no child, and no room for a status.
        let waited = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
        let error = std::io::Error::last_os_error();
        assert_eq!((waited, error.raw_os_error()), (-1, Some(libc::ECHILD)));
    });
}

#[test]
fn there_are_no_descriptors_left() {
    succeeds(process("no descriptor"));
}

fn no_descriptor() {
    notice_blocking().unwrap();
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let runtime = one_server();
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 4096,
    };
    // SAFETY: a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
    runtime.run(|| {
        let worker = umcg::spawn(move || {
            near.read_exact(&mut [0]).unwrap();
            near.write_all(b"y").unwrap();
        });
        std::thread::sleep(SHORT);
        far.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn there_is_no_proc() {
    let mut command = process("no /proc");
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(hide_proc) };
    match command.spawn() {
        Ok(mut child) => assert!(child.wait().unwrap().success()),
        Err(error) => eprintln!("/proc cannot be hidden here: not tested ({error})"),
    }
}

/// Gives the process a tree of mounts of its own, in which `/proc` is empty.
fn hide_proc() -> std::io::Result<()> {
    // SAFETY: flags.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let kind = c"tmpfs".as_ptr();
    // SAFETY: names.
    match unsafe { libc::mount(kind, c"/proc".as_ptr(), kind, 0, std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn a_timed_wait_that_began_before_and_is_restarted_is_woken() {
    succeeds(process("stopped"));
}

/// The process is stopped, and goes on: then the kernel restarts the wait by a call of its own.
fn stopped() {
    const LONG: Duration = Duration::from_secs(40);
    let (tell, told) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let began = Instant::now();
        told.recv_timeout(LONG).unwrap();
        began.elapsed()
    });
    std::thread::sleep(SHORT);
    notice_blocking().unwrap();
    let own = std::process::id();
    let stops = format!("kill -STOP {own}; sleep 0.1; kill -CONT {own}");
    let status = Command::new("sh").args(["-c", &stops]).status().unwrap();
    assert!(status.success());
    // The library looks for waits that it has not counted, at intervals of up to a second.
    std::thread::sleep(Duration::from_secs(2));
    one_server().run(|| tell.send(()).unwrap());
    assert!(waiter.join().unwrap() < LONG / 2);
}
