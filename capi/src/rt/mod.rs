//! `umcg/rt.h`: C's names for `umcg::rt`.
//!
//! C cannot have unwinding through its frames, so cancellation is reported by `ECANCELED`: see
//! `umcg::rt::ffi`.

mod io;
mod local;
mod table;
mod wait;
mod worker;

pub(crate) use worker::{Pointer, Worker, named_other as named_worker};

use crate::{failed, string};
use libc::{E2BIG, EDEADLK, EINVAL, EIO, ENOMEM, EOPNOTSUPP, ETIMEDOUT};
use std::ffi::{c_char, c_int};
use std::io::ErrorKind;
use std::ptr::{null, null_mut};
use std::time::Duration;
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority};
use umcg::rt::{DriverKind, ffi};
use umcg::{Error, Runtime};

/// A value that is not a time: wait for ever.
pub(crate) const NO_TIMEOUT: u64 = 0;

/// `umcg_rt_options_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RuntimeOptions {
    size: usize,
    stack_size: usize,
    preemption_ns: u64,
    name: *const c_char,
    servers: c_int,
    pin: c_int,
    scheduler: c_int,
    driver: c_int,
    helpers: c_int,
    reserved: c_int,
}

const _: () =
    assert!(size_of::<RuntimeOptions>() == 4 * size_of::<usize>() + 6 * size_of::<c_int>());

impl RuntimeOptions {
    const DEFAULT: RuntimeOptions = RuntimeOptions {
        size: size_of::<RuntimeOptions>(),
        stack_size: 0,
        preemption_ns: 0,
        name: null(),
        servers: 0,
        pin: 0,
        scheduler: 0,
        driver: 0,
        helpers: 0,
        reserved: 0,
    };
}

/// A deadline of C's, as the runtime counts: never the greatest number.
pub(crate) fn deadline(nanoseconds: u64) -> u64 {
    if nanoseconds == NO_TIMEOUT {
        u64::MAX
    } else {
        nanoseconds
    }
}

pub(crate) fn status(result: Result<(), c_int>) -> c_int {
    value(result.map(|()| 0), -1)
}

pub(crate) fn value<T>(result: Result<T, c_int>, failure: T) -> T {
    result.unwrap_or_else(|errno| failed(errno, failure))
}

pub(crate) fn errno_of(error: std::io::Error) -> c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        ErrorKind::TimedOut => ETIMEDOUT,
        ErrorKind::Unsupported => EOPNOTSUPP,
        ErrorKind::InvalidInput => EINVAL,
        ErrorKind::OutOfMemory => ENOMEM,
        _ => EIO,
    })
}

/// Copies a structure of the caller's, which begins with its own size, over `default`. Members that
/// the caller does not know keep their default. Members that this library does not know must be
/// zero.
///
/// # Safety
/// `given` is null, or points to a size and that many bytes. All bytes make a valid T.
pub(crate) unsafe fn versioned<T: Copy>(default: T, given: *const T) -> Result<T, c_int> {
    let mut own = default;
    if given.is_null() {
        return Ok(own);
    }
    // SAFETY: by the contract.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() {
        return Err(EINVAL);
    }
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(given.cast::<u8>(), size) };
    if bytes.iter().skip(size_of::<T>()).any(|byte| *byte != 0) {
        return Err(E2BIG);
    }
    let known = size.min(size_of::<T>());
    // SAFETY: both have this size.
    unsafe {
        bytes
            .as_ptr()
            .copy_to_nonoverlapping((&raw mut own).cast(), known)
    };
    Ok(own)
}

/// # Safety
/// The name is null or a string.
unsafe fn start(options: RuntimeOptions) -> Result<Runtime, c_int> {
    let servers = usize::try_from(options.servers)
        .ok()
        .filter(|servers| *servers <= 1024)
        .ok_or(EINVAL)?;
    let driver = match options.driver {
        0 => DriverKind::Auto,
        1 => DriverKind::IoUring,
        2 => DriverKind::Epoll,
        _ => return Err(EINVAL),
    };
    let mut builder = Runtime::builder()
        .servers(servers)
        .pin(options.pin != 0)
        .driver(driver);
    builder = match options.scheduler {
        0 => builder,
        1 => builder.scheduler(Fifo::new()),
        2 => builder.scheduler(Priority::new()),
        3 => builder.scheduler(EarliestDeadline::new()),
        _ => return Err(EINVAL),
    };
    if options.stack_size != 0 {
        builder = builder.stack_size(options.stack_size);
    }
    if options.preemption_ns != 0 {
        builder = builder.preemption(Some(Duration::from_nanos(options.preemption_ns)));
    }
    match usize::try_from(options.helpers) {
        Ok(0) => {}
        Ok(most) => builder = builder.helpers(most),
        Err(_) => return Err(EINVAL),
    }
    if options.reserved != 0 {
        return Err(EINVAL);
    }
    // SAFETY: passed on.
    if let Some(name) = unsafe { string(options.name) } {
        builder = builder.name(&name);
    }
    builder.build().map_err(|error| match error {
        Error::Os(code) | Error::Thread(code) => code,
        Error::Stack(_) | Error::NoSuchDriver | Error::Name => EINVAL,
        _ => ENOMEM,
    })
}

/// # Safety
/// `options` is null or points to options.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rt_start(options: *const RuntimeOptions) -> *mut Runtime {
    // SAFETY: passed on; all bytes are valid in the fields.
    let options = unsafe { versioned(RuntimeOptions::DEFAULT, options) };
    // SAFETY: passed on.
    let runtime = options.and_then(|options| unsafe { start(options) });
    value(
        runtime.map(|runtime| Box::into_raw(Box::new(runtime))),
        null_mut(),
    )
}

/// # Safety
/// `rt` is null or came from `umcg_rt_start`, and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rt_stop(rt: *mut Runtime, timeout_ns: u64) -> c_int {
    // SAFETY: passed on.
    let Some(runtime) = (unsafe { rt.as_ref() }) else {
        return failed(EINVAL, -1);
    };
    if ffi::is_left_behind(runtime) {
        return failed(EOPNOTSUPP, -1);
    }
    if ffi::is_worker_of(runtime) {
        return failed(EDEADLK, -1);
    }
    // SAFETY: passed on.
    let runtime = *unsafe { Box::from_raw(rt) };
    let stopped = match timeout_ns {
        NO_TIMEOUT => {
            runtime.shutdown();
            Ok(())
        }
        timeout => runtime.shutdown_timeout(Duration::from_nanos(timeout)),
    };
    status(stopped.map_err(|_| ETIMEDOUT))
}

/// # Safety
/// `rt` is null or a runtime.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rt_dump(rt: *const Runtime, fd: c_int) -> c_int {
    // SAFETY: passed on.
    let runtime = unsafe { rt.as_ref() };
    status(umcg::blocking(|| {
        let text = match runtime {
            Some(runtime) => runtime.dump(),
            None => ffi::dump().map_err(errno_of)?,
        };
        io::write_fully(fd, text.as_bytes())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_rt_trim() -> usize {
    umcg::rt::trim()
}
