//! `uth.h`: UthLib's names for `umcg_core::uth`.

use crate::answer::{Errno, answer};
use crate::{misused, string};
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Display;
use umcg_core::context::stack::StackError;
use umcg_core::uth::{self, EntryFn, Method, Recycle, Uth, UthError};

/// `uth_options_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UthOptions {
    stack_size: usize,
    recycle: c_int,
    method: c_int,
}

const _: () = assert!(size_of::<UthOptions>() == size_of::<usize>() + 2 * size_of::<c_int>());
const _: () = assert!(align_of::<UthOptions>() == align_of::<usize>());

impl Errno for UthError {
    fn errno(self) -> c_int {
        match self {
            UthError::AlreadyInitialised | UthError::AlreadyVp => libc::EALREADY,
            UthError::NoVp => libc::EPERM,
            UthError::RankTaken | UthError::Running => libc::EBUSY,
            UthError::MethodMissing => libc::ENOSYS,
            UthError::OutOfMemory
            | UthError::Stack(
                StackError::OutOfMemory | StackError::TooManyMappings | StackError::Locked,
            ) => libc::ENOMEM,
            _ => libc::EINVAL,
        }
    }
}

/// The uth that a C caller named, which is not null.
///
/// # Safety
/// `thread` is null or a `uth_t`.
unsafe fn named(function: &str, thread: *mut c_void) -> Uth {
    // SAFETY: passed on.
    match unsafe { Uth::from_ptr(thread) } {
        Some(uth) => uth,
        None => misused(function, "the uth is NULL"),
    }
}

fn or_misused(function: &str, result: Result<(), impl Display>) {
    if let Err(error) = result {
        misused(function, error)
    }
}

fn options(stack_size: usize, recycle: c_int, method: c_int) -> Option<uth::UthOptions> {
    Some(uth::UthOptions {
        stack_size: if stack_size == 0 {
            uth::DEFAULT_STACK_SIZE
        } else {
            stack_size
        },
        recycle: match recycle {
            0 => Recycle::PerVp,
            1 => Recycle::Global,
            2 => Recycle::Off,
            _ => return None,
        },
        method: match method {
            0 => Method::Asm,
            1 => Method::Sjlj,
            2 => Method::Mcsc,
            _ => return None,
        },
    })
}

#[unsafe(no_mangle)]
extern "C" fn uth_init(stacksize: c_int) {
    let Ok(size) = usize::try_from(stacksize) else {
        misused("uth_init", "the stack size is negative")
    };
    if let Some(options) = options(size, 0, 0) {
        or_misused("uth_init", uth::init(options));
    }
}

/// # Safety
/// `given` is null or points to options.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_init_options(given: *const UthOptions) -> c_int {
    // SAFETY: passed on.
    let given = unsafe { given.as_ref() }.copied().unwrap_or(UthOptions {
        stack_size: 0,
        recycle: 0,
        method: 0,
    });
    let options = options(given.stack_size, given.recycle, given.method);
    answer(options.ok_or(libc::EINVAL).map(uth::init))
}

#[unsafe(no_mangle)]
extern "C" fn uth_vp_init(vp: c_int) -> c_int {
    let rank = match u32::try_from(vp) {
        Ok(rank) => Ok(Some(rank)),
        Err(_) if vp == -1 => Ok(None),
        Err(_) => Err(libc::EINVAL),
    };
    answer(rank.map(|rank| uth::vp_init(rank).map(drop)))
}

#[unsafe(no_mangle)]
extern "C" fn uth_get_vpid() -> c_int {
    match uth::vpid() {
        Ok(rank) => rank as c_int, // `uth_vp_init` lets no rank beyond an int in
        Err(error) => misused("uth_get_vpid", error),
    }
}

#[unsafe(no_mangle)]
extern "C" fn uth_create(function: Option<EntryFn>, arg: *mut c_void) -> *mut c_void {
    let create = |function| uth::create(function, arg).map(Uth::as_ptr);
    answer(function.ok_or(libc::EINVAL).map(create))
}

/// # Safety
/// `thread` is a `uth_t` that nothing else is about to run.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_reinit(thread: *mut c_void, function: Option<EntryFn>, arg: *mut c_void) {
    const NAME: &str = "uth_reinit";
    // SAFETY: passed on.
    let uth = unsafe { named(NAME, thread) };
    let Some(function) = function else {
        misused(NAME, "the function is NULL")
    };
    // SAFETY: passed on.
    or_misused(NAME, unsafe { uth::reinit(uth, function, arg) });
}

/// # Safety
/// `thread` is a `uth_t` that nothing else is about to run.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_delete(thread: *mut c_void) {
    const NAME: &str = "uth_delete";
    // SAFETY: passed on.
    let uth = unsafe { named(NAME, thread) };
    // SAFETY: passed on.
    or_misused(NAME, unsafe { uth::delete(uth) });
}

/// # Safety
/// `from` and `to` are null or a `uth_t`; nothing else is about to run `to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_switchto(from: *mut c_void, to: *mut c_void) {
    const NAME: &str = "uth_switchto";
    // SAFETY: passed on.
    let to = unsafe { named(NAME, to) };
    // SAFETY: passed on.
    let from = unsafe { Uth::from_ptr(from) };
    // The core takes the caller's word for it, and would switch on the wrong virtual processor.
    if from.is_some() && from != uth::current() {
        misused(NAME, UthError::NotCurrent);
    }
    // SAFETY: passed on.
    or_misused(NAME, unsafe { uth::switch_to(from, to) });
}

/// # Safety
/// As [`uth_switchto`].
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_switchto2(vp: c_int, from: *mut c_void, to: *mut c_void) {
    const NAME: &str = "uth_switchto2";
    // SAFETY: passed on.
    let to = unsafe { named(NAME, to) };
    // SAFETY: passed on.
    let from = unsafe { Uth::from_ptr(from) };
    let Some(rank) = u32::try_from(vp)
        .ok()
        .filter(|rank| uth::vpid() == Ok(*rank))
    else {
        misused(NAME, "this is not the caller's virtual processor")
    };
    // SAFETY: passed on; the rank is the caller's.
    or_misused(NAME, unsafe { uth::switch_to_on(rank, from, to) });
}

#[unsafe(no_mangle)]
extern "C" fn uth_self() -> *mut c_void {
    answer(uth::current().map(Uth::as_ptr).ok_or(libc::EPERM))
}

#[unsafe(no_mangle)]
extern "C" fn uth_self2(vp: c_int) -> *mut c_void {
    let uth = u32::try_from(vp).ok().and_then(uth::current_on);
    answer(uth.map(Uth::as_ptr).ok_or(libc::EINVAL))
}

/// # Safety
/// `thread` is null or a `uth_t`.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_getarg(thread: *mut c_void) -> *mut c_void {
    // SAFETY: passed on.
    let uth = unsafe { Uth::from_ptr(thread) };
    answer(uth.map(Uth::arg).ok_or(libc::EINVAL))
}

/// # Safety
/// `thread` is null or a `uth_t`.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_setarg(thread: *mut c_void, arg: *mut c_void) -> *mut c_void {
    // SAFETY: passed on.
    let uth = unsafe { Uth::from_ptr(thread) };
    answer(uth.map(|uth| uth.set_arg(arg)).ok_or(libc::EINVAL))
}

/// # Safety
/// `thread` is null or a `uth_t`; `name` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn uth_set_name(thread: *mut c_void, name: *const c_char) -> c_int {
    // SAFETY: passed on.
    let uth = unsafe { Uth::from_ptr(thread) };
    // SAFETY: passed on.
    let name = unsafe { string(name) };
    answer(
        uth.zip(name)
            .map(|(uth, name)| uth.set_name(&name))
            .ok_or(libc::EINVAL),
    )
}
