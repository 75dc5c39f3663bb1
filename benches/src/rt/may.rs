//! The crate may: stackful coroutines on a pool of threads.

use super::stackful::Stackful;
use anyhow::{Result, anyhow};
use may::coroutine::{self, Coroutine, JoinHandle};
use may::net::{TcpListener, TcpStream};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

/// There is one runtime in a process, which starts by itself.
pub(super) struct May;

impl May {
    pub(super) fn start(servers: usize) -> Self {
        may::config().set_workers(servers);
        Self
    }
}

impl Stackful for May {
    type Join<T: Send + 'static> = JoinHandle<T>;
    type Handle = Coroutine;
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        Self::spawn(f).join().map_err(|_| anyhow!("a coroutine panicked"))
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // SAFETY: what may asks for: nothing here keeps thread-local storage across a switch, and stacks are not used up.
        unsafe { coroutine::spawn(f) }
    }

    fn join<T: Send + 'static>(join: JoinHandle<T>) -> T {
        join.join().expect("a coroutine of the bench panicked")
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Coroutine {
        join.coroutine().clone()
    }

    fn park() {
        coroutine::park();
    }

    fn unpark(handle: &Coroutine) {
        handle.unpark();
    }

    fn yield_now() {
        coroutine::yield_now();
    }

    fn sleep(nap: Duration) {
        coroutine::sleep(nap);
    }

    fn listen() -> io::Result<(TcpListener, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    }

    fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        Ok(listener.accept()?.0)
    }
}
