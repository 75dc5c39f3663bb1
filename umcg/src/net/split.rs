//! The two directions of a stream as two values, for two workers.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

/// A stream with two directions: [`TcpStream`](super::TcpStream) or
/// [`UnixStream`](super::unix::UnixStream).
pub trait Duplex: sealed::Sealed {
    /// Shuts one direction down, or both.
    ///
    /// # Errors
    /// The stream is not connected.
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// The reading direction of a borrowed stream.
#[derive(Debug)]
pub struct ReadHalf<'a, S>(&'a S);

/// The writing direction of a borrowed stream.
#[derive(Debug)]
pub struct WriteHalf<'a, S>(&'a S);

/// The reading direction of a stream. Both halves own the stream.
#[derive(Debug)]
pub struct OwnedReadHalf<S>(Arc<S>);

/// The writing direction of a stream. Both halves own the stream. Dropping this half shuts its
/// direction down, so the peer sees the end.
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Duplex> {
    stream: Arc<S>,
    shut_down: bool,
}

/// Error: the two halves belong to two streams.
pub struct ReuniteError<S: Duplex>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Duplex> fmt::Debug for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReuniteError")
    }
}

impl<S: Duplex> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are not of one stream")
    }
}

impl<S: Duplex> std::error::Error for ReuniteError<S> {}

pub(super) fn split<S>(stream: &S) -> (ReadHalf<'_, S>, WriteHalf<'_, S>) {
    (ReadHalf(stream), WriteHalf(stream))
}

pub(super) fn into_split<S: Duplex>(stream: S) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    (
        OwnedReadHalf(stream.clone()),
        OwnedWriteHalf {
            stream,
            shut_down: true,
        },
    )
}

impl<S> AsRef<S> for ReadHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S> AsRef<S> for WriteHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.0
    }
}

impl<S: Duplex> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Duplex> OwnedReadHalf<S> {
    /// Joins the halves to the stream.
    ///
    /// # Errors
    /// The halves, if they belong to two streams.
    pub fn reunite(self, other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        // There were two references, and the other one is gone.
        Arc::try_unwrap(self.0).map_err(|_| unreachable!("a stream has two halves"))
    }
}

impl<S: Duplex> OwnedWriteHalf<S> {
    /// Drops the half without shutting its direction down.
    pub fn forget(mut self) {
        self.shut_down = false;
    }
}

impl<S: Duplex> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if self.shut_down {
            // The call fails only if there is no connection any more.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

impl<S> Read for ReadHalf<'_, S>
where
    for<'b> &'b S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.0;
        stream.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut stream = self.0;
        stream.read_vectored(buffers)
    }
}

impl<S> Read for OwnedReadHalf<S>
where
    for<'b> &'b S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self.0).read_vectored(buffers)
    }
}

impl<S> Write for WriteHalf<'_, S>
where
    for<'b> &'b S: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut stream = self.0;
        stream.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = self.0;
        stream.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Duplex> Write for OwnedWriteHalf<S>
where
    for<'b> &'b S: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self.stream).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
