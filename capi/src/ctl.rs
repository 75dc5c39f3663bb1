//! `umcg.h`: C's names for `umcg_core::ctl`.

use crate::answer::answer;
use crate::notice;
use crate::{errno, set_errno, string};
use rustix::io::Errno;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;
use umcg_core::ctl;

/// `umcg_light_attr_t`.
#[repr(C)]
pub(crate) struct LightAttr {
    stack_size: usize,
    name: *const c_char,
}

const _: () = assert!(size_of::<LightAttr>() == 2 * size_of::<usize>());
const _: () = assert!(align_of::<LightAttr>() == align_of::<usize>());

/// # Safety
/// As `umcg_core::ctl::umcg_ctl`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_ctl(
    flags: u32,
    cmd: u32,
    next_tid: c_int,
    abs_timeout: u64,
    events: *mut u64,
    event_sz: c_int,
) -> c_int {
    if cmd == ctl::command::REGISTER_WORKER {
        notice::begin_unless_told();
    }
    // SAFETY: passed on.
    answer(unsafe { ctl::umcg_ctl(flags, cmd, next_tid, abs_timeout, events, event_sz) })
}

#[unsafe(no_mangle)]
extern "C" fn umcg_blocking_begin() -> c_int {
    (!ctl::blocking_begin()).into()
}

#[unsafe(no_mangle)]
extern "C" fn umcg_blocking_end() -> c_int {
    // A sharing worker comes from the storage of a helper thread back to that of a server: errno
    // goes with it.
    let of_the_call = errno();
    let result = ctl::blocking_end();
    if result.is_ok() {
        set_errno(of_the_call);
    }
    answer(result)
}

#[unsafe(no_mangle)]
extern "C" fn umcg_critical_begin() -> c_int {
    ctl::critical_begin();
    0
}

#[unsafe(no_mangle)]
extern "C" fn umcg_critical_end() -> c_int {
    answer(ctl::critical_end())
}

#[unsafe(no_mangle)]
extern "C" fn umcg_set_preemption(interval_ns: u64) -> c_int {
    answer(ctl::set_preemption(interval_ns))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_gettid() -> c_int {
    ctl::gettid()
}

/// Takes the place of the C library's function of this name, in programs that link this library.
#[unsafe(no_mangle)]
extern "C" fn gettid() -> c_int {
    ctl::gettid()
}

/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_set_name(name: *const c_char) -> c_int {
    // SAFETY: passed on.
    let name = unsafe { string(name) }.ok_or(Errno::INVAL);
    answer(name.and_then(|name| ctl::set_name(&name)))
}

/// # Safety
/// As `umcg_core::ctl::light_create`; `attr` is null or points to attributes.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_light_create(
    worker_id: u64,
    function: Option<extern "C-unwind" fn(*mut c_void)>,
    arg: *mut c_void,
    attr: *const LightAttr,
) -> c_int {
    // SAFETY: passed on.
    let attr = unsafe { attr.as_ref() }.unwrap_or(&LightAttr {
        stack_size: 0,
        name: null(),
    });
    // SAFETY: passed on.
    let name = unsafe { string(attr.name) }.unwrap_or_default();
    let Some(function) = function else {
        return answer(Err::<c_int, _>(Errno::INVAL));
    };
    // SAFETY: passed on.
    answer(unsafe { ctl::light_create(worker_id, function, arg, attr.stack_size, &name) })
}
