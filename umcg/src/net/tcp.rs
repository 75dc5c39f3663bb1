//! TCP.

use super::addr::{self, ToSocketAddrs};
use super::socket::{self, common, connected, descriptor, options, stream};
use super::split::{self, Duplex, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::io::driver::source::Direction;
use crate::io::fd::Fd;
use crate::io::wait;
use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The most connections that wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream {
    fd: Fd,
}

/// A listening TCP socket.
#[derive(Debug)]
pub struct TcpListener {
    fd: Fd,
}

/// The connections that a listener accepts; never ends.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

pub(super) fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

impl split::sealed::Sealed for TcpStream {}

impl Duplex for TcpStream {
    fn shutdown(&self, how: super::Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl TcpStream {
    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// That of the last address, or that of the look-up.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        addr::each(address, |address| {
            TcpStream::connect_one(address, wait::NEVER)
        })
    }

    /// Connects to an address, in a given time at most.
    ///
    /// # Errors
    /// `TimedOut`; `InvalidInput` if the timeout is zero; and the kernel's.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a timeout of zero",
            ));
        }
        TcpStream::connect_one(
            *address,
            wait::after(timeout.as_nanos().try_into().unwrap_or(u64::MAX)),
        )
    }

    /// Connects to an address until a deadline.
    ///
    /// # Errors
    /// As [`TcpStream::connect_timeout`].
    pub fn connect_deadline(address: &SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
        TcpStream::connect_one(*address, wait::nanos(deadline))
    }

    fn connect_one(address: SocketAddr, deadline: u64) -> io::Result<TcpStream> {
        let fd = socket::open(family(address), SocketType::STREAM)?;
        socket::connect(&fd, &address, deadline)?;
        Ok(TcpStream { fd })
    }

    common!(SocketAddr, addr::internet);
    connected!(SocketAddr, addr::internet);

    options! {
        /// Whether small writes go out at once (TCP_NODELAY).
        set_nodelay, nodelay: bool = set_tcp_nodelay, tcp_nodelay;
        /// How many routers a packet may pass.
        set_ttl, ttl: u32 = set_ip_ttl, ip_ttl;
    }

    /// The two directions, borrowed.
    pub fn split(&self) -> (ReadHalf<'_, TcpStream>, WriteHalf<'_, TcpStream>) {
        split::split(self)
    }

    /// The two directions, for two workers.
    pub fn into_split(self) -> (OwnedReadHalf<TcpStream>, OwnedWriteHalf<TcpStream>) {
        split::into_split(self)
    }

    /// Reads data and leaves it in the socket.
    ///
    /// # Errors
    /// As a read's.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(&self.fd, buffer, RecvFlags::PEEK)
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive_stream(&self.fd, buffer)
    }

    #[inline]
    fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let asked = buffer.len();
        self.fd.stream(Direction::Write, &"write", asked, |fd| {
            socket::try_send(fd, buffer)
        })
    }
}

stream!(TcpStream, &TcpStream);
descriptor!(TcpStream, std::net::TcpStream);

impl TcpListener {
    /// Listens on the first address that is available.
    ///
    /// # Errors
    /// That of the last address, or that of the look-up.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        addr::each(address, |address| {
            let fd = socket::open(family(address), SocketType::STREAM)?;
            // As in std: a server that starts again does not wait until its former connections are
            // forgotten.
            sockopt::set_socket_reuseaddr(fd.as_fd(), true)?;
            rustix::net::bind(fd.as_fd(), &address)?;
            rustix::net::listen(fd.as_fd(), BACKLOG)?;
            Ok(TcpListener { fd })
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// No descriptors or memory left; `TimedOut`. A connection that broke before it was accepted is
    /// skipped: the call waits for the next one.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, address) = socket::accept(&self.fd)?;
        Ok((TcpStream { fd }, addr::internet(address)?))
    }

    /// Connections as they come, for ever. Where no descriptors or memory are left, it waits until
    /// there are some again. So an error is one of the listener itself: it is not listening, or
    /// `TimedOut`.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    common!(SocketAddr, addr::internet);

    options! {
        /// How many routers a packet may pass, for connections accepted from now on.
        set_ttl, ttl: u32 = set_ip_ttl, ip_ttl;
    }
}

descriptor!(TcpListener, std::net::TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(socket::accept_patiently(|| {
            self.listener.accept().map(|(stream, _)| stream)
        }))
    }
}

impl FusedIterator for Incoming<'_> {}
