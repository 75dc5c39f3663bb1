//! `umcg/segment.h`: C's names for `umcg::segment`.
//!
//! C's handle of a segment or an object is the address of a box. The box has a handle of the
//! crate's, which keeps the segment mapped.

mod event;
mod sem;
mod tube;

use crate::answer::{errno_of, require};
use crate::object::{boxed, methods, named, unboxed, with};
use crate::versioned;
use libc::{EBADF, EINVAL, c_int};
use std::ffi::{CStr, OsStr, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use umcg::segment::{self, NameError, OpenError, Segment};

/// `umcg_segment_t`.
struct Opening {
    segment: Segment,
    /// No other of this process has it.
    number: u64,
}

/// `umcg_segment_options_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Options {
    size: usize,
    bytes: u64,
    objects: u32,
    waiters: u32,
    processes: u32,
    flags: u32,
}

const _: () = assert!(size_of::<Options>() == 32 && align_of::<Options>() == 8);

impl Options {
    const DEFAULT: Options = Options {
        size: size_of::<Options>(),
        bytes: 0,
        objects: 0,
        waiters: 0,
        processes: 0,
        flags: 0,
    };

    /// Where there is 0, the crate's default stays.
    fn checked(self) -> Result<segment::Options, c_int> {
        let mut options = Segment::options();
        if self.bytes != 0 {
            options = options.bytes(self.bytes);
        }
        if self.objects != 0 {
            options = options.objects(self.objects);
        }
        if self.waiters != 0 {
            options = options.waiters(self.waiters);
        }
        if self.processes != 0 {
            options = options.processes(self.processes);
        }
        require(self.flags == 0, EINVAL)?;
        Ok(options)
    }
}

/// An object of a segment by its name, from `make`.
///
/// # Safety
/// As `named`; `name` is null or a string.
unsafe fn object<T>(
    opening: *const Opening,
    name: *const c_char,
    make: impl FnOnce(&Opening, &str) -> Result<T, NameError>,
) -> *mut T {
    // SAFETY: passed on.
    let opening = unsafe { named(opening) };
    // SAFETY: passed on.
    let name = unsafe { utf8(name) };
    boxed(opening.and_then(|opening| make(opening, name?).map_err(errno_of)))
}

/// # Safety
/// `string` is null or a string.
unsafe fn text<'a>(string: *const c_char) -> Result<&'a CStr, c_int> {
    if string.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: by the contract.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// # Safety
/// As `text`.
unsafe fn utf8<'a>(string: *const c_char) -> Result<&'a str, c_int> {
    // SAFETY: passed on.
    unsafe { text(string) }.and_then(|text| text.to_str().map_err(|_| EINVAL))
}

/// # Safety
/// As `text`.
unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, c_int> {
    // SAFETY: passed on.
    unsafe { text(path) }.map(|path| Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// A segment that `open` makes or opens, which may take the kernel a while.
fn opened(open: impl FnOnce() -> Result<Segment, OpenError>) -> Result<Opening, c_int> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let segment = umcg::blocking(open).map_err(errno_of)?;
    Ok(Opening {
        segment,
        number: NEXT.fetch_add(1, Relaxed),
    })
}

/// # Safety
/// `options` is null or points to options.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_create(options: *const Options) -> *mut Opening {
    // SAFETY: passed on; all bytes are valid in the fields.
    let options = unsafe { versioned(Options::DEFAULT, options) }.and_then(Options::checked);
    boxed(options.and_then(|options| opened(|| options.create())))
}

/// # Safety
/// As `umcg_segment_create`; `file` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_create_file(
    file: *const c_char,
    options: *const Options,
) -> *mut Opening {
    // SAFETY: passed on; all bytes are valid in the fields.
    let options = unsafe { versioned(Options::DEFAULT, options) }.and_then(Options::checked);
    // SAFETY: passed on.
    let file = unsafe { path(file) };
    boxed(options.and_then(|options| {
        let file = file?;
        opened(|| options.create_file(file))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_segment_open_fd(fd: c_int) -> *mut Opening {
    if fd < 0 {
        return boxed(Err(EBADF));
    }
    // SAFETY: if it is not open the kernel says so.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    boxed(opened(|| Segment::open(fd.try_clone_to_owned()?)))
}

/// # Safety
/// As `path`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_open_file(file: *const c_char) -> *mut Opening {
    // SAFETY: passed on.
    let file = unsafe { path(file) };
    boxed(file.and_then(|file| opened(|| Segment::open_file(file))))
}

methods! {
    Opening {
        umcg_segment_fd() -> c_int = |opening| { opening.segment.as_fd().as_raw_fd() };
    }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_set_patience(opening: *const Opening, patience_ns: u64) -> c_int {
    let patience = Duration::from_nanos(patience_ns);
    // SAFETY: passed on.
    unsafe {
        with(opening, |opening: &Opening| {
            opening.segment.set_patience(patience)
        })
    }
}

/// # Safety
/// As `named`; `name` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_forget(opening: *const Opening, name: *const c_char) -> c_int {
    // SAFETY: passed on.
    let name = unsafe { utf8(name) };
    let forget = |opening: &Opening| opening.segment.forget(name?).map_err(errno_of);
    // SAFETY: passed on.
    unsafe { with(opening, forget) }
}

/// # Safety
/// As `unboxed`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_close(opening: *mut Opening) {
    // SAFETY: passed on.
    unsafe { unboxed(opening) };
}
