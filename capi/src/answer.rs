//! What C gets for the result of a Rust function: a number or an address, or on failure -1 or
//! null, with the failure's number in `errno`.
//!
//! [`Answer`] says which number a result is, and [`Errno`] which one an error is. So the numbers of
//! all errors whose meaning is the same in each call are in one table, below.

use crate::failed;
use libc::{
    EAGAIN, EBADMSG, EBUSY, ECANCELED, EEXIST, EINVAL, EIO, ENODATA, ENOMEM, ENOSPC, EOPNOTSUPP,
    EOVERFLOW, EOWNERDEAD, EPROTONOSUPPORT, ESHUTDOWN, ETIMEDOUT, c_int,
};
use std::io::{self, ErrorKind};
use std::ptr::{null, null_mut};
use umcg::rt::Elapsed;
use umcg::rt::ffi::Cancelled;
use umcg::segment;
use umcg::sync::{AcquireError, Closed, Overflow, TryAcquireError};

/// An error that has a number.
pub(crate) trait Errno {
    fn errno(self) -> c_int;
}

/// The number of an error.
pub(crate) fn errno_of(error: impl Errno) -> c_int {
    error.errno()
}

macro_rules! errnos {
    ($($error:ty { $($pattern:pat => $errno:expr,)* })*) => {
        $(impl Errno for $error {
            fn errno(self) -> c_int {
                match self { $($pattern => $errno,)* }
            }
        })*
    };
}

errnos! {
    c_int { number => number, }
    Cancelled { Cancelled => ECANCELED, }
    Elapsed { Elapsed => ETIMEDOUT, }
    rustix::io::Errno { error => error.raw_os_error(), }
    io::Error { error => error.raw_os_error().unwrap_or_else(|| of_kind(error.kind())), }
    Closed { Closed => ESHUTDOWN, }
    TryAcquireError { Self::Empty => EAGAIN, Self::Closed => ESHUTDOWN, }
    AcquireError { Self::TimedOut => ETIMEDOUT, Self::Closed => ESHUTDOWN, }
    Overflow { Overflow => EOVERFLOW, }
    segment::Fault {
        Self::Dead => EOWNERDEAD,
        Self::Corrupt => EBADMSG,
        Self::Full => ENOSPC,
    }
    segment::OpenError {
        Self::Io(error) => error.errno(),
        Self::Sizes => EINVAL,
        Self::NotASegment => ENODATA,
        Self::OtherVersion => EPROTONOSUPPORT,
        Self::Corrupt => EBADMSG,
        Self::Full => ENOSPC,
    }
    segment::NameError {
        Self::Name | Self::Size => EINVAL,
        Self::Mismatch => EEXIST,
        Self::Full => ENOSPC,
        Self::Busy => EBUSY,
    }
    segment::TryError { Self::Empty => EAGAIN, Self::Fault(fault) => fault.errno(), }
    segment::WaitError { Self::TimedOut => ETIMEDOUT, Self::Fault(fault) => fault.errno(), }
    segment::ReleaseError { Self::Overflow => EOVERFLOW, Self::Fault(fault) => fault.errno(), }
    segment::TryTubeError {
        Self::NotNow => EAGAIN,
        Self::Closed => ESHUTDOWN,
        Self::Fault(fault) => fault.errno(),
    }
    segment::TubeError { Self::Closed => ESHUTDOWN, Self::Fault(fault) => fault.errno(), }
    segment::TubeWaitError {
        Self::TimedOut => ETIMEDOUT,
        Self::Closed => ESHUTDOWN,
        Self::Fault(fault) => fault.errno(),
    }
}

/// For errors that the kernel has no part in.
fn of_kind(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::TimedOut => ETIMEDOUT,
        ErrorKind::Unsupported => EOPNOTSUPP,
        ErrorKind::InvalidInput => EINVAL,
        ErrorKind::OutOfMemory => ENOMEM,
        _ => EIO,
    }
}

/// A type of C's results, with the value that tells the caller to look at `errno`.
pub(crate) trait CValue {
    const FAILURE: Self;
}

impl CValue for c_int {
    const FAILURE: c_int = -1;
}

impl CValue for i64 {
    const FAILURE: i64 = -1;
}

impl CValue for isize {
    const FAILURE: isize = -1;
}

impl<T> CValue for *mut T {
    const FAILURE: *mut T = null_mut();
}

impl<T> CValue for *const T {
    const FAILURE: *const T = null();
}

/// A result that C gets as a `C`.
pub(crate) trait Answer<C> {
    fn answer(self) -> Result<C, c_int>;
}

impl<C: CValue> Answer<C> for C {
    fn answer(self) -> Result<C, c_int> {
        Ok(self)
    }
}

impl Answer<c_int> for () {
    fn answer(self) -> Result<c_int, c_int> {
        Ok(0)
    }
}

impl Answer<c_int> for bool {
    fn answer(self) -> Result<c_int, c_int> {
        Ok(self.into())
    }
}

impl Answer<i64> for u32 {
    fn answer(self) -> Result<i64, c_int> {
        Ok(self.into())
    }
}

/// An index into one of C's arrays, or the number of its items: that was an int.
impl Answer<c_int> for usize {
    fn answer(self) -> Result<c_int, c_int> {
        Ok(self as c_int)
    }
}

/// A number of bytes, messages or waiters: no more than memory has bytes.
impl Answer<isize> for usize {
    fn answer(self) -> Result<isize, c_int> {
        Ok(self as isize)
    }
}

impl<C, T: Answer<C>, E: Errno> Answer<C> for Result<T, E> {
    fn answer(self) -> Result<C, c_int> {
        self.map_err(errno_of)?.answer()
    }
}

/// The result for C. Sets `errno` if it is a failure.
#[inline]
pub(crate) fn answer<C: CValue>(result: impl Answer<C>) -> C {
    match result.answer() {
        Ok(value) => value,
        Err(errno) => failed(errno, C::FAILURE),
    }
}

/// The failure of this number, unless the condition holds.
pub(crate) fn require(condition: bool, errno: c_int) -> Result<(), c_int> {
    if condition { Ok(()) } else { Err(errno) }
}
