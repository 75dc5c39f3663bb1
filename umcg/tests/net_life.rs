//! Lifetimes that cross: aborted workers, ended runtimes, forks; and preemption in the midst of it.

mod net_support;

use net_support::{drivers, in_workers};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;
use umcg::fs::File;
use umcg::io::DriverKind;
use umcg::net::unix::{UnixDatagram, UnixStream};
use umcg::net::{TcpListener, TcpStream, UdpSocket};
use umcg::process::{Child, Command, Stdio};
use umcg::{JoinError, JoinHandle, Runtime};

const SHORT: Duration = Duration::from_millis(20);
/// For waits that end at once unless something is wrong.
const IN_TIME: Duration = Duration::from_secs(60);

fn runtime(kind: DriverKind, servers: usize) -> Runtime {
    Runtime::builder()
        .servers(servers)
        .driver(kind)
        .build()
        .unwrap()
}

fn light<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    // SAFETY: nothing here keeps what is in thread-local storage across a switch.
    unsafe { umcg::spawn_light(f) }
}

fn on<R: Send + 'static>(
    runtime: &Runtime,
    f: impl FnOnce() -> R + Send + 'static,
) -> JoinHandle<R> {
    // SAFETY: as above.
    unsafe { runtime.spawn_light(f) }
}

fn read_one(mut stream: impl Read) -> u8 {
    let mut buffer = [0];
    stream.read_exact(&mut buffer).unwrap();
    buffer[0]
}

#[test]
fn aborted_waiters_leave_and_the_socket_goes_on() {
    in_workers(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let one = Arc::new(one);
        // The first stands in the slot, the others in the list; they go in another order.
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let one = one.clone();
                light(move || (&*one).read(&mut [0; 8]).map(drop))
            })
            .collect();
        umcg::sleep(SHORT);
        for waiter in waiters.into_iter().rev() {
            waiter.abort();
            assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        }
        let reader = one.clone();
        let reading = light(move || read_one(&*reader));
        umcg::sleep(Duration::from_millis(1));
        (&other).write_all(&[9]).unwrap();
        assert_eq!(reading.join().unwrap(), 9);
    });
}

#[test]
fn aborted_accepts_and_timeouts_around_reads() {
    in_workers(|| {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let accepting = listener.clone();
        let waiter = light(move || accepting.accept().map(drop));
        umcg::sleep(SHORT);
        waiter.abort();
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(umcg::timeout(SHORT, || read_one(&stream)).is_err());
        (&accepted).write_all(&[3]).unwrap();
        assert_eq!(umcg::timeout(IN_TIME, || read_one(&stream)).unwrap(), 3);
    });
}

/// Kills its child, and waits for it, also when it is dropped by an abort.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        assert!(!self.0.wait().unwrap().success());
    }
}

/// A listener that takes no more connections, and those that it has.
fn overrun() -> (std::net::TcpListener, Vec<TcpStream>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let (mut streams, mut late) = (Vec::new(), 0);
    // One that is late may only have been slow.
    while late < 3 {
        match TcpStream::connect_timeout(&address, SHORT) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                late += 1;
            }
        }
    }
    (listener, streams)
}

#[test]
fn every_wait_can_be_aborted() {
    in_workers(|| {
        let (listener, _streams) = overrun();
        let address = listener.local_addr().unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        let (receiver, sender) = UnixDatagram::pair().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sleeper = || {
            Command::new("sleep")
                .arg("30")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let waits: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(move || drop(TcpStream::connect(address))),
            Box::new(move || while (&one).write(&[0; 4096]).is_ok() {}),
            Box::new(move || while sender.send(&[0; 4096]).is_ok() {}),
            Box::new(move || drop(socket.recv_from(&mut [0; 8]))),
            Box::new(move || drop(Killed(sleeper()).0.wait())),
            Box::new(move || drop(sleeper().wait_with_output())),
        ];
        for (index, wait) in waits.into_iter().enumerate() {
            let worker = light(wait);
            umcg::sleep(SHORT);
            worker.abort();
            assert!(
                matches!(worker.join(), Err(JoinError::Cancelled)),
                "{index}"
            );
        }
        drop(receiver);
    });
}

#[test]
fn an_aborted_operation_of_the_ring_is_over_before_its_buffer_goes() {
    for servers in [1, 2] {
        if !drivers().contains(&DriverKind::IoUring) {
            return;
        }
        let runtime = runtime(DriverKind::IoUring, servers);
        let body = || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let reader = Arc::new(File::from(reader));
            for _ in 0..20 {
                let reading = reader.clone();
                let waiter = light(move || (&*reading).read(&mut [0; 512]).map(drop));
                umcg::sleep(Duration::from_millis(1));
                waiter.abort();
                assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
            }
            // A read that were still under way would take this.
            (&File::from(writer)).write_all(&[5]).unwrap();
            assert_eq!(read_one(&*reader), 5);
        };
        on(&runtime, body).join().unwrap();
    }
}

#[test]
fn a_socket_outlives_its_runtime() {
    for kind in drivers() {
        let first = runtime(kind, 2);
        let make = || {
            let (one, other) = UnixStream::pair().unwrap();
            one.set_read_timeout(Some(Duration::from_millis(1)))
                .unwrap();
            assert_eq!(
                (&one).read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::TimedOut
            );
            one.set_read_timeout(None).unwrap();
            (one, other)
        };
        let (one, other) = on(&first, make).join().unwrap();
        let second = runtime(kind, 1);
        // Waits in the first one's driver until that ends, and then in its own.
        let one = Arc::new(one);
        let waiting = one.clone();
        let reading = on(&second, move || read_one(&*waiting));
        std::thread::sleep(SHORT);
        drop(first);
        std::thread::sleep(SHORT);
        (&other).write_all(&[7]).unwrap();
        assert_eq!(reading.join().unwrap(), 7);
        drop(one);
    }
}

#[test]
fn a_fork_leaves_the_parents_sockets_alone() {
    for kind in drivers() {
        let runtime = runtime(kind, 2);
        let (one, other) = UnixStream::pair().unwrap();
        let one = Arc::new(one);
        let waiting = one.clone();
        let reading = on(&runtime, move || (read_one(&*waiting), read_one(&*waiting)));
        std::thread::sleep(SHORT);
        // SAFETY: the child makes system calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = (&*one)
                .read(&mut [0; 8])
                .is_err_and(|error| error.kind() == ErrorKind::Unsupported);
            // Deregisters nothing of the parent's.
            drop(Arc::try_unwrap(one));
            // SAFETY: ends the child without its parent's exit handlers.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0, "the child");
        (&other).write_all(&[1]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        (&other).write_all(&[2]).unwrap();
        assert_eq!(reading.join().unwrap(), (1, 2));
    }
}

#[test]
fn echoes_under_preemption() {
    for kind in drivers() {
        for servers in [1, 2, 4] {
            let interval = Some(Duration::from_micros(500));
            let runtime = Runtime::builder()
                .servers(servers)
                .driver(kind)
                .preemption(interval)
                .build()
                .unwrap();
            on(&runtime, busy_and_talking).join().unwrap();
        }
    }
}

fn busy_and_talking() {
    let stop = Arc::new(AtomicUsize::new(0));
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            light(move || {
                while stop.load(Relaxed) == 0 {
                    let began = std::time::Instant::now();
                    while began.elapsed() < Duration::from_micros(700) {}
                    umcg::yield_now();
                }
            })
        })
        .collect();
    let talking: Vec<_> = (0..4)
        .map(|_| {
            let (mut one, mut other) = UnixStream::pair().unwrap();
            let echo = light(move || {
                let mut buffer = [0; 8];
                while other.read_exact(&mut buffer).is_ok() {
                    other.write_all(&buffer).unwrap();
                }
            });
            light(move || {
                for round in 0..8_u64 {
                    one.write_all(&round.to_ne_bytes()).unwrap();
                    let mut buffer = [0; 8];
                    one.read_exact(&mut buffer).unwrap();
                    assert_eq!(u64::from_ne_bytes(buffer), round);
                }
                drop(one);
                echo.join().unwrap();
            })
        })
        .collect();
    talking
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    stop.store(1, Relaxed);
    busy.into_iter().for_each(|worker| worker.join().unwrap());
}

/// The driver with which this process is to run the test of this name, if it is a process that the
/// test has started.
fn is_child(name: &str) -> Option<DriverKind> {
    let asked = std::env::var("UMCG_NET_STREAMS").ok()?;
    let kind = asked.strip_prefix(name)?.trim();
    Some(if kind == "epoll" {
        DriverKind::Epoll
    } else {
        DriverKind::IoUring
    })
}

/// A process that runs this test.
fn child(name: &str, kind: DriverKind) -> std::process::Child {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env("UMCG_NET_STREAMS", format!("{name} {kind}"));
    let (input, output) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    command
        .stdin(input)
        .stdout(output)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Standard streams in a process of their own: copies its input to its output.
#[test]
fn standard_streams() {
    const NAME: &str = "standard_streams";
    if let Some(kind) = is_child(NAME) {
        let copy = || {
            let (mut buffer, mut input, mut output) =
                ([0; 64], umcg::io::stdin(), umcg::io::stdout());
            loop {
                match input.read(&mut buffer).unwrap() {
                    0 => break,
                    count => output.write_all(&buffer[..count]).unwrap(),
                }
            }
            umcg::io::stderr().write_all(b"done\n").unwrap();
        };
        on(&runtime(kind, 1), copy).join().unwrap();
        std::process::exit(0);
    }
    for kind in drivers() {
        let mut child = child(NAME, kind);
        let mut to = child.stdin.take().unwrap();
        for _ in 0..3 {
            to.write_all(b"line\n").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(to);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .ends_with("line\nline\nline\n")
        );
    }
}

/// In a process of its own: prints each line of its input, and when others have run since.
fn say_lines(kind: DriverKind) {
    /// After this many turns of the neighbour's the reader has got to its wait.
    const TURNS: usize = 3;
    let say = |text: String| {
        umcg::io::stdout()
            .write_all(format!("\n{text}\n").as_bytes())
            .unwrap()
    };
    let (answers, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (answered, over) = (answers.clone(), is_over.clone());
    let runtime = runtime(kind, 1);
    let neighbour = on(&runtime, move || {
        let (mut last, mut turns) = (0, 0);
        while over.load(Relaxed) == 0 {
            umcg::sleep(Duration::from_micros(100));
            let answers = answered.load(Relaxed);
            turns = if answers == last { turns + 1 } else { 1 };
            last = answers;
            if turns == TURNS {
                say(format!("ran after {answers}"));
            }
        }
    });
    let reads = move || {
        let mut lines = umcg::io::stdin().lines();
        for line in lines.by_ref() {
            say(line.map_or_else(
                |error| format!("<{:?}>", error.kind()),
                |line| format!("<{line}>"),
            ));
            answers.fetch_add(1, Relaxed);
        }
        // The end stays the end.
        assert!(lines.next().is_none());
    };
    on(&runtime, reads).join().unwrap();
    is_over.store(1, Relaxed);
    neighbour.join().unwrap();
    std::process::exit(0);
}

/// Each line comes as soon as it has ended, and others run while one waits for it: the next piece
/// of input is written once they have.
#[test]
fn lines_of_standard_input() {
    const NAME: &str = "lines_of_standard_input";
    if let Some(kind) = is_child(NAME) {
        say_lines(kind);
    }
    for kind in drivers() {
        let mut child = child(NAME, kind);
        let mut to = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (pass_on, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| pass_on.send(line))
        });
        let expect = |text: &str| {
            // The lines that the test runner prints come before.
            while said
                .recv_timeout(IN_TIME)
                .unwrap_or_else(|error| panic!("{kind}: no `{text}`: {error}"))
                != text
            {}
        };
        let pieces: [(&[u8], Option<&str>); 6] = [
            (b"one\n", Some("<one>")),
            (b"tw", None),
            (b"o\r\n", Some("<two>")),
            (b"\n", Some("<>")),
            (b"\xff\n", Some("<InvalidData>")),
            (b"without an end", None),
        ];
        let mut answers = 0;
        expect("ran after 0");
        for (piece, answer) in pieces {
            to.write_all(piece).unwrap();
            if let Some(answer) = answer {
                expect(answer);
                answers += 1;
                expect(&format!("ran after {answers}"));
            }
            // The next piece is read on its own.
            let began = std::time::Instant::now();
            while rustix::io::ioctl_fionread(&to).unwrap() > 0 {
                assert!(began.elapsed() < IN_TIME, "{kind}: it is not read");
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        drop(to);
        expect("<without an end>");
        assert!(child.wait().unwrap().success());
    }
}
