//! Sockets of the machine's own: streams, listeners and datagrams.

use super::*;

#[test]
fn unix_streams_and_listeners() {
    everywhere(|| {
        let name = format!("umcg-net-{}-{:p}", std::process::id(), &SHORT);
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let client = spawn(move || {
            let mut stream = UnixStream::connect_addr(&address).unwrap();
            stream.write_all(&7_u64.to_ne_bytes()).unwrap();
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).unwrap();
            assert!(stream.peer_addr().unwrap().as_abstract_name().is_some());
            u64::from_ne_bytes(answer)
        });
        let (stream, peer) = listener.accept().unwrap();
        assert!(peer.is_unnamed());
        assert_eq!(echo(stream), 1);
        assert_eq!(client.join().unwrap(), 7);
        let (one, other) = UnixStream::pair().unwrap();
        let echoing = spawn(move || echo(other));
        for message in 0..200_u64 {
            (&one).write_all(&message.to_ne_bytes()).unwrap();
            let mut answer = [0; 8];
            (&one).read_exact(&mut answer).unwrap();
            assert_eq!(u64::from_ne_bytes(answer), message);
        }
        drop(one);
        assert_eq!(echoing.join().unwrap(), 200);
    });
}

#[test]
fn unix_datagrams() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let receiving = spawn(move || {
            let mut buffer = [0; 16];
            let size = other.recv(&mut buffer).unwrap();
            buffer[..size].to_vec()
        });
        one.send(b"message").unwrap();
        assert_eq!(receiving.join().unwrap(), b"message");
        let folder = tempfile("datagrams");
        let bound = UnixDatagram::bind(folder.join("a")).unwrap();
        assert_eq!(
            bound.local_addr().unwrap().as_pathname(),
            Some(folder.join("a").as_path())
        );
        UnixDatagram::unbound()
            .unwrap()
            .send_to(b"x", folder.join("a"))
            .unwrap();
        let (size, from) = bound.recv_from(&mut [0; 4]).unwrap();
        assert!(size == 1 && from.is_unnamed());
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn a_datagram_waits_for_a_receiver_that_others_have_filled() {
    everywhere(|| {
        let folder = tempfile("full");
        let path = folder.join("receiver");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let filler = UnixDatagram::unbound().unwrap();
        filler.set_nonblocking(true).unwrap();
        let mut filled = 0;
        let full = loop {
            match filler.send_to(b"filler", &path) {
                Ok(_) => filled += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(SHORT)).unwrap();
        let began = Instant::now();
        assert_eq!(
            sender.send_to(b"late", &path).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        assert!(began.elapsed() >= SHORT);
        sender.set_write_timeout(Some(IN_TIME)).unwrap();
        let sending = spawn(move || sender.send_to(b"last", &path).unwrap());
        umcg::sleep(Duration::from_millis(2));
        let mut buffer = [0; 8];
        for _ in 0..filled {
            assert_eq!(receiver.recv(&mut buffer).unwrap(), 6);
        }
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 4);
        assert_eq!(sending.join().unwrap(), 4);
        std::fs::remove_dir_all(folder).unwrap();
    });
}

/// A new folder.
fn tempfile(name: &str) -> std::path::PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("umcg-{name}-{}-{next}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_full_queue_of_a_unix_listener_delays_the_connect() {
    everywhere(|| {
        let (folder, address) = (tempfile("queue"), "listener");
        let std_listener = std::os::unix::net::UnixListener::bind(folder.join(address)).unwrap();
        rustix::net::listen(&std_listener, 1).unwrap();
        let listener = UnixListener::from(std_listener);
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let path = folder.join(address);
                spawn(move || text(UnixStream::connect(path).unwrap()))
            })
            .collect();
        for _ in 0..8 {
            umcg::sleep(Duration::from_millis(1));
            listener.accept().unwrap().0.write_all(b"served").unwrap();
        }
        listener.set_nonblocking(true).unwrap();
        assert!(
            (&listener)
                .into_iter()
                .take(2)
                .all(|none| none.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        );
        assert!(
            clients
                .into_iter()
                .all(|client| client.join().unwrap() == "served")
        );
        std::fs::remove_dir_all(folder).unwrap();
    });
}
