//! Numbers whose reads have waited, so that much is believed of them: other files by the same
//! number, and messages and ends that are there already.

use super::runtime;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use umcg::rt::Runtime;

/// A belief that is false costs 20 ms. What is faster has had none.
const AT_ONCE: Duration = Duration::from_millis(15);

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, far)
}

/// Reads that wait, and have less than they ask for.
fn believe(near: &mut (impl Read + Write), far: impl Read + Write + Send + 'static) {
    const TURNS: usize = 4;
    let echo = umcg::spawn(move || {
        let mut far = far;
        for _ in 0..TURNS {
            let mut bytes = [0; 8];
            let count = far.read(&mut bytes).unwrap();
            far.write_all(&bytes[..count]).unwrap();
        }
    });
    for turn in 0..TURNS {
        near.write_all(&[turn as u8]).unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 1);
    }
    echo.join().unwrap();
}

/// The longest turn of the quickest run. After a false belief 15 waits rely on none, so a run has
/// more turns; and the machine may be busy in some runs.
fn quickest(mut turn: impl FnMut() -> Duration) -> Duration {
    const TURNS: usize = 20;
    const RUNS: usize = 10;
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let longest = (0..TURNS).map(|_| turn()).max().unwrap();
        best = best.min(longest);
        if best < AT_ONCE {
            break;
        }
    }
    best
}

/// How long a read of one byte takes, of a number that has come to name this file.
fn read_one(near: &mut impl Read) -> Duration {
    let began = Instant::now();
    assert_eq!(near.read(&mut [0; 8]).unwrap(), 1);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    took
}

/// dup2(2) by an instruction of this program's own file, which is no site.
fn replace_unseen(from: &impl AsRawFd, number: RawFd) {
    let mut result = libc::SYS_dup2;
    // SAFETY: both are open, and the caller owns the number.
    unsafe {
        std::arch::asm!(
            "syscall",
            inout("rax") result,
            in("rdi") i64::from(from.as_raw_fd()),
            in("rsi") i64::from(number),
            out("rcx") _,
            out("r11") _,
        );
    }
    assert_eq!(result, i64::from(number));
}

fn replace_seen(from: &impl AsRawFd, number: RawFd) {
    // SAFETY: both are open, and the caller owns the number.
    assert_eq!(unsafe { libc::dup2(from.as_raw_fd(), number) }, number);
}

#[test]
fn another_file_that_comes_unseen_is_read() {
    runtime().run(|| {
        for is_there in [true, false] {
            for _ in 0..3 {
                let (mut near, far) = tcp_pair();
                believe(&mut near, far.try_clone().unwrap());
                let (other, mut peer) = UnixStream::pair().unwrap();
                replace_unseen(&other, near.as_raw_fd());
                if is_there {
                    peer.write_all(b"x").unwrap();
                    read_one(&mut near);
                } else {
                    let writer = umcg::spawn(move || {
                        std::thread::sleep(3 * AT_ONCE);
                        peer.write_all(b"x").unwrap();
                        peer
                    });
                    read_one(&mut near);
                    peer = writer.join().unwrap();
                }
                believe(&mut near, peer);
                drop(far);
            }
        }
    });
}

#[test]
fn another_file_that_is_there_already_is_read_at_once() {
    runtime().run(|| {
        let by_dup = quickest(|| {
            let (mut near, far) = tcp_pair();
            believe(&mut near, far.try_clone().unwrap());
            let (other, mut peer) = UnixStream::pair().unwrap();
            peer.write_all(b"x").unwrap();
            replace_seen(&other, near.as_raw_fd());
            read_one(&mut near)
        });
        assert!(by_dup < AT_ONCE, "{by_dup:?}");
        let by_close = quickest(|| {
            let (mut near, far) = tcp_pair();
            believe(&mut near, far.try_clone().unwrap());
            let (number, (other, mut peer)) = (near.as_raw_fd(), UnixStream::pair().unwrap());
            peer.write_all(b"x").unwrap();
            drop(near);
            // SAFETY: a new number, that one or a greater one.
            let new = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_DUPFD, number) };
            if new < 0 {
                return Duration::ZERO;
            }
            // SAFETY: just made, and owned by this function only.
            let mut other = unsafe { UnixStream::from_raw_fd(new) };
            let took = read_one(&mut other);
            // Another test may have taken the number.
            if new == number { took } else { Duration::ZERO }
        });
        assert!(by_close < AT_ONCE, "{by_close:?}");
    });
}

#[test]
fn messages_that_are_there_already_are_read_at_once() {
    runtime().run(|| {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [near, far] = &sockets;
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let far = far.try_clone().unwrap();
        let peer = umcg::spawn(move || {
            while far.recv(&mut [0; 8]).unwrap() == 1 {
                far.send(b"a").unwrap();
                far.send(b"b").unwrap();
            }
        });
        let turn = || {
            near.send(b"x").unwrap();
            assert_eq!(near.recv(&mut [0; 8]).unwrap(), 1);
            let began = Instant::now();
            assert_eq!(near.recv(&mut [0; 8]).unwrap(), 1);
            began.elapsed()
        };
        // Nothing is believed in the first turns.
        for _ in 0..4 {
            turn();
        }
        let took = quickest(turn);
        assert!(took < AT_ONCE, "{took:?}");
        near.send(b"end").unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn the_end_after_the_last_bytes_is_seen_at_once() {
    runtime().run(|| {
        let took = quickest(|| {
            let (mut near, far) = tcp_pair();
            believe(&mut near, far.try_clone().unwrap());
            let peer = umcg::spawn(move || {
                let mut far = far;
                far.write_all(b"x").unwrap();
            });
            read_one(&mut near);
            let began = Instant::now();
            assert_eq!(near.read(&mut [0; 8]).unwrap(), 0);
            peer.join().unwrap();
            began.elapsed()
        });
        assert!(took < AT_ONCE, "{took:?}");
    });
}

#[test]
fn waits_that_outlast_the_belief_end_with_what_comes() {
    runtime().run(|| {
        let (mut near, far) = tcp_pair();
        believe(&mut near, far.try_clone().unwrap());
        let peer = umcg::spawn(move || {
            let mut far = far;
            for turn in 0..20u8 {
                std::thread::sleep(if turn < 3 { 3 * AT_ONCE } else { AT_ONCE / 10 });
                far.write_all(&[turn]).unwrap();
                assert_eq!(far.read(&mut [0; 8]).unwrap(), 1);
            }
        });
        for turn in 0..20u8 {
            let mut bytes = [0; 8];
            assert_eq!(near.read(&mut bytes).unwrap(), 1);
            assert_eq!(bytes[0], turn);
            near.write_all(&bytes[..1]).unwrap();
        }
        peer.join().unwrap();
    });
}

/// Threads replace the files of numbers again and again, while workers begin to read them.
#[test]
fn a_number_that_is_replaced_while_a_read_begins_to_wait_is_read_anew() {
    const NUMBERS: usize = 6;
    const ROUNDS: u8 = 250;
    let runtime = Runtime::builder().servers(2).build().unwrap();
    umcg::intercept::notice_blocking().unwrap();
    runtime.run(|| {
        let read_all = |_| {
            let (near, far) = UnixStream::pair().unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            let number = near.as_raw_fd();
            let replacer = std::thread::spawn(move || {
                let mut far = far;
                for round in 1..=ROUNDS {
                    let (next, next_far) = UnixStream::pair().unwrap();
                    replace_seen(&next, number);
                    // A thread that reads the former file learns of its end.
                    far = next_far;
                    far.write_all(&[round]).unwrap();
                    if told.recv_timeout(Duration::from_secs(5)) != Ok(round) {
                        // The reader would keep the test from ending.
                        eprintln!("a read of number {number} is lost in round {round}");
                        std::process::abort();
                    }
                }
                drop(far);
            });
            let mut near = near;
            let reader = umcg::spawn(move || {
                let mut byte = [0];
                while byte[0] != ROUNDS {
                    // The end of a former file is none.
                    if near.read(&mut byte).unwrap() == 1 {
                        tell.send(byte[0]).unwrap();
                    }
                }
            });
            (replacer, reader)
        };
        let all: Vec<_> = (0..NUMBERS).map(read_all).collect();
        for (replacer, reader) in all {
            reader.join().unwrap();
            replacer.join().unwrap();
        }
    });
}
