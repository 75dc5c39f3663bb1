//! Futures: run to their end by a worker or thread that parks while they wait.

use super::join::JoinHandle;
use super::spawn::spawn;
use crate::rt::task::Handle;
use crate::rt::wait::park;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// Runs a future to its end, and returns its output. The caller parks while the future waits: a
/// worker switches, a plain thread sleeps. A point of cancellation.
///
/// The caller only polls the future. A future of another runtime's types still needs that runtime
/// to drive its I/O and timers.
pub fn block_on<F: Future>(future: F) -> F::Output {
    /// If futures are run inside the `poll` of others, a future that parked may have consumed the
    /// signals of the others' wakers. Those are polled once more.
    struct PollAgain(Handle);
    impl Drop for PollAgain {
        fn drop(&mut self) {
            park::call_waker(self.0.task());
        }
    }
    let mut future = pin!(future);
    let me = Handle::current();
    let waker = waker(me);
    let mut context = Context::from_waker(&waker);
    let mut again = None;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                again.get_or_insert_with(|| PollAgain(me));
                park::park_for_waker(&"future");
            }
        }
    }
}

/// A waker that ends the park of [`block_on`] and no other. Its call is not mistaken for an
/// [`unpark`](Handle::unpark), nor consumed by waits that the future does in its `poll`. It owns
/// nothing: a handle is a plain word that never dangles.
fn waker(handle: Handle) -> Waker {
    // SAFETY: the functions below keep the contract: they are thread-safe, and there is nothing to
    // count or free.
    unsafe { Waker::from_raw(raw(handle.into_raw())) }
}

fn raw(data: *const ()) -> RawWaker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(raw, wake, wake, |_| {});
    RawWaker::new(data, &TABLE)
}

fn wake(data: *const ()) {
    // SAFETY: `waker` made the word from a handle.
    park::call_waker(unsafe { Handle::from_raw(data) }.task());
}

/// Makes a worker that runs a future to its end.
///
/// # Panics
/// As [`spawn`](crate::rt::spawn()).
pub fn spawn_future<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn(move || block_on(future))
}
