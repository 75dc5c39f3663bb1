//! A TCP proxy: two workers a connection, one for each direction.
//!
//! When one side has finished sending, the other is told so and may still answer: each direction
//! ends by itself. When a direction fails, both do.
//!
//! Without arguments it tries itself: clients send a text through the proxy, finish sending, and
//! only then get it back, in capitals.
//!
//! Run it: `cargo run --release -p umcg --example tcp_proxy`, or
//! `… --example tcp_proxy LISTEN:PORT TARGET:PORT` to serve until it is interrupted

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use umcg::net::{TcpListener, TcpStream};

const CLIENTS: usize = 20;

/// Copies one direction until its end, and passes the end on.
fn pump(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<u64> {
    let copied = io::copy(&mut from, &mut to);
    match copied {
        // Half-close: `to` reads the end, and the opposite direction stays as it is.
        Ok(_) => to.shutdown(Shutdown::Write)?,
        // The connection is of no use any more. Waiters for either side go on, in the other
        // worker too.
        Err(_) => {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        }
    }
    copied
}

/// A connection's life: both streams are closed when both directions are over.
fn relay(client: TcpStream, target: SocketAddr) -> io::Result<(u64, u64)> {
    let server = TcpStream::connect_timeout(&target, Duration::from_secs(10))?;
    umcg::scope(|scope| {
        let up = scope.spawn(|| pump(&client, &server));
        let down = pump(&server, &client);
        Ok((up.join().expect("no panic in a pump")?, down?))
    })
}

fn proxy(listener: &TcpListener, target: SocketAddr) -> io::Result<()> {
    for client in listener.incoming() {
        let client = client?;
        let peer = client
            .peer_addr()
            .map_or("somebody".into(), |peer| peer.to_string());
        umcg::spawn(move || match relay(client, target) {
            Ok((up, down)) => println!("{peer}: {up} bytes up, {down} bytes down"),
            Err(error) => eprintln!("{peer}: {error}"),
        });
    }
    Ok(())
}

/// Answers each connection when its client has finished sending.
fn shout(listener: &TcpListener) -> io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = stream?;
        umcg::spawn(move || {
            let mut text = String::new();
            stream
                .read_to_string(&mut text)
                .and_then(|_| stream.write_all(text.to_uppercase().as_bytes()))
        });
    }
    Ok(())
}

fn ask(proxy: SocketAddr, text: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> io::Result<()> {
    let addresses: Vec<SocketAddr> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("ADDRESS:PORT"))
        .collect();
    if let &[listen, target] = addresses.as_slice() {
        return proxy(&TcpListener::bind(listen)?, target);
    }
    let any = "127.0.0.1:0";
    let (back, front) = (TcpListener::bind(any)?, TcpListener::bind(any)?);
    let (target, address) = (back.local_addr()?, front.local_addr()?);
    let servers = [
        umcg::spawn(move || shout(&back)),
        umcg::spawn(move || proxy(&front, target)),
    ];
    let ask = move |index| {
        // More than the sockets' buffers hold, for some.
        let text = format!("client {index} ").repeat(1 + index * 2_000);
        let answer = ask(address, &text)?;
        assert!(
            answer == text.to_uppercase(),
            "client {index} got something else"
        );
        io::Result::Ok(())
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|index| umcg::spawn(move || ask(index)))
        .collect();
    clients
        .into_iter()
        .try_for_each(|client| client.join().expect("no client panics"))?;
    servers.iter().for_each(umcg::JoinHandle::abort);
    println!("{CLIENTS} clients were answered after they had finished sending");
    Ok(())
}
