//! Addresses, and names that are looked up.

use crate::blocking;
use rustix::net::SocketAddrAny;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{io, option, vec};

/// A name for one or more addresses. It stands for std's trait of the same name, which would block
/// the server on a name that has to be looked up. Here the look-up happens in a
/// [`blocking`](crate::blocking) scope. An address, or a string that contains one, is used at once.
///
/// ```
/// use umcg::net::ToSocketAddrs;
///
/// let found: Vec<_> = ("127.0.0.1", 80).to_socket_addrs().unwrap().collect();
/// assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
/// ```
pub trait ToSocketAddrs {
    /// The addresses, in the order in which they are to be tried.
    ///
    /// # Errors
    /// The name cannot be found, or is not a name.
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs>;
}

/// The addresses that a [`ToSocketAddrs`] names.
#[derive(Debug, Clone)]
pub struct SocketAddrs(Found);

#[derive(Debug, Clone)]
enum Found {
    One(option::IntoIter<SocketAddr>),
    Many(vec::IntoIter<SocketAddr>),
}

impl Iterator for SocketAddrs {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match &mut self.0 {
            Found::One(one) => one.next(),
            Found::Many(many) => many.next(),
        }
    }
}

fn one(address: SocketAddr) -> io::Result<SocketAddrs> {
    Ok(SocketAddrs(Found::One(Some(address).into_iter())))
}

fn look_up(
    name: impl std::net::ToSocketAddrs<Iter = vec::IntoIter<SocketAddr>>,
) -> io::Result<SocketAddrs> {
    blocking(|| name.to_socket_addrs()).map(|found| SocketAddrs(Found::Many(found)))
}

macro_rules! addresses {
    ($($type:ty),*) => {
        $(impl ToSocketAddrs for $type {
            fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
                one(SocketAddr::from(*self))
            }
        })*
    };
}

addresses!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl ToSocketAddrs for (&str, u16) {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        match self.0.parse::<IpAddr>() {
            Ok(address) => one(SocketAddr::new(address, self.1)),
            Err(_) => look_up(*self),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        self.parse().map_or_else(|_| look_up(self), one)
    }
}

impl ToSocketAddrs for String {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        self.as_str().to_socket_addrs()
    }
}

impl ToSocketAddrs for [SocketAddr] {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        Ok(SocketAddrs(Found::Many(Vec::from(self).into_iter())))
    }
}

impl<const N: usize> ToSocketAddrs for [SocketAddr; N] {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        self.as_slice().to_socket_addrs()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    fn to_socket_addrs(&self) -> io::Result<SocketAddrs> {
        (**self).to_socket_addrs()
    }
}

/// Calls `f` with each address until it succeeds. If none succeeds, returns the last error.
pub(super) fn each<A: ToSocketAddrs, R>(
    addresses: A,
    mut f: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut failed = None;
    for address in addresses.to_socket_addrs()? {
        match f(address) {
            Ok(result) => return Ok(result),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(none))
}

/// The error when a name has no address.
pub(super) fn none() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")
}

/// Converts an address from the kernel to an internet address. That of a peer may be missing.
pub(super) fn internet(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(
        address.ok_or(rustix::io::Errno::NOTCONN)?,
    )?)
}
