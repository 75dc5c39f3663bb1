//! Kernel threads, one a worker, as the standard library has them.

use super::stackful::Stackful;
use anyhow::Result;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

pub(super) struct Threads;

impl Stackful for Threads {
    type Join<T: Send + 'static> = JoinHandle<T>;
    type Handle = Thread;
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        Ok(f())
    }

    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        thread::spawn(f)
    }

    fn join<T: Send + 'static>(join: JoinHandle<T>) -> T {
        join.join().expect("a thread of the bench panicked")
    }

    fn handle<T: Send + 'static>(join: &JoinHandle<T>) -> Thread {
        join.thread().clone()
    }

    fn park() {
        thread::park();
    }

    fn unpark(handle: &Thread) {
        handle.unpark();
    }

    fn yield_now() {
        thread::yield_now();
    }

    fn sleep(nap: Duration) {
        thread::sleep(nap);
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
