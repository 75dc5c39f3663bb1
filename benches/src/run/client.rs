//! The client of a server: connections in one thread, each of which has one request under way,
//! always. Every answer is checked.
//!
//! It is native on both sides, and runs on the CPUs that the server leaves, if there are some.

use super::entry::Count;
use anyhow::{Context, Result, bail, ensure};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream as Connection};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The body of the page.
pub(super) const PAGE: &str = "Sixty-four bytes are all that this page has; and no one reads it";
/// When all of it takes this much longer than it should, the server is dead.
const DEAD: Duration = Duration::from_secs(20);
/// How long a server may take until it takes connections.
const START: Duration = Duration::from_secs(20);
/// Where the header of an HTTP answer ends.
const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// What comes in goes out: 64 bytes.
    Echo,
    /// The text protocol: nine times `get`, and then `set`.
    Memcached,
    /// `PING`, `SET` and `GET` in turn.
    Redis,
    /// A page of 64 bytes, by connections that are kept.
    Http,
}

/// What is sent, and what has to come back.
#[derive(Debug)]
struct Exchange {
    request: Vec<u8>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Bytes(Vec<u8>),
    /// A status line and a header, then the page.
    Page(&'static str),
}

impl Protocol {
    /// The exchanges of a connection, again and again in this order.
    fn exchanges(self, connection: usize) -> Vec<Exchange> {
        let value = format!("{connection:064}");
        let exchange = |request: String, answer: String| Exchange {
            request: request.into_bytes(),
            answer: Answer::Bytes(answer.into_bytes()),
        };
        match self {
            Self::Echo => vec![exchange(value.clone(), value)],
            Self::Memcached => {
                let set = format!("set key{connection} 0 0 64\r\n{value}\r\n");
                let found = format!("VALUE key{connection} 0 64\r\n{value}\r\nEND\r\n");
                let get = || exchange(format!("get key{connection}\r\n"), found.clone());
                let set = exchange(set, "STORED\r\n".to_owned());
                [set].into_iter().chain((0..9).map(|_| get())).collect()
            }
            Self::Redis => vec![
                exchange("PING\r\n".to_owned(), "+PONG\r\n".to_owned()),
                exchange(
                    format!("SET key{connection} {value}\r\n"),
                    "+OK\r\n".to_owned(),
                ),
                exchange(
                    format!("GET key{connection}\r\n"),
                    format!("$64\r\n{value}\r\n"),
                ),
            ],
            Self::Http => vec![Exchange {
                request: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
                answer: Answer::Page(PAGE),
            }],
        }
    }
}

impl Answer {
    /// Whether all of it is there. Refuses what does not belong to it.
    fn is_complete(&self, received: &[u8]) -> Result<bool> {
        match self {
            Self::Bytes(bytes) => {
                let is_right = bytes.starts_with(received);
                ensure!(is_right, "a wrong answer: {}", shown(received));
                Ok(bytes.len() == received.len())
            }
            Self::Page(page) => {
                let Some(head) = received
                    .windows(BLANK_LINE.len())
                    .position(|window| window == BLANK_LINE)
                else {
                    ensure!(received.len() < 4096, "a header without an end");
                    return Ok(false);
                };
                let body = &received[head + BLANK_LINE.len()..];
                let is_right =
                    received.starts_with(b"HTTP/1.1 200") && page.as_bytes().starts_with(body);
                ensure!(is_right, "a wrong answer: {}", shown(received));
                Ok(body.len() == page.len())
            }
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    format!("{:?}", text.chars().take(100).collect::<String>())
}

/// The findings.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) count: Count,
    /// Requests in the whole of the time.
    pub(super) all: u64,
}

/// A port of the loopback device that nobody listens on now.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Waits until the server takes connections; `is_gone` tells that it never will.
pub(crate) fn await_server(port: u16, is_gone: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + START;
    while let Err(error) = Connection::connect((Ipv4Addr::LOCALHOST, port)) {
        ensure!(!is_gone()?, "it ended before it served");
        let is_late = Instant::now() > deadline;
        ensure!(!is_late, "it takes no connections: {error}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Sends requests for about this long, after a warm-up of an eighth of it.
pub(super) fn load(
    protocol: Protocol,
    port: u16,
    connections: usize,
    budget: Duration,
) -> Result<Load> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let work = run(protocol, port, connections, budget);
    runtime
        .block_on(async { timeout(2 * budget + DEAD, work).await })
        .context("the server is silent")?
}

/// Shared by all connections.
#[derive(Default)]
struct State {
    answered: AtomicU64,
    is_over: AtomicBool,
}

async fn run(protocol: Protocol, port: u16, connections: usize, budget: Duration) -> Result<Load> {
    let state = Arc::new(State::default());
    let mut clients = JoinSet::new();
    for number in 0..connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        let stream = stream.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (state, exchanges) = (Arc::clone(&state), protocol.exchanges(number));
        clients.spawn(async move { talk(stream, &exchanges, &state).await });
    }
    let measured = async {
        sleep(budget / 8).await;
        // Each connection is in use before the time begins.
        while state.answered.load(Relaxed) < connections as u64 {
            sleep(Duration::from_millis(1)).await;
        }
        let (start, before) = (Instant::now(), state.answered.load(Relaxed));
        sleep(budget).await;
        while state.answered.load(Relaxed) == before {
            sleep(Duration::from_millis(1)).await;
        }
        let count = Count {
            operations: (state.answered.load(Relaxed) - before) as f64,
            seconds: start.elapsed().as_secs_f64(),
        };
        state.is_over.store(true, Relaxed);
        count
    };
    // A connection has an end before the measurement only if it fails.
    let failed = async {
        match clients.join_next().await {
            Some(Ok(Err(error))) => error,
            _ => anyhow::anyhow!("a client ended early"),
        }
    };
    let count = tokio::select! {
        biased;
        count = measured => count,
        error = failed => return Err(error),
    };
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let all = state.answered.load(Relaxed);
    Ok(Load { count, all })
}

async fn talk(mut stream: TcpStream, exchanges: &[Exchange], state: &State) -> Result<()> {
    for exchange in exchanges.iter().cycle() {
        talk_once(&mut stream, exchange).await?;
        state.answered.fetch_add(1, Relaxed);
        if state.is_over.load(Relaxed) {
            break;
        }
    }
    Ok(())
}

async fn talk_once(stream: &mut TcpStream, exchange: &Exchange) -> Result<()> {
    stream.write_all(&exchange.request).await?;
    let (mut buffer, mut length) = ([0; 8192], 0);
    while !exchange.answer.is_complete(&buffer[..length])? {
        match stream.read(&mut buffer[length..]).await {
            Ok(0) => bail!("the server closed a connection"),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("a connection"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::thread;

    /// Answers each request by this function.
    fn serve(answer: fn(&[u8]) -> Vec<u8>) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        let answer = answer(&buffer[..length]);
                        if answer.is_empty() || stream.write_all(&answer).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        port
    }

    const BUDGET: Duration = Duration::from_millis(5);

    #[test]
    fn connections_are_asked_all_the_time() {
        let port = serve(|request| request.to_vec());
        await_server(port, || Ok(false)).unwrap();
        for connections in [1, 3, 70] {
            let load = load(Protocol::Echo, port, connections, BUDGET).unwrap();
            assert!(load.count.operations > 0.0 && load.count.seconds >= 0.005);
            assert!(
                load.all as f64 >= load.count.operations + connections as f64,
                "{load:?}"
            );
        }
    }

    #[test]
    fn wrong_answers_are_errors() {
        let error = |protocol, port| format!("{:#}", load(protocol, port, 2, BUDGET).unwrap_err());
        let wrong = serve(|_| b"nonsense".to_vec());
        for protocol in [Protocol::Echo, Protocol::Memcached, Protocol::Redis] {
            assert!(error(protocol, wrong).contains("nonsense"), "{protocol:?}");
        }
        let missing = serve(|_| b"HTTP/1.1 404 Not Found\r\n\r\nT".to_vec());
        assert!(error(Protocol::Http, missing).contains("404"));
        let shuts = serve(|_| Vec::new());
        let said = error(Protocol::Echo, shuts);
        assert!(said.contains("closed") || said.contains("reset"), "{said}");
        let gone = await_server(free_port().unwrap(), || Ok(true)).unwrap_err();
        assert!(gone.to_string().contains("before it served"));
    }

    #[test]
    fn answers_may_come_in_pieces() {
        for protocol in [Protocol::Memcached, Protocol::Redis, Protocol::Http] {
            for exchange in protocol.exchanges(7) {
                let whole = match &exchange.answer {
                    Answer::Bytes(bytes) => bytes.clone(),
                    Answer::Page(page) => format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{page}").into(),
                };
                for length in 0..whole.len() {
                    let part = exchange.answer.is_complete(&whole[..length]);
                    assert!(!part.unwrap(), "{protocol:?}");
                }
                assert!(exchange.answer.is_complete(&whole).unwrap());
            }
        }
    }
}
