//! Common parts of all sockets: system calls on an [`Fd`], and the traits around descriptors.

use crate::io::driver::source::Direction::{Read, Write};
use crate::io::fd::Fd;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny,
};
use rustix::net::{SocketFlags, SocketType, sockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// No signal when the peer is gone, and no wait in the kernel, whatever other programs do to the
/// descriptor.
const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
const RECV: RecvFlags = RecvFlags::DONTWAIT;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// How many buffers the kernel takes at once; more is an error, not a short read or write.
const BUFFERS: usize = 1024;

/// A new socket.
pub(super) fn open(family: AddressFamily, kind: SocketType) -> io::Result<Fd> {
    Ok(Fd::new(rustix::net::socket_with(
        family, kind, FLAGS, None,
    )?))
}

/// Two connected Unix sockets.
pub(super) fn pair(kind: SocketType) -> io::Result<(Fd, Fd)> {
    let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
    Ok((Fd::new(one), Fd::new(other)))
}

/// Accepts the next connection that is not broken.
pub(super) fn accept(fd: &Fd) -> io::Result<(Fd, Option<SocketAddrAny>)> {
    let mut accept = unbroken(|| rustix::net::acceptfrom_with(fd.as_fd(), FLAGS));
    let (accepted, address) = fd.call(Read, &"accept", |_| accept())?;
    Ok((Fd::new(accepted), address))
}

/// A call of accept(2) that passes over connections which broke before they were accepted.
#[doc(hidden)]
pub fn unbroken<R>(
    mut accept: impl FnMut() -> Result<R, Errno>,
) -> impl FnMut() -> Result<R, Errno> {
    /// How many connections may be broken. Beyond that the listener is the cause.
    const BROKEN: u32 = 1000;
    let mut broken = 0;
    move || loop {
        match accept() {
            Err(error) if is_broken_connection(error) && broken < BROKEN => broken += 1,
            result => return result,
        }
    }
}

/// Whether an error of accept(2) is about the connection, so that the next one may be intact. Linux
/// passes on the network's errors for it.
fn is_broken_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
    )
}

/// Whether the error may go away once other code has given something back.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Calls `accept` until it returns a connection, or an error that does not go away with time. Where
/// descriptors or memory are short it waits, ever longer, until some are free again.
pub(super) fn accept_patiently<T>(mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut pause = Duration::from_millis(1);
    loop {
        match accept() {
            Err(error) if is_shortage(&error) => {
                crate::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            result => return result,
        }
    }
}

/// Connects; waits for it until `deadline`.
pub(super) fn connect(fd: &Fd, address: &impl SocketAddrArg, deadline: u64) -> io::Result<()> {
    match rustix::net::connect(fd, address) {
        Ok(()) => return Ok(()),
        // If a signal interrupts a connect, the connect goes on by itself.
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    // One registration for reading and writing later. Whether it was in time is seen below.
    fd.wait(&[Write, Read], &"connect", deadline)?;
    // In the calls below EAGAIN would be a refusal like others. Only "not connected" means that
    // this was woken without a reason.
    let outcome = fd.call_until(Write, &"connect", deadline, |fd| match outcome(fd) {
        Err(Errno::NOTCONN) => Err(Errno::AGAIN),
        outcome => Ok(outcome),
    })?;
    Ok(outcome?)
}

/// Whether the socket is connected, or why not.
fn outcome(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    sockopt::socket_error(fd)??;
    rustix::net::getpeername(fd).map(drop)
}

/// Reads the data that is there, or a message.
pub(super) fn receive(fd: &Fd, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    fd.call(Read, &"read", |fd| {
        rustix::net::recv(fd, &mut *buffer, RECV | flags).map(|(done, _)| done)
    })
}

/// Like [`receive`], for a byte stream in which only the end or urgent data makes a read short.
#[inline]
pub(super) fn receive_stream(fd: &Fd, buffer: &mut [u8]) -> io::Result<usize> {
    let asked = buffer.len();
    fd.stream(Read, &"read", asked, |fd| {
        rustix::net::recv(fd, &mut *buffer, RECV).map(|(done, _)| done)
    })
}

pub(super) fn receive_vectored(fd: &Fd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let count = buffers.len().min(BUFFERS);
    fd.call(Read, &"read", |fd| {
        let received = rustix::net::recvmsg(
            fd,
            &mut buffers[..count],
            &mut RecvAncillaryBuffer::default(),
            RECV,
        )?;
        Ok(received.bytes)
    })
}

pub(super) fn receive_from(
    fd: &Fd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Option<SocketAddrAny>)> {
    fd.call(Read, &"recv", |fd| {
        rustix::net::recvfrom(fd, &mut *buffer, RECV | flags).map(|(done, _, from)| (done, from))
    })
}

/// One system call.
#[inline]
pub(super) fn try_send(fd: BorrowedFd<'_>, buffer: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(fd, buffer, SEND)
}

pub(super) fn send(fd: &Fd, buffer: &[u8]) -> io::Result<usize> {
    fd.call(Write, &"write", |fd| try_send(fd, buffer))
}

pub(super) fn send_vectored(fd: &Fd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let buffers = &buffers[..buffers.len().min(BUFFERS)];
    fd.call(Write, &"write", |fd| {
        rustix::net::sendmsg(fd, buffers, &mut SendAncillaryBuffer::default(), SEND)
    })
}

pub(super) fn send_to(fd: &Fd, buffer: &[u8], to: &impl SocketAddrArg) -> io::Result<usize> {
    fd.call(Write, &"send", |fd| try_send_to(fd, buffer, to))
}

/// One system call.
pub(super) fn try_send_to(
    fd: BorrowedFd<'_>,
    buffer: &[u8],
    to: &impl SocketAddrArg,
) -> Result<usize, Errno> {
    rustix::net::sendto(fd, buffer, SEND, to)
}

pub(super) fn shutdown(fd: &Fd, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    Ok(rustix::net::shutdown(fd.as_fd(), how)?)
}

/// The socket's pending error. Reading it clears it.
pub(super) fn take_error(fd: &Fd) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd.as_fd())?
        .err()
        .map(io::Error::from))
}

/// Takes a descriptor. The caller vouches for its kind.
pub(super) fn adopt(fd: OwnedFd) -> Fd {
    Fd::adopt(fd)
}

/// The conversions around descriptors, for a type with one field `fd`.
macro_rules! descriptor {
    ($type:ident, $std:ty) => {
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.fd.as_fd()
            }
        }

        crate::io::raw_fd::raw_fd!($type: AsRawFd, IntoRawFd, FromRawFd);

        impl From<std::os::fd::OwnedFd> for $type {
            /// The descriptor, and all duplicates of it, become non-blocking.
            fn from(fd: std::os::fd::OwnedFd) -> Self {
                Self {
                    fd: crate::net::socket::adopt(fd),
                }
            }
        }

        impl From<$type> for std::os::fd::OwnedFd {
            fn from(socket: $type) -> Self {
                socket.fd.into_inner()
            }
        }

        impl From<$std> for $type {
            /// The socket becomes non-blocking. Timeouts that it had are not kept.
            fn from(socket: $std) -> Self {
                Self::from(std::os::fd::OwnedFd::from(socket))
            }
        }

        impl From<$type> for $std {
            /// The socket stays non-blocking.
            fn from(socket: $type) -> Self {
                Self::from(socket.fd.into_inner())
            }
        }
    };
}

/// `Read` and `Write` for a stream and for a reference to it. The stream has a field `fd`, and the
/// methods `receive` and `send`.
macro_rules! stream {
    ($($type:ty),*) => {
        $(
            impl std::io::Read for $type {
                #[inline]
                fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                    self.receive(buffer)
                }

                fn read_vectored(
                    &mut self,
                    buffers: &mut [std::io::IoSliceMut<'_>],
                ) -> std::io::Result<usize> {
                    crate::net::socket::receive_vectored(&self.fd, buffers)
                }
            }

            impl std::io::Write for $type {
                #[inline]
                fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                    self.send(buffer)
                }

                fn write_vectored(
                    &mut self,
                    buffers: &[std::io::IoSlice<'_>],
                ) -> std::io::Result<usize> {
                    crate::net::socket::send_vectored(&self.fd, buffers)
                }

                #[inline]
                fn flush(&mut self) -> std::io::Result<()> {
                    Ok(())
                }
            }
        )*
    };
}

/// The methods of every socket with one field `fd`. `$from` converts the kernel's address to a
/// `$address`.
macro_rules! common {
    ($address:ty, $from:path) => {
        /// How long each read waits at most; `None` for ever. For this value only, not for its
        /// clones.
        ///
        /// # Errors
        /// The timeout is zero.
        pub fn set_read_timeout(
            &self,
            timeout: Option<std::time::Duration>,
        ) -> std::io::Result<()> {
            self.fd
                .set_timeout(crate::io::driver::source::Direction::Read, timeout)
        }

        /// How long each write waits at most.
        ///
        /// # Errors
        /// The timeout is zero.
        pub fn set_write_timeout(
            &self,
            timeout: Option<std::time::Duration>,
        ) -> std::io::Result<()> {
            self.fd
                .set_timeout(crate::io::driver::source::Direction::Write, timeout)
        }

        /// The read timeout.
        ///
        /// # Errors
        /// None; the type is std's.
        pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.fd.timeout(crate::io::driver::source::Direction::Read))
        }

        /// The write timeout.
        ///
        /// # Errors
        /// None; the type is std's.
        pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.fd.timeout(crate::io::driver::source::Direction::Write))
        }

        /// Until when any read waits at most. Applies beside the timeout. Data that is already
        /// there can be read after the deadline.
        pub fn set_read_deadline(&self, deadline: Option<std::time::Instant>) {
            self.fd
                .set_deadline(crate::io::driver::source::Direction::Read, deadline);
        }

        /// Until when any write waits at most.
        pub fn set_write_deadline(&self, deadline: Option<std::time::Instant>) {
            self.fd
                .set_deadline(crate::io::driver::source::Direction::Write, deadline);
        }

        /// Whether calls fail with `WouldBlock` instead of waiting. For this value only, not for
        /// its clones; the descriptor itself is always non-blocking.
        ///
        /// # Errors
        /// None; the type is std's.
        pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
            self.fd.set_impatient(nonblocking);
            Ok(())
        }

        /// The socket's own address.
        ///
        /// # Errors
        /// The kernel's.
        pub fn local_addr(&self) -> std::io::Result<$address> {
            $from(Some(rustix::net::getsockname(&self.fd)?))
        }

        /// Another value for the same socket, with the same limits.
        ///
        /// # Errors
        /// No descriptors left.
        pub fn try_clone(&self) -> std::io::Result<Self> {
            Ok(Self {
                fd: self.fd.duplicate()?,
            })
        }

        /// The socket's pending error, which is cleared.
        ///
        /// # Errors
        /// The kernel's, if the call itself fails.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            crate::net::socket::take_error(&self.fd)
        }
    };
}

/// The methods of a socket with a connection.
macro_rules! connected {
    ($address:ty, $from:path) => {
        /// The peer's address.
        ///
        /// # Errors
        /// There is no peer, or none any more.
        pub fn peer_addr(&self) -> std::io::Result<$address> {
            $from(rustix::net::getpeername(&self.fd)?)
        }

        /// Shuts one direction down, or both. Waiters in it go on.
        ///
        /// # Errors
        /// There is no peer, or none any more.
        pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
            crate::net::socket::shutdown(&self.fd, how)
        }
    };
}

/// Options that can be set and read.
macro_rules! options {
    ($($(#[$doc:meta])* $set:ident, $get:ident: $type:ty = $set_raw:ident, $get_raw:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// The kernel's.
            pub fn $set(&self, value: $type) -> std::io::Result<()> {
                Ok(rustix::net::sockopt::$set_raw(&self.fd, value)?)
            }

            #[doc = concat!("As set by [`Self::", stringify!($set), "`].")]
            ///
            /// # Errors
            /// The kernel's.
            pub fn $get(&self) -> std::io::Result<$type> {
                Ok(rustix::net::sockopt::$get_raw(&self.fd)?)
            }
        )*
    };
}

pub(super) use {common, connected, descriptor, options, stream};
