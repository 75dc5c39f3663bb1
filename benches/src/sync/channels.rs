//! Channels of every origin, for the same loops.

use super::semaphores::last;
use anyhow::{Result, ensure};
use std::ffi::CString;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// This many words. The first says which message it is.
pub(super) type Message<const W: usize> = [u64; W];

/// For messages of this many words; many may have either end.
pub(super) trait Channel<const W: usize>: 'static {
    type Sender: Clone + Send + Sync + 'static;
    type Receiver: Clone + Send + Sync + 'static;

    /// With room for about this many.
    fn new(capacity: usize) -> Result<(Self::Sender, Self::Receiver)>;
    fn send(sender: &Self::Sender, message: Message<W>);
    fn receive(receiver: &Self::Receiver) -> Message<W>;
}

/// For those whose ends are like those of the standard library, in their crates.
macro_rules! channel {
    ($(#[$about:meta])* $name:ident, $($path:ident)::+, $new:ident) => {
        $(#[$about])*
        pub(super) struct $name;

        impl<const W: usize> Channel<W> for $name {
            type Sender = $($path)::+::Sender<Message<W>>;
            type Receiver = $($path)::+::Receiver<Message<W>>;

            fn new(capacity: usize) -> Result<(Self::Sender, Self::Receiver)> {
                Ok($($path)::+::$new(capacity))
            }

            #[inline(always)]
            fn send(sender: &Self::Sender, message: Message<W>) {
                sender.send(message).expect("both ends are there");
            }

            #[inline(always)]
            fn receive(receiver: &Self::Receiver) -> Message<W> {
                receiver.recv().expect("both ends are there")
            }
        }
    };
}

channel! {
    /// Ours.
    Tube, umcg::tube, tube
}
channel! {
    /// The crate crossbeam-channel.
    Crossbeam, crossbeam_channel, bounded
}
channel! {
    /// The crate of this name, without futures.
    Kanal, kanal, bounded
}
channel! {
    /// The crate of this name, without futures.
    Flume, flume, bounded
}

/// The kernel's, one way. Its capacity is 64 KiB, whatever size is asked for.
pub(super) struct Pipe;

impl<const W: usize> Channel<W> for Pipe {
    type Sender = Arc<OwnedFd>;
    type Receiver = Arc<OwnedFd>;

    fn new(_: usize) -> Result<(Self::Sender, Self::Receiver)> {
        let mut fds = [0; 2];
        // SAFETY: has room for two descriptors.
        let rc = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
        ensure!(rc == 0, "pipe2: {}", last());
        // SAFETY: just opened, and owned by this function only.
        let [read, write] = fds.map(|fd| Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((write, read))
    }

    /// A message is small enough for a pipe to keep together, so all of it is written, or read, at
    /// once.
    #[inline(always)]
    fn send(sender: &Self::Sender, message: Message<W>) {
        // SAFETY: readable, and of this size.
        let sent = unsafe {
            libc::write(
                sender.as_raw_fd(),
                message.as_ptr().cast(),
                mem::size_of_val(&message),
            )
        };
        assert_eq!(sent, mem::size_of_val(&message) as isize);
    }

    #[inline(always)]
    fn receive(receiver: &Self::Receiver) -> Message<W> {
        let mut message = [0; W];
        // SAFETY: writable, and of this size.
        let got = unsafe {
            libc::read(
                receiver.as_raw_fd(),
                message.as_mut_ptr().cast(),
                mem::size_of_val(&message),
            )
        };
        assert_eq!(got, mem::size_of_val(&message) as isize);
        message
    }
}

/// POSIX's message queues.
pub(super) struct Queue;

/// The most messages that an unprivileged process may ask for.
const FEW: libc::c_long = 10;

/// One that has no name any more.
fn queue(capacity: libc::c_long, size: usize) -> Result<OwnedFd> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = CString::new(format!(
        "/umcg-bench-{}-{}",
        process::id(),
        NEXT.fetch_add(1, Relaxed)
    ))?;
    // SAFETY: plain numbers.
    let mut attributes: libc::mq_attr = unsafe { mem::zeroed() };
    (attributes.mq_maxmsg, attributes.mq_msgsize) = (capacity, size as libc::c_long);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: a name with its end, and attributes, as a new queue needs them.
    let queue: RawFd = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, &raw mut attributes) };
    ensure!(queue >= 0, "mq_open: {}", last());
    // SAFETY: on Linux it is a descriptor, just opened, and owned by this function only.
    let queue = unsafe { OwnedFd::from_raw_fd(queue) };
    // SAFETY: a name with its end.
    unsafe { libc::mq_unlink(name.as_ptr()) };
    Ok(queue)
}

impl<const W: usize> Channel<W> for Queue {
    type Sender = Arc<OwnedFd>;
    type Receiver = Arc<OwnedFd>;

    fn new(capacity: usize) -> Result<(Self::Sender, Self::Receiver)> {
        let size = mem::size_of::<Message<W>>();
        let both = Arc::new(queue(capacity as libc::c_long, size).or_else(|_| queue(FEW, size))?);
        Ok((Arc::clone(&both), both))
    }

    #[inline(always)]
    fn send(sender: &Self::Sender, message: Message<W>) {
        // SAFETY: readable, and of this size.
        let rc = unsafe {
            libc::mq_send(
                sender.as_raw_fd(),
                message.as_ptr().cast(),
                mem::size_of_val(&message),
                0,
            )
        };
        assert_eq!(rc, 0);
    }

    #[inline(always)]
    fn receive(receiver: &Self::Receiver) -> Message<W> {
        let mut message = [0; W];
        let (place, size) = (message.as_mut_ptr().cast(), mem::size_of_val(&message));
        // SAFETY: writable, and of this size.
        let got =
            unsafe { libc::mq_receive(receiver.as_raw_fd(), place, size, std::ptr::null_mut()) };
        assert_eq!(got, size as isize);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn delivers<C: Channel<W>, const W: usize>() {
        let ((sender, receiver), (reply, answers)) = (C::new(4).unwrap(), C::new(4).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..100 {
                    let message = C::receive(&receiver);
                    assert_eq!(message, [turn; W]);
                    C::send(&reply, message.map(|word| word + 1));
                }
            });
            for turn in 0..100 {
                C::send(&sender, [turn; W]);
                assert_eq!(C::receive(&answers), [turn + 1; W]);
            }
        });
    }

    #[test]
    fn all_of_them_deliver() {
        delivers::<Tube, 1>();
        delivers::<Tube, 512>();
        delivers::<Crossbeam, 1>();
        delivers::<Kanal, 4>();
        delivers::<Flume, 8>();
        delivers::<Pipe, 1>();
        delivers::<Pipe, 512>();
        delivers::<Queue, 64>();
    }
}
