//! Sockets that park their worker where std's block the thread. Names and traits are std's;
//! deadlines are added.
//!
//! A call tries first, and waits only when the kernel says "not now". Calls may be made by workers,
//! in blocking scopes, and by plain threads, which are blocked then. `&TcpStream` reads and writes
//! as well, so several workers may share a socket.
//!
//! A wait that reaches its timeout or deadline fails with
//! [`TimedOut`](std::io::ErrorKind::TimedOut) (std: `WouldBlock`). Timeouts, and `set_nonblocking`,
//! belong to a value, not to the socket. Aborting a worker ends its wait; the socket stays usable.
//!
//! ```
//! use std::io::{Read, Write};
//! use umcg::net::{TcpListener, TcpStream};
//!
//! let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//! let address = listener.local_addr().unwrap();
//! let server = umcg::spawn(move || {
//!     let (mut stream, _) = listener.accept().unwrap();
//!     let mut buffer = [0; 5];
//!     stream.read_exact(&mut buffer).unwrap();
//!     stream.write_all(&buffer).unwrap();
//! });
//! let mut stream = TcpStream::connect(address).unwrap();
//! stream.write_all(b"hello").unwrap();
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).unwrap();
//! assert_eq!(answer, "hello");
//! server.join().unwrap();
//! ```

mod addr;
mod socket;
mod split;
mod tcp;
mod udp;
pub mod unix;

pub use addr::{SocketAddrs, ToSocketAddrs};
#[doc(hidden)]
pub use socket::unbroken;
pub use split::{Duplex, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
