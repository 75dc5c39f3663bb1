//! The library's state about descriptors, by their numbers.
//!
//! ```text
//!   number: root (4096) -> chunk (1024, made when needed, never freed) -> slot: lock + counted
//!   reference
//! ```
//!
//! - T1: a slot's lock is held to look, to put and to take, never across a call that waits.
//!   References are counted up under it only. So a holder of the lock that finds only the slot's
//!   own reference knows that no call on the descriptor is running.
//! - T2: a descriptor's number is the program's: nothing here closes one, except `umcg_close`. An
//!   entry that is found stale is forgotten. So is the entry that calls then running still use: the
//!   number may be another descriptor's.
//!
//! Not chosen: handles of their own in place of numbers. Programs need the number for all other
//! calls, and a handle that is closed while another worker waits on it would dangle.

use libc::{EBADF, EBUSY, EMFILE, c_int};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use umcg::io::ffi::DrivenFd;
use umcg_core::context::lock::HoldLock;

/// How a descriptor is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorKind {
    /// A socket of a byte stream in which only its end or urgent data makes a read short. Not a
    /// Unix socket: there, descriptors that were sent along also do.
    Stream,
    /// Any other socket.
    Socket,
    /// A descriptor that has readiness and is no socket.
    Pipe,
    /// A descriptor that has no readiness, or is not ours alone.
    File,
}

impl DescriptorKind {
    pub(super) fn is_socket(self) -> bool {
        matches!(self, DescriptorKind::Stream | DescriptorKind::Socket)
    }
}

pub(super) struct DescriptorEntry {
    pub(super) kind: DescriptorKind,
    pub(super) fd: ManuallyDrop<DrivenFd>,
}

impl Drop for DescriptorEntry {
    /// Takes it off its driver, and leaves it open (T2).
    fn drop(&mut self) {
        // SAFETY: no thread uses the value any more.
        let driven = unsafe { ManuallyDrop::take(&mut self.fd) };
        let _ = driven.into_inner().into_raw_fd();
    }
}

type DescriptorSlot = HoldLock<Option<Arc<DescriptorEntry>>>;

const CHUNK: usize = 1 << 10;
static ROOT: [OnceLock<Box<[DescriptorSlot]>>; 1 << 12] = [const { OnceLock::new() }; 1 << 12];

fn slot(fd: RawFd) -> Result<&'static DescriptorSlot, c_int> {
    let number = usize::try_from(fd).map_err(|_| EBADF)?;
    let chunk = ROOT.get(number / CHUNK).ok_or_else(|| no_slot(fd))?;
    let slots = match chunk.get() {
        Some(slots) => slots,
        // Not preempted, as others on its server might wait for the lock in the kernel.
        None => umcg::critical(|| {
            chunk.get_or_init(|| (0..CHUNK).map(|_| HoldLock::new(None)).collect())
        }),
    };
    Ok(&slots[number % CHUNK])
}

/// The error for a number too large for a slot: most likely it is no descriptor.
#[cold]
fn no_slot(fd: RawFd) -> c_int {
    // SAFETY: only asks whether it is open.
    let is_open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    if is_open { EMFILE } else { EBADF }
}

/// The state of a descriptor; found out now if this is its first use.
pub(super) fn enter(fd: RawFd) -> Result<Arc<DescriptorEntry>, c_int> {
    let mut entry = slot(fd)?.lock();
    if let Some(descriptor) = &*entry {
        return Ok(descriptor.clone());
    }
    let descriptor = Arc::new(look_at(fd)?);
    *entry = Some(descriptor.clone());
    Ok(descriptor)
}

/// A descriptor is new: state kept for its number is out of date, if there is any.
pub(super) fn put(fd: RawFd, kind: DescriptorKind) {
    let Ok(slot) = slot(fd) else { return };
    let stale = slot.lock().replace(Arc::new(around(fd, kind)));
    drop(stale);
}

/// Forgets a descriptor that is about to be closed.
pub(super) fn remove(fd: RawFd) -> Result<(), c_int> {
    let Ok(slot) = slot(fd) else { return Ok(()) };
    let mut entry = slot.lock();
    match entry.take().map(Arc::try_unwrap) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(used)) => {
            *entry = Some(used);
            Err(EBUSY)
        }
    }
}

fn around(fd: RawFd, kind: DescriptorKind) -> DescriptorEntry {
    // SAFETY: not negative; `DescriptorEntry` keeps it from being closed.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    DescriptorEntry {
        kind,
        fd: ManuallyDrop::new(DrivenFd::new(owned)),
    }
}

fn look_at(fd: RawFd) -> Result<DescriptorEntry, c_int> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: writes the structure.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(crate::errno());
    }
    // SAFETY: written above.
    let mode = unsafe { stat.assume_init() }.st_mode & libc::S_IFMT;
    let kind = match mode {
        libc::S_IFSOCK if is_stream(fd) => DescriptorKind::Stream,
        libc::S_IFSOCK => DescriptorKind::Socket,
        // The standard streams belong to others too. No type: eventfd and its like.
        libc::S_IFIFO | 0 if fd > 2 => DescriptorKind::Pipe,
        _ => DescriptorKind::File,
    };
    if kind != DescriptorKind::File {
        let mut on: c_int = 1;
        // SAFETY: reads the number.
        if unsafe { libc::ioctl(fd, libc::FIONBIO, &mut on) } != 0 {
            return Err(crate::errno());
        }
    }
    Ok(around(fd, kind))
}

fn is_stream(fd: RawFd) -> bool {
    option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && matches!(
            option(fd, libc::SO_DOMAIN),
            Some(libc::AF_INET | libc::AF_INET6)
        )
}

fn option(fd: RawFd, name: c_int) -> Option<c_int> {
    let (mut value, mut size) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: writes the number.
    let asked = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &mut size,
        )
    };
    (asked == 0).then_some(value)
}
