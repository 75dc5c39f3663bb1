//! Sockets as workers and threads see them.

#[path = "../net_support/mod.rs"]
mod net_support;
mod unix;

use net_support::{everywhere, spawn};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use umcg::net::unix::{UnixDatagram, UnixListener, UnixStream};
use umcg::net::{
    Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};

const SHORT: Duration = Duration::from_millis(30);
/// Longer than any operation here takes that ends at all.
const IN_TIME: Duration = Duration::from_secs(60);

/// Two connected streams.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = spawn(move || TcpStream::connect(address).unwrap());
    let (accepted, peer) = listener.accept().unwrap();
    let connected = connecting.join().unwrap();
    assert_eq!(connected.local_addr().unwrap(), peer);
    (connected, accepted)
}

fn text(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

/// Answers each message of 8 bytes until the end.
fn echo(mut stream: impl Read + Write) -> usize {
    let mut message = [0; 8];
    let mut answered = 0;
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message).unwrap();
        answered += 1;
    }
    answered
}

#[test]
fn echoes_many_messages_on_many_connections() {
    everywhere(|| {
        const CONNECTIONS: u64 = 16;
        const MESSAGES: u64 = 300;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn(move || {
            let streams = listener.incoming().take(CONNECTIONS as usize);
            let answering: Vec<_> = streams
                .map(|stream| spawn(|| echo(stream.unwrap())))
                .collect();
            answering
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum::<usize>()
        });
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|client| {
                spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.set_nodelay(true).unwrap();
                    for message in 0..MESSAGES {
                        let sent = (client << 32 | message).to_ne_bytes();
                        let mut answer = [0; 8];
                        stream.write_all(&sent).unwrap();
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, sent);
                    }
                })
            })
            .collect();
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        assert_eq!(server.join().unwrap(), (CONNECTIONS * MESSAGES) as usize);
    });
}

#[test]
fn more_than_the_buffers_hold_waits_for_the_reader() {
    everywhere(|| {
        const SIZE: usize = 8 << 20;
        let (mut writer, mut reader) = pair();
        let writing = spawn(move || {
            let data: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
            writer.write_all(&data).unwrap();
        });
        umcg::sleep(Duration::from_millis(5));
        let mut data = Vec::new();
        reader.read_to_end(&mut data).unwrap();
        writing.join().unwrap();
        assert_eq!(data.len(), SIZE);
        assert!(
            data.iter()
                .enumerate()
                .all(|(at, &byte)| byte == (at % 251) as u8)
        );
    });
}

#[test]
fn a_timeout_and_a_deadline_end_a_read_and_the_stream_stays_usable() {
    everywhere(|| {
        let (mut one, mut other) = pair();
        one.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(one.read_timeout().unwrap(), Some(SHORT));
        let began = Instant::now();
        assert_eq!(
            one.read(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        assert!(began.elapsed() >= SHORT);
        one.set_read_timeout(None).unwrap();
        let deadline = Instant::now() + SHORT;
        one.set_read_deadline(Some(deadline));
        assert_eq!(
            one.read(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        assert!(Instant::now() >= deadline);
        // Bytes that are there can be read after the deadline.
        other.write_all(b"late").unwrap();
        one.set_read_deadline(None);
        let mut buffer = [0; 4];
        one.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"late");
        assert_eq!(
            one.set_read_timeout(Some(Duration::ZERO))
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
    });
}

/// The runtime may not have heard of it yet: nothing lets its servers look in between.
#[test]
fn what_is_there_can_be_read_after_the_deadline() {
    everywhere(|| {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.set_read_deadline(Some(Instant::now()));
        for round in 0..100 {
            assert_eq!(
                one.read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::TimedOut
            );
            (&other).write_all(&[round]).unwrap();
            let mut buffer = [0; 8];
            assert_eq!((one.read(&mut buffer).unwrap(), buffer[0]), (1, round));
        }
    });
}

#[test]
fn who_does_not_want_to_wait_is_told() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        // Of this kind, as bytes written to one can be read from the other at once.
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let mut copy = one.try_clone().unwrap();
        for round in 0..100 {
            assert_eq!(
                one.read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            assert_eq!(
                copy.read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            other.write_all(&[round]).unwrap();
            let mut buffer = [0; 8];
            assert_eq!((one.read(&mut buffer).unwrap(), buffer[0]), (1, round));
        }
        one.set_nonblocking(false).unwrap();
        let reading = spawn(move || text(one));
        umcg::sleep(SHORT);
        drop(other);
        assert_eq!(reading.join().unwrap(), "");
    });
}

#[test]
fn a_write_times_out_when_nobody_reads() {
    everywhere(|| {
        let (mut one, _other) = pair();
        one.set_write_timeout(Some(SHORT)).unwrap();
        let error = loop {
            if let Err(error) = one.write_all(&[0; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn several_workers_share_a_socket() {
    everywhere(|| {
        const READERS: usize = 4;
        let (writer, reader) = pair();
        let reader = Arc::new(reader);
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let reader = reader.clone();
                spawn(move || {
                    let (mut buffer, mut count) = ([0; 64], 0);
                    loop {
                        match (&*reader).read(&mut buffer).unwrap() {
                            0 => break count,
                            some => count += some,
                        }
                    }
                })
            })
            .collect();
        let writing = spawn(move || {
            for _ in 0..200 {
                (&writer).write_all(&[1; 100]).unwrap();
                umcg::yield_now();
            }
        });
        writing.join().unwrap();
        let read: usize = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        assert_eq!(read, 200 * 100);
    });
}

#[test]
fn both_directions_at_once_by_two_workers() {
    everywhere(|| {
        let (one, other) = pair();
        let echoing = spawn(move || echo(other));
        let (mut reading, mut writing) = one.into_split();
        let writer = spawn(move || {
            for message in 0..500_u64 {
                writing.write_all(&message.to_ne_bytes()).unwrap();
            }
            writing // dropped by the joiner: the peer sees the end
        });
        for message in 0..500_u64 {
            let mut answer = [0; 8];
            reading.read_exact(&mut answer).unwrap();
            assert_eq!(u64::from_ne_bytes(answer), message);
        }
        let writing = writer.join().unwrap();
        drop(writing);
        assert_eq!(echoing.join().unwrap(), 500);
        assert_eq!(text(reading), "");
    });
}

#[test]
fn halves_come_together_again() {
    everywhere(|| {
        let (one, other) = pair();
        let (first, second) = pair();
        let (reading, writing) = one.into_split();
        let (reading_first, writing_first) = first.into_split();
        let error = reading.reunite(writing_first).unwrap_err();
        let mut one = error.0.reunite(writing).unwrap();
        drop((reading_first, error.1));
        one.write_all(b"whole").unwrap();
        drop(one);
        assert_eq!((text(other), text(second)), ("whole".into(), "".into()));
    });
}

#[test]
fn a_shutdown_wakes_who_reads() {
    everywhere(|| {
        let (one, _other) = pair();
        let one = Arc::new(one);
        let reader = one.clone();
        let reading = spawn(move || (&*reader).read(&mut [0; 8]));
        umcg::sleep(SHORT);
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reading.join().unwrap().unwrap(), 0);
        assert_eq!(
            (&*one).write(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    });
}

#[test]
fn an_end_after_a_short_read_is_seen() {
    everywhere(|| {
        let (mut one, mut other) = pair();
        let mut buffer = [0; 64];
        for round in 0..100 {
            one.write_all(&[round; 3]).unwrap();
            assert_eq!(other.read(&mut buffer).unwrap(), 3);
        }
        one.write_all(b"bye").unwrap();
        drop(one);
        assert_eq!(other.read(&mut buffer).unwrap(), 3);
        assert_eq!(other.read(&mut buffer).unwrap(), 0);
        assert_eq!(other.read(&mut buffer).unwrap(), 0);
    });
}

#[test]
fn urgent_data_does_not_stop_the_stream() {
    everywhere(|| {
        let (one, mut other) = pair();
        let reading = spawn(move || {
            let (mut count, mut buffer) = (0, [0; 512]);
            loop {
                match other.read(&mut buffer).unwrap() {
                    0 => break count,
                    some => count += some,
                }
            }
        });
        for _ in 0..50 {
            (&one).write_all(b"before").unwrap();
            rustix::net::send(&one, b"!", rustix::net::SendFlags::OOB).unwrap();
            (&one).write_all(b"after").unwrap();
        }
        drop(one);
        assert!(reading.join().unwrap() >= 50 * 11);
    });
}

#[test]
fn connecting_fails_where_nobody_listens_and_goes_on_to_the_next_address() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        // Bound, so that no other program gets the port, but not listening.
        let silent = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        rustix::net::bind(&silent, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        let nobody = SocketAddr::try_from(rustix::net::getsockname(&silent).unwrap()).unwrap();
        assert_eq!(
            TcpStream::connect(nobody).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        let stream = TcpStream::connect([nobody, listening].as_slice()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listening);
        let none: &[SocketAddr] = &[];
        assert_eq!(
            TcpStream::connect(none).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let stream = TcpStream::connect_timeout(&listening, IN_TIME).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listening);
        assert_eq!(
            TcpStream::connect_timeout(&listening, Duration::ZERO)
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn an_accept_times_out() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
        listener.set_read_timeout(Some(IN_TIME)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1, stream.local_addr().unwrap());
    });
}

#[test]
fn options_peeks_and_vectors() {
    everywhere(|| {
        let (mut one, mut other) = pair();
        one.set_nodelay(true).unwrap();
        assert!(one.nodelay().unwrap());
        one.set_ttl(17).unwrap();
        assert_eq!(one.ttl().unwrap(), 17);
        assert!(one.take_error().unwrap().is_none());
        assert_eq!(
            one.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")])
                .unwrap(),
            4
        );
        let mut buffer = [0; 4];
        while other.peek(&mut buffer).unwrap() < 4 {}
        let (mut first, mut second) = ([0; 1], [0; 3]);
        assert_eq!(
            other
                .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])
                .unwrap(),
            4
        );
        assert_eq!((&buffer, &first, &second), (b"abcd", b"a", b"bcd"));
        let (mut reading, mut writing) = one.split();
        writing.write_all(b"x").unwrap();
        other.read_exact(&mut first).unwrap();
        other.write_all(b"y").unwrap();
        reading.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"y");
    });
}

#[test]
fn clones_and_conversions_keep_the_connection() {
    everywhere(|| {
        let (one, other) = pair();
        let mut copy = other.try_clone().unwrap();
        let waiting = spawn(move || {
            let mut buffer = [0; 2];
            copy.read_exact(&mut buffer).unwrap();
            (copy, buffer)
        });
        umcg::sleep(SHORT);
        // The first value goes while the second one waits.
        drop(other);
        let fd: OwnedFd = one.into();
        let mut one = std::net::TcpStream::from(fd);
        one.write_all(b"hi").unwrap();
        let (mut copy, buffer) = waiting.join().unwrap();
        assert_eq!(&buffer, b"hi");
        one.set_nonblocking(false).unwrap();
        let mut one = TcpStream::from(one);
        copy.write_all(b"ho").unwrap();
        let mut buffer = [0; 2];
        one.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"ho");
        assert!(one.as_raw_fd() >= 0);
    });
}

#[test]
fn datagrams() {
    everywhere(|| {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, from) = (other.local_addr().unwrap(), one.local_addr().unwrap());
        let receiving = spawn(move || {
            let mut buffer = [0; 16];
            let got: Vec<_> = (0..3)
                .map(|_| {
                    let (size, from) = other.recv_from(&mut buffer).unwrap();
                    (buffer[..size].to_vec(), from)
                })
                .collect();
            (other, got)
        });
        umcg::sleep(Duration::from_millis(2));
        for message in [b"a".as_slice(), b"", b"ccc"] {
            assert_eq!(one.send_to(message, to).unwrap(), message.len());
        }
        let (other, got) = receiving.join().unwrap();
        assert_eq!(
            got,
            [
                (b"a".to_vec(), from),
                (vec![], from),
                (b"ccc".to_vec(), from)
            ]
        );
        one.connect(to).unwrap();
        one.send(b"connected").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(other.peek_from(&mut buffer).unwrap(), (9, from));
        assert_eq!(other.recv(&mut buffer).unwrap(), 9);
        other.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(
            other.recv(&mut buffer).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        one.set_broadcast(true).unwrap();
        assert!(one.broadcast().unwrap());
        assert_eq!(one.peer_addr().unwrap(), to);
    });
}

#[test]
fn groups_and_their_options() {
    everywhere(|| {
        let (group, here) = (Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::LOCALHOST);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_ttl(18).unwrap();
        socket.set_multicast_ttl_v4(19).unwrap();
        socket.set_multicast_loop_v4(false).unwrap();
        assert_eq!(
            (socket.ttl().unwrap(), socket.multicast_ttl_v4().unwrap()),
            (18, 19)
        );
        assert!(
            !socket.multicast_loop_v4().unwrap() && socket.local_addr().unwrap().ip().is_loopback()
        );
        socket.join_multicast_v4(&group, &here).unwrap();
        assert_eq!(
            socket.join_multicast_v4(&group, &here).unwrap_err().kind(),
            ErrorKind::AddrInUse
        );
        socket.leave_multicast_v4(&group, &here).unwrap();
        assert_eq!(
            socket.leave_multicast_v4(&group, &here).unwrap_err().kind(),
            ErrorKind::AddrNotAvailable
        );
        // Not every machine has IPv6.
        if let Ok(socket) = UdpSocket::bind("[::1]:0") {
            socket.set_multicast_loop_v6(false).unwrap();
            assert!(!socket.multicast_loop_v6().unwrap());
            let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
            assert_eq!(
                socket.leave_multicast_v6(&group, 1).unwrap_err().kind(),
                ErrorKind::AddrNotAvailable
            );
        }
    });
}

#[test]
fn more_buffers_than_the_kernel_takes_at_once() {
    everywhere(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(
            one.write_vectored(&[IoSlice::new(b"x"); 2_000]).unwrap(),
            1_024
        );
        let mut bytes = [0; 2_000];
        let mut buffers: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
        assert_eq!(other.read_vectored(&mut buffers).unwrap(), 1_024);
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'x').count(), 1_024);
    });
}

#[test]
fn nobody_there_for_a_datagram_is_an_error_of_the_next_call_only() {
    everywhere(|| {
        // Connected elsewhere, a socket takes nothing from us; and while it is there no other
        // program gets its port.
        let [elsewhere, deaf, socket] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        deaf.connect(elsewhere.local_addr().unwrap()).unwrap();
        let nobody = deaf.local_addr().unwrap();
        socket.connect(nobody).unwrap();
        socket.set_read_timeout(Some(IN_TIME)).unwrap();
        socket.send(b"?").unwrap();
        assert_eq!(
            socket.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        socket.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(
            socket.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
    });
}

#[test]
fn names_are_looked_up() {
    everywhere(|| {
        let found: Vec<_> = "localhost:80".to_socket_addrs().unwrap().collect();
        assert!(
            found
                .iter()
                .any(|address| address.ip().is_loopback() && address.port() == 80),
            "{found:?}"
        );
        assert_eq!(
            "[::1]:9".to_socket_addrs().unwrap().collect::<Vec<_>>(),
            ["[::1]:9".parse().unwrap()]
        );
        assert!("no port".to_socket_addrs().is_err());
    });
}

#[test]
fn what_is_closed_leaves_nothing_behind() {
    const NAME: &str = "what_is_closed_leaves_nothing_behind";
    if std::env::var_os("UMCG_NET_ALONE").is_none() {
        // Other tests of this process have descriptors that come and go.
        let this = std::env::current_exe().unwrap();
        let status = std::process::Command::new(this)
            .args(["--exact", NAME])
            .env("UMCG_NET_ALONE", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    everywhere(|| {
        // The driver's own descriptors are there after the first round, whose wait is not over
        // before it begins.
        let mut before = 0;
        for round in 0..20 {
            let (mut one, mut other) = pair();
            let micros = if round == 0 { 100_000 } else { 10 };
            one.set_read_timeout(Some(Duration::from_micros(micros)))
                .unwrap();
            assert_eq!(
                one.read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::TimedOut
            );
            other.write_all(b"x").unwrap();
            drop((one, other));
            match round {
                0 => before = net_support::descriptors(),
                _ => assert_eq!(net_support::descriptors(), before),
            }
        }
    });
}

/// In a process of its own, for it changes the limit.
#[test]
fn no_descriptors_left_is_an_error() {
    const NAME: &str = "no_descriptors_left_is_an_error";
    if std::env::var_os("UMCG_NET_LIMITED").is_none() {
        let this = std::env::current_exe().unwrap();
        let status = std::process::Command::new(this)
            .args(["--exact", NAME])
            .env("UMCG_NET_LIMITED", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut one, mut other) = pair();
        let limit = net_support::descriptors() as u64 + 20;
        let old = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let lowered = rustix::process::Rlimit {
            current: Some(limit),
            maximum: old.maximum,
        };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, lowered).unwrap();
        let mut streams = Vec::new();
        let error = loop {
            match TcpStream::connect(address)
                .and_then(|stream| listener.accept().map(|(accepted, _)| (stream, accepted)))
            {
                Ok(both) => streams.push(both),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc_emfile()));
        // Sockets that are there go on working.
        one.write_all(b"still").unwrap();
        other.read_exact(&mut [0; 5]).unwrap();
        drop(streams);
        TcpStream::connect(address).unwrap();
        rustix::process::setrlimit(rustix::process::Resource::Nofile, old).unwrap();
    });
}

fn libc_emfile() -> i32 {
    rustix::io::Errno::MFILE.raw_os_error()
}

#[test]
fn errors_are_std_s() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let again: io::Result<TcpListener> = TcpListener::bind(listener.local_addr().unwrap());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(
            UnixStream::connect("/nowhere/at/all").unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}
