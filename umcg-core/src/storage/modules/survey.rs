//! Which libraries have thread-local storage, and where it is in each block.

use super::super::Stamp;
use super::loader::{each_library, headers};
use crate::identity::with_thread_pointer;
use crate::os::signal::set_mask;

/// Libraries with thread-local storage that one survey has room for.
const ROOM: usize = 512;

/// The thread-local storage of a library.
#[derive(Clone, Copy)]
pub(super) struct Module {
    /// Where the library is loaded.
    pub(super) address: usize,
    pub(super) image: *const u8,
    pub(super) image_bytes: usize,
    pub(super) bytes: usize,
    /// The address in the storage of the asking thread; null while it has none.
    pub(super) data: *mut u8,
}

/// The loaded libraries, and where their storage is in each block.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) stamp: Stamp,
    /// For each library with static storage: where it is loaded, and the offset of its storage from
    /// the thread pointer.
    pub(super) statics: Vec<(usize, isize)>,
    pub(super) modules: Vec<Module>,
    pub(super) complete: bool,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({:#x}, {} bytes)", self.address, self.bytes)
    }
}

/// The thread-local storage of a library, if it has any.
pub(super) fn module(info: &libc::dl_phdr_info) -> Option<Module> {
    let header = headers(info)
        .iter()
        .find(|header| header.p_type == libc::PT_TLS && header.p_memsz > 0)?;
    let address = info.dlpi_addr as usize;
    Some(Module {
        address,
        image: std::ptr::with_exposed_provenance(address.wrapping_add(header.p_vaddr as usize)),
        image_bytes: header.p_filesz as usize,
        bytes: header.p_memsz as usize,
        data: info.dlpi_tls_data.cast(),
    })
}

/// Calls `f` while the thread pointer is `tp`. `f` uses nothing that a fresh block does not have.
///
/// # Safety
/// `tp` is that of a block that is not in use.
pub(in super::super) unsafe fn on_storage(tp: usize, f: &mut dyn FnMut()) {
    let mask = set_mask(u64::MAX); // a handler would run with the wrong storage
    // SAFETY: the block is ours, and the caller has checked that the thread pointer can be written.
    unsafe { with_thread_pointer(tp, f) };
    set_mask(mask);
}

impl Survey {
    /// Surveys the storage at `tp`, fresh from glibc.
    ///
    /// # Safety
    /// As [`on_storage`].
    pub(super) unsafe fn take(tp: usize, skip: [usize; 2]) -> Survey {
        let (mut modules, mut complete, mut stamp) = (Vec::with_capacity(ROOM), true, (0, 0));
        let mut look = || {
            each_library(|info| {
                stamp = (info.dlpi_adds, info.dlpi_subs);
                if let Some(module) = module(info).filter(|module| !skip.contains(&module.address))
                {
                    complete &= modules.len() < ROOM;
                    if complete {
                        // within its capacity: malloc is not called with this storage
                        modules.push(module);
                    }
                }
                true
            });
        };
        // SAFETY: passed on.
        unsafe { on_storage(tp, &mut look) };
        let place = |module: &Module| {
            (
                module.address,
                (module.data.addr().wrapping_sub(tp)) as isize,
            )
        };
        let statics = modules
            .iter()
            .filter(|module| !module.data.is_null())
            .map(place)
            .collect();
        Survey {
            stamp,
            statics,
            modules,
            complete,
        }
    }
}

// SAFETY: the pointers to images and storage are used by value only, or followed under the loader's
// lock.
unsafe impl Send for Survey {}
