//! Tubes: messages from senders to receivers, through a buffer or directly.
//!
//! A tube has two ends, which can be cloned: [`tube`] makes it, with room for so many messages.
//! Workers, kernel threads and futures may be on either end. Tubes are those of E. Soriano-Salvador
//! and others, "Optimistic Semaphores with Non-deterministic Choice Operation for Heterogeneous
//! Manycore Systems", with types; their `talt` is [`select`](mod@crate::select).
//!
//! ```
//! let (sender, receiver) = umcg::tube::tube(32);
//! let worker = umcg::spawn(move || receiver.iter().sum::<u32>());
//! for number in 1..=100 {
//!     sender.send(number).unwrap();
//! }
//! drop(sender);
//! assert_eq!(worker.join().unwrap(), 5050);
//! ```
//!
//! | to | |
//! |---|---|
//! | send and receive | [`send`](Sender::send), [`recv`](Receiver::recv); `try_`, `_deadline`, `_timeout` forms of these and of all that follow |
//! | do many at once | [`send_batch`](Sender::send_batch), [`recv_batch`](Receiver::recv_batch) |
//! | write and read large messages in place | [`reserve`](Sender::reserve), [`recv_ref`](Receiver::recv_ref) |
//! | send and receive in `async` code | [`send_async`](Sender::send_async), [`recv_async`](Receiver::recv_async), [`poll_recv`](RecvFuture::poll_recv) |
//! | wait beside other things | [`sending`](Sender::sending), [`receiving`](Receiver::receiving), in `select!` |
//! | iterate | [`iter`](Receiver::iter), [`try_iter`](Receiver::try_iter), [`drain`](Receiver::drain) |
//! | come to an end | [`close`](Sender::close), or drop all senders, or all receivers |
//!
//! Guarantees:
//!
//! - *Order.* Messages of one sender are received in their order. The message of the longest
//!   waiting sender is received first, and the longest waiting receiver gets the next message; a
//!   later receiver cannot take it. Futures are no exception. Everything done before a send is seen
//!   by the receiver of the message.
//! - *Nothing is lost or doubled*: a wait that was cancelled, or ended by its deadline or by a
//!   close, has sent or taken nothing, and the error has the message. A wait that was served stays
//!   served, whatever else happens at that moment.
//! - *A message is copied once* into the tube and once out of it, or once altogether if a receiver
//!   waits for it. Messages of more than 1024 bytes are copied outside of the tube's lock.
//! - *Wakers are called last*, all of them, when the operation has happened. If a waker panics,
//!   the panic then goes on from the operation, whose result is dropped: a message that was
//!   received, for example.
//! - An operation that need not wait makes no system call, except to wake a kernel thread. Not for
//!   signal handlers.

mod back;
mod batch;
mod core;
mod ends;
mod error;
#[doc(hidden)]
pub mod ffi;
mod futures;
mod guards;
mod layout;
mod node;
mod operation;
mod patience;
mod slots;
mod waiting;

pub use ends::{IntoIter, Iter, Receiver, Sender, TryIter, tube};
pub use error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
pub use futures::{RecvFuture, SendFuture};
pub use guards::{Filled, Received, Reserved};
pub use operation::{Receiving, Sending};
