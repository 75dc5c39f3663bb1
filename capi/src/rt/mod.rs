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

use crate::answer::{answer, errno_of, require};
use crate::object::{boxed, named};
use crate::wait::NO_TIMEOUT;
use crate::{string, versioned};
use libc::{EDEADLK, EINVAL, ENOMEM, EOPNOTSUPP, ETIMEDOUT};
use std::ffi::{c_char, c_int};
use std::ptr::null;
use std::time::Duration;
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority};
use umcg::rt::{DriverKind, ffi};
use umcg::{Error, Runtime};

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
    require(options.reserved == 0, EINVAL)?;
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
    boxed(options.and_then(|options| unsafe { start(options) }))
}

/// # Safety
/// `rt` is null or came from `umcg_rt_start`, and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rt_stop(rt: *mut Runtime, timeout_ns: u64) -> c_int {
    // SAFETY: passed on.
    let stopped = unsafe { named(rt) }.and_then(|runtime| {
        require(!ffi::is_left_behind(runtime), EOPNOTSUPP)?;
        require(!ffi::is_worker_of(runtime), EDEADLK)?;
        // SAFETY: passed on.
        let runtime = *unsafe { Box::from_raw(rt) };
        match timeout_ns {
            NO_TIMEOUT => {
                runtime.shutdown();
                Ok(())
            }
            timeout => runtime
                .shutdown_timeout(Duration::from_nanos(timeout))
                .map_err(|_| ETIMEDOUT),
        }
    });
    answer(stopped)
}

/// # Safety
/// `rt` is null or a runtime.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rt_dump(rt: *const Runtime, fd: c_int) -> c_int {
    // SAFETY: passed on.
    let runtime = unsafe { rt.as_ref() };
    answer(umcg::blocking(|| {
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
