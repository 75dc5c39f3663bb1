//! Semaphores, events and tubes that processes share. They lie in a *segment*, a file that all
//! these processes have mapped, each at an address of its own.
//!
//! They have the meaning of those in [`sync`](crate::sync) and [`tube`](crate::tube), in strong
//! order: the waiter that has waited longest is served first, in whichever process it is. They are
//! for workers of both kinds and for threads. A worker that waits gives its server to others.
//!
//! A process may be killed at any moment without leaving others hanging. If it dies while it waits,
//! it is passed over. If it had been given something and had not taken it yet, that goes to the
//! next waiter, within a second at most. If it dies while it holds an object's inner lock, the
//! object is [dead](Fault::Dead): all that wait for it, or come later, get this error. The lock is
//! held for some tens of instructions, and for a tube also while a message is copied. If a process
//! that does nothing but send and receive is killed, that happens in about one of ten cases. A
//! process that takes a wakeup and dies before it releases it has taken it. Only the program knows
//! whether to replace the wakeup.
//!
//! Data that other processes write into the segment is never trusted: contents that contradict
//! themselves are an error ([`Fault::Corrupt`]), not a crash and not an endless loop. But a process
//! that may write to the segment can take everything in it.
//!
//! The protocol: docs/protocols/segment.md. It follows the semaphores of the paper that
//! [`sync::Semaphore`](crate::sync::Semaphore) names, which lie in segments that processes share.
//!
//! ```
//! use std::os::fd::AsFd;
//! use umcg::segment::Segment;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let segment = Segment::create()?;
//! // In another process: Segment::open(fd)?, with a descriptor that was inherited or came through a socket.
//! let other = Segment::open(segment.as_fd().try_clone_to_owned()?)?;
//! let numbers = segment.tube::<u64>("numbers", 16)?;
//! let free = segment.semaphore("free", 1)?;
//! free.acquire()?;
//! numbers.send(7)?;
//! assert_eq!(other.tube::<u64>("numbers", 16)?.recv()?, 7);
//! other.semaphore("free", 1)?.release(1)?;
//! # Ok(())
//! # }
//! ```

mod any;
mod directory;
mod error;
mod event;
mod handle;
mod kernel;
mod layout;
mod liveness;
mod memory;
mod object;
mod patrol;
mod plain;
mod queue;
mod ring;
mod semaphore;
mod shared;
mod stopwatch;
mod tube;
mod wait;

pub use any::{acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any};
pub use error::{
    Fault, NameError, OpenError, ReleaseError, TryError, TryTubeError, TubeError, TubeWaitError,
    WaitError,
};
pub use event::Event;
pub use plain::Plain;
pub use semaphore::Semaphore;
pub use tube::{ByteTube, Tube};

use crate::rt::sync::Ordering::*;
use directory::Wanted;
use handle::ObjectHandle;
use layout::SegmentLayout;
use memory::Memory;
use rustix::fs::{MemfdFlags, SealFlags};
use shared::OpenSegment;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The size of a segment. Be generous with small parts: memory that is not used is not allocated.
#[derive(Clone, Copy, Debug)]
pub struct Options(SegmentLayout);

impl Default for Options {
    /// 256 objects, 1,024 waiters, 64 processes, and 16 MiB for messages.
    fn default() -> Options {
        Options(SegmentLayout {
            objects: 256,
            records: 1024,
            parties: 64,
            bytes: 16 << 20,
        })
    }
}

impl Options {
    /// How many objects there can be; at most 65,536.
    pub fn objects(mut self, objects: u32) -> Options {
        self.0.objects = objects;
        self
    }

    /// How many waits there can be at a time, in all processes together; at most 1,048,576. A wait
    /// for several objects counts once for each.
    pub fn waiters(mut self, waiters: u32) -> Options {
        self.0.records = waiters;
        self
    }

    /// How many processes may have the segment open; at most 4,096. A process that opens it twice
    /// counts twice.
    pub fn processes(mut self, processes: u32) -> Options {
        self.0.parties = processes;
        self
    }

    /// How many bytes there are for the messages of all tubes; at most 1 TiB. Each message is
    /// rounded up to a multiple of 8.
    pub fn bytes(mut self, bytes: u64) -> Options {
        self.0.bytes = bytes;
        self
    }

    /// A new segment in memory without a name. No process can shrink its file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create(self) -> Result<Segment, OpenError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(c"umcg segment", flags).map_err(io::Error::from)?;
        let segment = self.make(fd)?;
        rustix::fs::fcntl_add_seals(
            &segment,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )
        .map_err(io::Error::from)?;
        Ok(segment)
    }

    /// A new segment in a file that does not exist yet; best in a file system that is memory. A
    /// process that may write to the file can also truncate it, which ends the segment's users by
    /// SIGBUS. The caller has to delete the file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create_file(self, path: impl AsRef<Path>) -> Result<Segment, OpenError> {
        self.make(
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)?
                .into(),
        )
    }

    fn make(self, fd: OwnedFd) -> Result<Segment, OpenError> {
        let layout = self.0;
        if !layout.is_possible() {
            return Err(OpenError::Sizes);
        }
        rustix::fs::ftruncate(&fd, layout.end()).map_err(io::Error::from)?;
        let memory = Memory::map(fd, layout.end() as usize)?;
        layout.write(&memory);
        Segment::of(memory)
    }
}

/// Memory that processes share, with named objects.
///
/// Clones are the same opening. Objects keep it open. Another process opens it by its descriptor
/// ([`AsFd`]; `exec` closes it unless it is duplicated). A child after `fork` may use the segment
/// and the objects that it has inherited. Not for signal handlers.
#[derive(Clone)]
pub struct Segment(Arc<OpenSegment>);

impl Segment {
    /// A new segment in memory without a name, with the size of [`Options::default`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create() -> Result<Segment, OpenError> {
        Options::default().create()
    }

    /// Like [`Segment::create`], in a file: see [`Options::create_file`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create_file(path: impl AsRef<Path>) -> Result<Segment, OpenError> {
        Options::default().create_file(path)
    }

    /// Options for the size of a new segment.
    pub fn options() -> Options {
        Options::default()
    }

    /// Opens an existing segment. Needs `/proc`, and the right to write. A file made by
    /// [`Options::create`] is sealed. Any other file may be truncated by processes that may write
    /// to it: that ends this process.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(fd: impl Into<OwnedFd>) -> Result<Segment, OpenError> {
        let fd = fd.into();
        let size =
            u64::try_from(rustix::fs::fstat(&fd).map_err(io::Error::from)?.st_size).unwrap_or(0);
        if size < SegmentLayout::LEAST {
            return Err(OpenError::NotASegment);
        }
        Segment::of(Memory::map(
            fd,
            usize::try_from(size).map_err(|_| OpenError::Corrupt)?,
        )?)
    }

    fn of(memory: Memory) -> Result<Segment, OpenError> {
        let layout = SegmentLayout::read(&memory)?;
        Ok(Segment(Arc::new(OpenSegment::new(memory, layout)?)))
    }

    /// Opens an existing segment in a file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_file(path: impl AsRef<Path>) -> Result<Segment, OpenError> {
        Segment::open(File::options().read(true).write(true).open(path)?)
    }

    /// The semaphore with this name. If there is none yet, it is made, with `wakeups` wakeups.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn semaphore(&self, name: &str, wakeups: u32) -> Result<Semaphore, NameError> {
        ObjectHandle::new(&self.0, name, Wanted::Semaphore(wakeups)).map(Semaphore)
    }

    /// The event with this name, which is reset automatically. If there is none yet, it is made,
    /// set or not.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn auto_event(&self, name: &str, is_set: bool) -> Result<Event, NameError> {
        ObjectHandle::new(&self.0, name, Wanted::Auto(is_set)).map(Event)
    }

    /// The event with this name, which is reset by hand. If there is none yet, it is made, set or
    /// not.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn manual_event(&self, name: &str, is_set: bool) -> Result<Event, NameError> {
        ObjectHandle::new(&self.0, name, Wanted::Manual(is_set)).map(Event)
    }

    /// The tube with this name. If there is none yet, it is made. The capacity must not be 0. The
    /// size of `T` and the capacity must be the same for all users.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn tube<T: Plain>(&self, name: &str, capacity: u32) -> Result<Tube<T>, NameError> {
        Tube::new(&self.0, name, capacity)
    }

    /// Like [`Segment::tube`], for messages of `message_size` bytes.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn tube_bytes(
        &self,
        name: &str,
        message_size: usize,
        capacity: u32,
    ) -> Result<ByteTube, NameError> {
        ByteTube::new(&self.0, name, message_size, capacity)
    }

    /// Takes the name from the object that has it, if that is [dead or corrupt](Fault): the next
    /// call for this name makes a new object. Returns whether there was such an object.
    ///
    /// Users of the old object get its fault as before. Its place in the segment and its messages'
    /// bytes are not used again: a segment is not made for names that come and go.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn forget(&self, name: &str) -> Result<bool, NameError> {
        directory::forget(&self.0, name)
    }

    /// How long this process waits for an inner lock that a live process does not give back before
    /// it declares the object corrupt: 5 seconds by default. A process that a debugger or SIGSTOP
    /// stops while it holds the lock counts like any other.
    ///
    /// Only time in which this process could check counts. If it gets no processor for long, as on
    /// a machine that stands still, at most 10 milliseconds of that count.
    pub fn set_patience(&self, patience: Duration) {
        self.0.patience.store(
            u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
            Relaxed,
        );
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.memory.file()
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.0.layout;
        let objects = directory::objects(&self.0).count();
        let mut f = f.debug_struct("Segment");
        f.field("objects", &objects)
            .field("room", &layout)
            .finish_non_exhaustive()
    }
}
