//! An echo server with a worker for each connection, written as if each were a thread.
//!
//! Without an address it serves itself, over loopback: so many connections, each a worker too, with
//! so many requests each.
//!
//! Run it: `cargo run --release -p umcg --example echo [connections] [requests]`, or
//! `… --example echo ADDRESS:PORT` to serve until it is interrupted

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use umcg::net::{TcpListener, TcpStream};

/// Sends back all that comes, until the peer has finished sending.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096]; // on the worker's stack, of 256 KiB
    loop {
        // The worker is parked here as long as nothing comes; its server runs others.
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Accepts for ever: until somebody aborts the worker.
fn serve(listener: &TcpListener) -> io::Result<()> {
    // Connections that broke are passed over; where no descriptor is left it waits for one.
    for stream in listener.incoming() {
        let stream = stream?;
        umcg::spawn(move || {
            if let Err(error) = echo(stream) {
                eprintln!("a connection ended: {error}");
            }
        }); // the handle is dropped: nobody waits for this worker
    }
    Ok(())
}

/// One connection's requests. Returns the longest that one took.
fn ask(server: SocketAddr, requests: u32) -> io::Result<Duration> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut longest = Duration::ZERO;
    for request in 0..requests {
        let (begin, sent, mut answer) = (Instant::now(), request.to_ne_bytes().repeat(16), [0; 64]);
        stream.write_all(&sent)?;
        stream.read_exact(&mut answer)?;
        assert!(sent == answer, "request {request} came back changed");
        longest = longest.max(begin.elapsed());
    }
    Ok(longest)
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(address) = arguments.first().filter(|argument| argument.contains(':')) {
        return serve(&TcpListener::bind(address.as_str())?);
    }
    let number = |index: usize, default| {
        arguments
            .get(index)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (connections, requests) = (number(0, 50), number(1, 100));

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = umcg::spawn(move || serve(&listener));
    let begin = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|_| umcg::spawn(move || ask(address, requests)))
        .collect();
    let mut longest = Duration::ZERO;
    for client in clients {
        longest = longest.max(client.join().expect("no client panics")?);
    }
    let elapsed = begin.elapsed();
    // The server waits for another connection: this ends the wait, and it unwinds, which closes the
    // listener.
    server.abort();
    assert!(
        matches!(server.join(), Err(umcg::JoinError::Cancelled)),
        "the server ended by itself"
    );
    let rate = f64::from(connections * requests) / elapsed.as_secs_f64();
    println!(
        "{connections} connections, {requests} requests each: {rate:.0} requests a second, the \
         longest took {longest:.1?}"
    );
    Ok(())
}
