//! Workers: spawned, joined, asked to end.

use crate::answer::{Errno, answer, errno_of, require};
use crate::object::store;
use crate::wait::deadline;
use crate::{string, versioned};
use libc::{EAGAIN, ECANCELED, EDEADLK, EINVAL, ENOMEM, EOPNOTSUPP, ESHUTDOWN, ETIMEDOUT};
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::null;
use umcg::rt::ffi;
use umcg::{Builder, Handle, JoinError, JoinHandle, Runtime, SpawnError};
use umcg_core::boundary::{self, Departure};
use umcg_core::context::stack::StackError;

/// `umcg_spawn_attr_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct SpawnAttr {
    size: usize,
    stack_size: usize,
    name: *const c_char,
    deadline_ns: u64,
    priority: c_int,
    server: c_int,
    own_tls: c_int,
}

const _: () = assert!(size_of::<SpawnAttr>() == 4 * size_of::<usize>() + 4 * size_of::<c_int>());

impl SpawnAttr {
    const DEFAULT: SpawnAttr = SpawnAttr {
        size: size_of::<SpawnAttr>(),
        stack_size: 0,
        name: null(),
        deadline_ns: 0,
        priority: 128,
        server: -1,
        own_tls: 1,
    };
}

/// The argument and the result of C's functions.
#[derive(Clone, Copy)]
pub(crate) struct Pointer(*mut c_void);

// SAFETY: the data it points to is the business of the program, which passes it on knowingly.
unsafe impl Send for Pointer {}

pub(super) type WorkerFunction = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// `umcg_worker_t`: only its address is used.
pub(crate) enum Worker {}

/// Calls `f`. An exception of any language that would leave it ends the process with the worker's
/// name.
pub(super) fn guarded<R>(f: impl FnOnce() -> R) -> R {
    struct Panicked;
    impl Drop for Panicked {
        fn drop(&mut self) {
            umcg_core::fatal(format_args!("worker {} was left by a panic", its_name()));
        }
    }
    let panicked = Panicked;
    let result = boundary::call(f, |departure| match departure {
        Departure::Exception => umcg_core::say(format_args!(
            "worker {} was left by an exception",
            its_name()
        )),
        Departure::Forced => umcg_core::fatal(format_args!(
            "worker {} was left by {}",
            its_name(),
            boundary::FORCED
        )),
    });
    std::mem::forget(panicked);
    result
}

/// The caller's.
fn its_name() -> String {
    let name = umcg_core::raw::Worker::current()
        .map(|worker| worker.name())
        .unwrap_or_default();
    if name.is_empty() {
        "without a name".to_owned()
    } else {
        format!("`{name}`")
    }
}

/// The body of a worker.
fn run(function: WorkerFunction, arg: Pointer) -> Pointer {
    ffi::begin();
    guarded(|| Pointer(function(arg.0)))
}

/// The meaning of the attributes.
fn builder<'a>(attr: &SpawnAttr, name: &'a str) -> Result<Builder<'a>, c_int> {
    let mut builder = Builder::new().name(name).stack_size(attr.stack_size);
    builder = builder.priority(u8::try_from(attr.priority).map_err(|_| EINVAL)?);
    if attr.server != -1 {
        builder = builder.server(usize::try_from(attr.server).map_err(|_| EINVAL)?);
    }
    if attr.deadline_ns != 0 {
        builder = builder.deadline(ffi::instant(attr.deadline_ns));
    }
    require(matches!(attr.own_tls, 0 | 1), EINVAL)?;
    Ok(builder)
}

impl Errno for SpawnError {
    fn errno(self) -> c_int {
        match self {
            SpawnError::Stack(StackError::TooLarge) => EINVAL,
            SpawnError::Closed => ESHUTDOWN,
            SpawnError::LeftBehind => EOPNOTSUPP,
            SpawnError::Thread => EAGAIN,
            SpawnError::Runtime(error) => io::Error::from(error).errno(),
            _ => ENOMEM,
        }
    }
}

/// # Safety
/// For a light worker as `Builder::spawn_light`: the C header states the rules.
unsafe fn make(
    runtime: Option<&Runtime>,
    builder: &Builder<'_>,
    is_light: bool,
    function: Option<WorkerFunction>,
    arg: *mut c_void,
) -> Result<*mut Worker, c_int> {
    let function = function.ok_or(EINVAL)?;
    let arg = Pointer(arg);
    let body = move || run(function, arg);
    let made = match runtime {
        // SAFETY: passed on.
        Some(runtime) if is_light => unsafe { runtime.build_light(builder, body) },
        Some(runtime) => runtime.build(builder, body),
        None => {
            ffi::start_global().map_err(|error| match errno_of(error) {
                EAGAIN => EAGAIN,
                _ => ENOMEM,
            })?;
            if is_light {
                // SAFETY: passed on.
                unsafe { builder.spawn_light(body) }
            } else {
                builder.spawn(body)
            }
        }
    };
    made.map(|worker| ffi::into_raw(worker).cast_mut().cast())
        .map_err(errno_of)
}

#[unsafe(no_mangle)]
extern "C" fn umcg_spawn(function: Option<WorkerFunction>, arg: *mut c_void) -> *mut Worker {
    const PLAIN: Builder<'_> = Builder::new();
    // SAFETY: it is no light worker.
    answer(unsafe { make(None, &PLAIN, false, function, arg) })
}

/// # Safety
/// `rt` is null or a runtime; `attr` is null or points to attributes; `function` is as they
/// require.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_spawn_attr(
    rt: *const Runtime,
    attr: *const SpawnAttr,
    function: Option<WorkerFunction>,
    arg: *mut c_void,
) -> *mut Worker {
    // SAFETY: passed on; all bytes are valid in the fields.
    answer(
        unsafe { versioned(SpawnAttr::DEFAULT, attr) }.and_then(|attr| {
            // SAFETY: passed on.
            let name = unsafe { string(attr.name) }.unwrap_or_default();
            // SAFETY: passed on.
            let runtime = unsafe { rt.as_ref() };
            let builder = builder(&attr, &name)?;
            // SAFETY: passed on.
            unsafe { make(runtime, &builder, attr.own_tls == 0, function, arg) }
        }),
    )
}

/// The worker that C named. A caller that uses the handle up takes it out of its cover.
///
/// # Safety
/// `worker` is null, or a worker that is neither joined nor detached.
unsafe fn named(worker: *mut Worker) -> Result<ManuallyDrop<JoinHandle<Pointer>>, c_int> {
    if worker.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: `make` made it from a handle of this type, and the caller that uses it up does not
    // use it again.
    Ok(ManuallyDrop::new(unsafe {
        ffi::from_raw(worker.cast_const().cast())
    }))
}

/// # Safety
/// As `named`.
pub(crate) unsafe fn named_other(
    worker: *mut Worker,
) -> Result<ManuallyDrop<JoinHandle<Pointer>>, c_int> {
    // SAFETY: passed on.
    let worker = unsafe { named(worker) }?;
    require(worker.handle() != Handle::current(), EDEADLK)?;
    Ok(worker)
}

/// Takes the worker's result.
///
/// # Safety
/// `result` is null or writable.
unsafe fn take(
    worker: ManuallyDrop<JoinHandle<Pointer>>,
    result: *mut *mut c_void,
) -> Result<(), c_int> {
    let joined = ffi::shielded(|| ManuallyDrop::into_inner(worker).join());
    let returned = joined.map_err(|error| match error {
        JoinError::Abandoned => ESHUTDOWN,
        _ => ECANCELED,
    })?;
    // SAFETY: passed on.
    unsafe { store(result, returned.0) };
    Ok(())
}

/// # Safety
/// As `named` and `take`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_join(worker: *mut Worker, result: *mut *mut c_void) -> c_int {
    // SAFETY: passed on.
    let worker = unsafe { named_other(worker) };
    // SAFETY: passed on.
    answer(worker.and_then(|worker| unsafe { take(worker, result) }))
}

/// # Safety
/// As `named` and `take`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_join_until(
    worker: *mut Worker,
    result: *mut *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let worker = unsafe { named_other(worker) };
    let ended = worker.and_then(|worker| {
        let ended = worker.is_finished()
            || ffi::wait_for(&worker, deadline(deadline_ns)).map_err(|_| ECANCELED)?;
        require(ended, ETIMEDOUT).map(|()| worker)
    });
    // SAFETY: passed on.
    answer(ended.and_then(|worker| unsafe { take(worker, result) }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_detach(worker: *mut Worker) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named(worker) }.map(|worker| drop(ManuallyDrop::into_inner(worker))))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_abort(worker: *mut Worker) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named(worker) }.map(|worker| ffi::abort(&worker)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_worker_handle(worker: *mut Worker) -> *mut c_void {
    // SAFETY: passed on.
    let worker = unsafe { named(worker) };
    answer(worker.map(|worker| worker.handle().into_raw().cast_mut().cast::<c_void>()))
}
