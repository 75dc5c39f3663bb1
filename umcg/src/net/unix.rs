//! Unix sockets.

use super::socket::{self, common, connected, descriptor, stream};
use super::split::{self, Duplex, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::io::driver::source::Direction;
use crate::io::fd::Fd;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrAny, SocketAddrUnix, SocketType};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
pub use std::os::unix::net::SocketAddr;
use std::path::Path;

const BACKLOG: i32 = 4096;

/// A connection between two sockets of this machine.
#[derive(Debug)]
pub struct UnixStream {
    fd: Fd,
}

/// A listening Unix socket.
#[derive(Debug)]
pub struct UnixListener {
    fd: Fd,
}

/// A Unix socket for messages.
#[derive(Debug)]
pub struct UnixDatagram {
    fd: Fd,
}

/// The connections that a listener accepts; never ends.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
}

/// Converts std's address to the kernel's.
fn to_raw(address: &SocketAddr) -> io::Result<SocketAddrUnix> {
    Ok(match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (None, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
        (None, None) => SocketAddrUnix::new_unnamed(),
    })
}

/// Converts the kernel's address to std's.
fn from_raw(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    // If there are no bytes after the family, the socket is unnamed. rustix would make it an
    // abstract name of no bytes.
    let named =
        address.filter(|address| address.addr_len() as usize > size_of::<libc::sa_family_t>());
    let Some(address) = named.map(SocketAddrUnix::try_from).transpose()? else {
        return SocketAddr::from_pathname("");
    };
    match (address.path_bytes(), address.abstract_name()) {
        (Some(path), _) => SocketAddr::from_pathname(OsStr::from_bytes(path)),
        (None, Some(name)) => SocketAddr::from_abstract_name(name),
        (None, None) => SocketAddr::from_pathname(""),
    }
}

fn bound(kind: SocketType, address: &SocketAddr) -> io::Result<Fd> {
    let fd = socket::open(AddressFamily::UNIX, kind)?;
    rustix::net::bind(fd.as_fd(), &to_raw(address)?)?;
    Ok(fd)
}

impl split::sealed::Sealed for UnixStream {}

impl Duplex for UnixStream {
    fn shutdown(&self, how: super::Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }
}

impl UnixStream {
    /// Connects to the socket at a path.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to a socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        let fd = socket::open(AddressFamily::UNIX, SocketType::STREAM)?;
        let address = to_raw(address)?;
        // EAGAIN: the listener's queue is full. The kernel offers no way to wait for that.
        fd.call_at_intervals(Direction::Write, &"connect", |fd| {
            rustix::net::connect(fd, &address)
        })?;
        Ok(UnixStream { fd })
    }

    /// Two connected sockets.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = socket::pair(SocketType::STREAM)?;
        Ok((UnixStream { fd: one }, UnixStream { fd: other }))
    }

    common!(SocketAddr, from_raw);
    connected!(SocketAddr, from_raw);

    /// The two directions, borrowed.
    pub fn split(&self) -> (ReadHalf<'_, UnixStream>, WriteHalf<'_, UnixStream>) {
        split::split(self)
    }

    /// The two directions, for two workers.
    pub fn into_split(self) -> (OwnedReadHalf<UnixStream>, OwnedWriteHalf<UnixStream>) {
        split::into_split(self)
    }

    // A short read may be due to a descriptor that was sent along, with more bytes behind it. So a
    // short read does not mean that there is no more.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(&self.fd, buffer, RecvFlags::empty())
    }

    fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        socket::send(&self.fd, buffer)
    }
}

stream!(UnixStream, &UnixStream);
descriptor!(UnixStream, std::os::unix::net::UnixStream);

impl UnixListener {
    /// Listens at a path, which must not exist yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let fd = bound(SocketType::STREAM, address)?;
        rustix::net::listen(fd.as_fd(), BACKLOG)?;
        Ok(UnixListener { fd })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// No descriptors or memory left; `TimedOut`. A connection that broke before it was accepted is
    /// skipped: the call waits for the next one.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (fd, address) = socket::accept(&self.fd)?;
        Ok((UnixStream { fd }, from_raw(address)?))
    }

    /// Connections as they come, for ever. Where no descriptors or memory are left, it waits until
    /// there are some again. So an error is one of the listener itself: it is not listening, or
    /// `TimedOut`.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    common!(SocketAddr, from_raw);
}

descriptor!(UnixListener, std::os::unix::net::UnixListener);

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(socket::accept_patiently(|| {
            self.listener.accept().map(|(stream, _)| stream)
        }))
    }
}

impl UnixDatagram {
    /// A socket at a path, which must not exist yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// A socket with an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        Ok(UnixDatagram {
            fd: bound(SocketType::DGRAM, address)?,
        })
    }

    /// A socket without an address.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Ok(UnixDatagram {
            fd: socket::open(AddressFamily::UNIX, SocketType::DGRAM)?,
        })
    }

    /// Two connected sockets.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = socket::pair(SocketType::DGRAM)?;
        Ok((UnixDatagram { fd: one }, UnixDatagram { fd: other }))
    }

    /// Sets the peer of [`UnixDatagram::send`] and [`UnixDatagram::recv`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Sets the peer, by address. Like [`UnixDatagram::connect`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        Ok(rustix::net::connect(self.as_fd(), &to_raw(address)?)?)
    }

    /// Sends a message to the socket at a path.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn send_to<P: AsRef<Path>>(&self, message: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(message, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a message to a socket.
    ///
    /// # Errors
    /// As [`UnixDatagram::send_to`].
    pub fn send_to_addr(&self, message: &[u8], address: &SocketAddr) -> io::Result<usize> {
        let address = to_raw(address)?;
        // EAGAIN: the receiver's queue is full. Only connected senders are told when it has room
        // again. Other senders are told of their own buffer. Each try fills and empties that, so
        // they would try for ever without a pause.
        self.fd.call_at_intervals(Direction::Write, &"send", |fd| {
            socket::try_send_to(fd, message, &address)
        })
    }

    /// Receives a message and its sender. The part that does not fit into the buffer is lost.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (size, from) = socket::receive_from(&self.fd, buffer, RecvFlags::empty())?;
        Ok((size, from_raw(from)?))
    }

    /// Like [`UnixDatagram::recv_from`], without taking the message.
    ///
    /// # Errors
    /// As [`UnixDatagram::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (size, from) = socket::receive_from(&self.fd, buffer, RecvFlags::PEEK)?;
        Ok((size, from_raw(from)?))
    }

    /// Sends a message to the peer.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn send(&self, message: &[u8]) -> io::Result<usize> {
        socket::send(&self.fd, message)
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(&self.fd, buffer, RecvFlags::empty())
    }

    common!(SocketAddr, from_raw);
    connected!(SocketAddr, from_raw);
}

descriptor!(UnixDatagram, std::os::unix::net::UnixDatagram);
