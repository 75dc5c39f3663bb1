//! Tubes: messages from those that send to those that receive, through a buffer or from hand to
//! hand.
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
//! What one may count on:
//!
//! - *Order.* Messages of one sender are received in their order. Of those that wait to send who
//!   waits longest is received first, and of those that wait to receive who waits longest gets the
//!   next message; it cannot be taken by who comes later. Futures are no exception. What goes on
//!   before a send is seen by who receives the message.
//! - *Nothing is lost or doubled*: a wait that was cancelled, or ended by its deadline or by a
//!   close, has sent or taken nothing, and the error has the message. A wait that was served has
//!   been served, whatever happens at that moment.
//! - *A message is copied once* into the tube and once out of it, or once altogether if somebody
//!   waits for it. Messages of more than 1024 bytes are copied outside of the tube's lock.
//! - *Wakers are called last*, all of them, when the operation has happened. If one panics that
//!   goes on from the operation then, and what it would have returned is dropped: a message that
//!   was received, for example.
//! - An operation that has not to wait makes no system call, but for waking a kernel thread. Not
//!   for signal handlers.

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
