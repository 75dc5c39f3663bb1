//! Calls of many kinds, by workers of one server or two, have the results that threads see.

use super::runtime;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};
use umcg::rt::Runtime;

/// More than a pipe or a socket takes at once.
const LARGE: usize = 3 << 20;

#[test]
fn a_blocking_write_writes_all_and_lets_the_reader_run() {
    runtime().run(|| {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let writer = umcg::spawn(move || {
            let bytes: Vec<u8> = (0..LARGE).map(|index| index as u8).collect();
            // One call: a short result would not be what a thread sees.
            assert_eq!(near.write(&bytes).unwrap(), LARGE);
            let parts = [&bytes[..1], &bytes[1..LARGE / 2], &bytes[LARGE / 2..]];
            let parts = parts.map(std::io::IoSlice::new);
            assert_eq!(near.write_vectored(&parts).unwrap(), LARGE);
        });
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert_eq!(all.len(), 2 * LARGE);
        assert!(
            all[..LARGE]
                .iter()
                .enumerate()
                .all(|(index, byte)| *byte == index as u8)
        );
        assert!(all[LARGE..] == all[..LARGE]);
    });
}

#[test]
fn pipes_between_workers() {
    runtime().run(|| {
        let (mut from, mut to) = std::io::pipe().unwrap();
        let reader = umcg::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text.len()
        });
        for _ in 0..1000 {
            to.write_all(b"some text").unwrap();
        }
        drop(to);
        assert_eq!(reader.join().unwrap(), 9000);
    });
}

#[test]
fn a_time_limit_of_the_sockets_own_ends_a_read() {
    runtime().run(|| {
        let (mut near, _far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let began = Instant::now();
        let error = near.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(began.elapsed() >= Duration::from_millis(30));
    });
}

#[test]
fn a_non_blocking_socket_does_not_wait() {
    runtime().run(|| {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        assert_eq!(
            near.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        let mut written = 0;
        let error = loop {
            match near.write(&[0; 4096]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), written);
    });
}

#[test]
fn datagrams_and_a_peer_that_reads_late() {
    runtime().run(|| {
        let (near, far) = UnixDatagram::pair().unwrap();
        let sender = umcg::spawn(move || {
            for turn in 0..2000u32 {
                near.send(&turn.to_le_bytes()).unwrap();
            }
        });
        for turn in 0..2000u32 {
            let mut bytes = [0; 8];
            assert_eq!(far.recv(&mut bytes).unwrap(), 4);
            assert_eq!(bytes[..4], turn.to_le_bytes());
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_descriptor_with_another_file_is_waited_for_anew() {
    runtime().run(|| {
        for turn in 0..200u8 {
            // The same number, most likely, for another socket each time.
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let keeps = near.try_clone().unwrap();
            let reader = umcg::spawn(move || {
                let mut byte = [0];
                near.read_exact(&mut byte).unwrap();
                byte[0]
            });
            umcg::yield_now();
            far.write_all(&[turn]).unwrap();
            assert_eq!(reader.join().unwrap(), turn);
            drop(keeps);
        }
    });
}

#[test]
fn poll_for_one_descriptor_and_for_two() {
    runtime().run(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (other, _silent) = UnixStream::pair().unwrap();
        let poll = |fds: &mut [libc::pollfd], timeout| {
            // SAFETY: the entries.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) }
        };
        let entry = |stream: &UnixStream| libc::pollfd {
            fd: stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        assert_eq!(poll(&mut [entry(&near)], 10), 0);
        let writer = umcg::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            far.write_all(b"x").unwrap();
            far
        });
        let mut one = [entry(&near)];
        assert_eq!(poll(&mut one, -1), 1);
        assert_eq!(one[0].revents, libc::POLLIN);
        let mut two = [entry(&other), entry(&near)];
        assert_eq!(poll(&mut two, -1), 1);
        assert_eq!([two[0].revents, two[1].revents], [0, libc::POLLIN]);
        drop(writer.join().unwrap());
    });
}

#[test]
fn processes_are_made_and_waited_for() {
    runtime().run(|| {
        let make = |index: usize| {
            umcg::spawn(move || {
                let output = Command::new("/bin/sh")
                    .args(["-c", "read line; echo got $line; exit 3"])
                    .stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .and_then(|mut child| {
                        writeln!(child.stdin.take().unwrap(), "{index}")?;
                        child.wait_with_output()
                    })
                    .unwrap();
                assert_eq!(output.status.code(), Some(3));
                assert_eq!(output.stdout, format!("got {index}\n").into_bytes());
            })
        };
        let workers: Vec<_> = (0..8).map(make).collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

/// The C library blocks all signals while it makes a process, and waits for a child that could not
/// begin its program.
#[test]
fn a_command_that_cannot_start_leaves_signals_to_its_server() {
    fn blocks_a_signal() -> bool {
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: room for a set, which the C library writes.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
        // SAFETY: just written.
        unsafe { libc::sigismember(mask.as_ptr(), libc::SIGUSR1) == 1 }
    }
    for servers in [1, 2] {
        umcg::intercept::notice_blocking().unwrap();
        let runtime = Runtime::builder().servers(servers).build().unwrap();
        runtime.run(|| {
            assert!(!blocks_a_signal());
            let failing = || {
                for _ in 0..20 {
                    let command = Command::new("/no/such/program").spawn();
                    assert_eq!(command.unwrap_err().kind(), ErrorKind::NotFound);
                    assert!(!blocks_a_signal());
                }
            };
            let workers: Vec<_> = (0..3).map(|_| umcg::spawn(failing)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                assert!(!blocks_a_signal());
                umcg::yield_now();
            }
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            assert!(!blocks_a_signal());
        });
    }
}

#[test]
fn memory_locks_and_sleeps_on_two_servers() {
    const WORKERS: usize = 64;
    umcg::intercept::notice_blocking().unwrap();
    let runtime = Runtime::builder().servers(2).build().unwrap();
    let (ready, changed) = (Mutex::new(0usize), Condvar::new());
    let table = RwLock::new(Vec::<Vec<u8>>::new());
    let sum = AtomicUsize::new(0);
    runtime.run(|| {
        umcg::scope(|scope| {
            for worker in 0..WORKERS {
                let (ready, changed, table, sum) = (&ready, &changed, &table, &sum);
                scope.spawn(move || {
                    *ready.lock().unwrap() += 1;
                    changed.notify_all();
                    let all = ready.lock().unwrap();
                    drop(changed.wait_while(all, |all| *all < WORKERS).unwrap());
                    for turn in 0..200 {
                        let bytes = vec![worker as u8; 1 << (turn % 17)];
                        if turn % 8 == 0 {
                            let mut table = table.write().unwrap();
                            if turn % 32 == 0 {
                                std::thread::sleep(Duration::from_micros(20));
                            }
                            table.push(bytes);
                            table.truncate(100);
                        } else {
                            sum.fetch_add(table.read().unwrap().len(), Relaxed);
                        }
                    }
                });
            }
        });
    });
    assert!(sum.into_inner() > 0);
}

#[test]
fn connections_are_accepted_by_several_workers() {
    const CLIENTS: usize = 40;
    runtime().run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = AtomicUsize::new(0);
        umcg::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Ok((mut stream, _)) = listener.accept() {
                        let mut byte = [0];
                        if stream.read(&mut byte).unwrap() == 0 {
                            return;
                        }
                        stream.write_all(&byte).unwrap();
                        served.fetch_add(1, Relaxed);
                    }
                });
            }
            let client = |byte: u8| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(&[byte]).unwrap();
                let mut answer = [0];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [byte]);
            };
            (0..CLIENTS).for_each(|turn| client(turn as u8));
            for _ in 0..4 {
                drop(TcpStream::connect(address).unwrap());
            }
        });
        assert_eq!(served.into_inner(), CLIENTS);
    });
}

#[test]
fn a_socket_that_changes_after_reads_that_waited_is_seen_to() {
    runtime().run(|| {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let other = near.try_clone().unwrap();
        let echo = umcg::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(count @ 1..) = far.read(&mut bytes) {
                far.write_all(&bytes[..count]).unwrap();
            }
            far
        });
        // Answers that are shorter than the buffer, so that each read is expected to wait.
        let answers = |near: &mut UnixStream| {
            for turn in 0..50u8 {
                near.write_all(&[turn; 3]).unwrap();
                let mut bytes = [0; 64];
                assert_eq!(near.read(&mut bytes).unwrap(), 3);
                assert_eq!(bytes[..4], [turn, turn, turn, 0]);
            }
        };
        answers(&mut near);
        other.set_nonblocking(true).unwrap();
        for _ in 0..2 {
            let error = near.read(&mut [0; 64]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
        other.set_nonblocking(false).unwrap();
        answers(&mut near);
        other
            .set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        for _ in 0..2 {
            let began = Instant::now();
            let error = near.read(&mut [0; 64]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() >= Duration::from_millis(30));
        }
        near.set_read_timeout(None).unwrap();
        answers(&mut near);
        // More than one message may be there, and then the end.
        near.write_all(b"first").unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(near.read(&mut [0; 64]).unwrap(), 5);
        near.shutdown(Shutdown::Write).unwrap();
        drop(echo.join().unwrap());
        assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
        assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
    });
}

#[test]
fn another_file_by_a_number_whose_reads_have_waited() {
    runtime().run(|| {
        for turn in 0..50u8 {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let answer = umcg::spawn(move || {
                for _ in 0..3 {
                    umcg::yield_now();
                    far.write_all(&[turn]).unwrap();
                    assert_eq!(far.read(&mut [0; 8]).unwrap(), 1);
                }
                // Most likely the same numbers at the next turn, some of them non-blocking.
                near_is_busy(&mut far);
            });
            for _ in 0..3 {
                let mut bytes = [0; 64];
                assert_eq!(near.read(&mut bytes).unwrap(), 1);
                assert_eq!(bytes[0], turn);
                near.write_all(&bytes[..1]).unwrap();
            }
            answer.join().unwrap();
        }
    });

    fn near_is_busy(far: &mut UnixStream) {
        far.set_nonblocking(true).unwrap();
        let error = far.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
