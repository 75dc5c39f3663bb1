//! UDP.

use super::addr::{self, ToSocketAddrs};
use super::socket::{self, common, descriptor, options};
use super::tcp::family;
use crate::io::fd::Fd;
use rustix::net::{RecvFlags, SocketType, sockopt};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    fd: Fd,
}

impl UdpSocket {
    /// A socket with the first address that is available.
    ///
    /// # Errors
    /// That of the last address, or that of the look-up.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<UdpSocket> {
        addr::each(address, |address| {
            let fd = socket::open(family(address), SocketType::DGRAM)?;
            rustix::net::bind(fd.as_fd(), &address)?;
            Ok(UdpSocket { fd })
        })
    }

    /// Sets the peer of [`UdpSocket::send`] and [`UdpSocket::recv`].
    ///
    /// # Errors
    /// That of the last address, or that of the look-up.
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        addr::each(address, |address| {
            Ok(rustix::net::connect(self.as_fd(), &address)?)
        })
    }

    /// Sends a message to the first of the addresses.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn send_to<A: ToSocketAddrs>(&self, message: &[u8], address: A) -> io::Result<usize> {
        let address = address.to_socket_addrs()?.next().ok_or_else(addr::none)?;
        socket::send_to(&self.fd, message, &address)
    }

    /// Receives a message and its sender. The part that does not fit into the buffer is lost.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (size, from) = socket::receive_from(&self.fd, buffer, RecvFlags::empty())?;
        Ok((size, addr::internet(from)?))
    }

    /// Like [`UdpSocket::recv_from`], without taking the message.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (size, from) = socket::receive_from(&self.fd, buffer, RecvFlags::PEEK)?;
        Ok((size, addr::internet(from)?))
    }

    /// Sends a message to the peer.
    ///
    /// # Errors
    /// `TimedOut`, and the kernel's; also for an earlier message that had no receiver.
    pub fn send(&self, message: &[u8]) -> io::Result<usize> {
        socket::send(&self.fd, message)
    }

    /// Receives a message from the peer.
    ///
    /// # Errors
    /// As [`UdpSocket::send`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(&self.fd, buffer, RecvFlags::empty())
    }

    /// Like [`UdpSocket::recv`], without taking the message.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(&self.fd, buffer, RecvFlags::PEEK)
    }

    common!(SocketAddr, addr::internet);

    options! {
        /// Whether the socket may send to broadcast addresses.
        set_broadcast, broadcast: bool = set_socket_broadcast, socket_broadcast;
        /// How many routers a message may pass.
        set_ttl, ttl: u32 = set_ip_ttl, ip_ttl;
        /// Whether messages to a group come back to this machine, IPv4.
        set_multicast_loop_v4, multicast_loop_v4: bool = set_ip_multicast_loop, ip_multicast_loop;
        /// How many routers a message to a group may pass, IPv4.
        set_multicast_ttl_v4, multicast_ttl_v4: u32 = set_ip_multicast_ttl, ip_multicast_ttl;
        /// Whether messages to a group come back to this machine, IPv6.
        set_multicast_loop_v6, multicast_loop_v6: bool =
            set_ipv6_multicast_loop, ipv6_multicast_loop;
    }

    /// Joins a group on the interface with this address (unspecified: the kernel's choice).
    ///
    /// # Errors
    /// The kernel's.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_add_membership(
            self.as_fd(),
            group,
            interface,
        )?)
    }

    /// Leaves the group.
    ///
    /// # Errors
    /// The kernel's.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_drop_membership(
            self.as_fd(),
            group,
            interface,
        )?)
    }

    /// Joins a group on the interface with this number (0: the kernel's choice).
    ///
    /// # Errors
    /// The kernel's.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_add_membership(
            self.as_fd(),
            group,
            interface,
        )?)
    }

    /// Leaves the group.
    ///
    /// # Errors
    /// The kernel's.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_drop_membership(
            self.as_fd(),
            group,
            interface,
        )?)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The socket has no peer.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        addr::internet(rustix::net::getpeername(self.as_fd())?)
    }
}

descriptor!(UdpSocket, std::net::UdpSocket);
