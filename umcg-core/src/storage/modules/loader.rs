//! The loader's list of libraries.

use super::super::Stamp;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use umcg_context::local::Hold;

/// The public part of the loader's `struct link_map`.
#[repr(C)]
pub(super) struct LinkMap {
    address: usize,
    name: *const c_char,
    dynamic: *const c_void,
    pub(super) next: AtomicPtr<LinkMap>,
    previous: *const LinkMap,
}

/// Calls `f` for each loaded library, under the loader's lock, until it returns false.
pub(super) fn each_library<F: FnMut(&libc::dl_phdr_info) -> bool>(mut f: F) {
    let _hold = Hold::begin(); // a worker preempted with the lock would block the next one here
    unsafe extern "C" fn call<F: FnMut(&libc::dl_phdr_info) -> bool>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        f: *mut c_void,
    ) -> c_int {
        // SAFETY: `f` is the closure that was passed in.
        let f = unsafe { &mut *f.cast::<F>() };
        // SAFETY: the loader passes a valid entry.
        c_int::from(!f(unsafe { &*info }))
    }
    // SAFETY: the callback fits, and the closure outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut f).cast()) };
}

/// Which libraries are loaded now.
pub(super) fn stamp_now() -> Stamp {
    let mut stamp = (0, 0);
    each_library(|info| {
        stamp = (info.dlpi_adds, info.dlpi_subs);
        false
    });
    stamp
}

pub(super) fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the loader gives the place and number of the program headers.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
}

/// Whether the library holds this address.
pub(super) fn holds(info: &libc::dl_phdr_info, address: usize) -> bool {
    let offset = address.wrapping_sub(info.dlpi_addr as usize);
    let within = |header: &libc::Elf64_Phdr| {
        offset.wrapping_sub(header.p_vaddr as usize) < header.p_memsz as usize
    };
    headers(info)
        .iter()
        .any(|header| header.p_type == libc::PT_LOAD && within(header))
}

pub(super) fn last(mut map: *const LinkMap) -> *const LinkMap {
    loop {
        // SAFETY: an entry of the loader's list, whose lock is held.
        match unsafe { (*map).next.load(Relaxed) } {
            next if next.is_null() => return map,
            next => map = next,
        }
    }
}

pub(super) fn name_of(map: *const LinkMap) -> CString {
    // SAFETY: an entry of the loader's list, whose lock is held.
    let name = unsafe { (*map).name };
    if name.is_null() {
        CString::default()
    } else {
        // SAFETY: the loader's name of it.
        unsafe { owned(name) }
    }
}

/// # Safety
/// A C string.
pub(super) unsafe fn owned(name: *const c_char) -> CString {
    // SAFETY: passed on.
    unsafe { CStr::from_ptr(name) }.to_owned()
}

/// Makes sure that a library is never unloaded.
pub(super) fn pinned(name: &CStr) -> bool {
    if name.is_empty() || name.to_bytes().starts_with(b"linux-vdso") {
        return true; // the program itself, and the kernel's own object
    }
    // SAFETY: a C string; a library that is not loaded is not loaded by this.
    !unsafe {
        libc::dlopen(
            name.as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
        )
    }
    .is_null()
}
