//! Where the code of the C library, the loader and the language runtimes lies. Their locks are
//! unknown outside them.
//!
//! Libraries come and go: a program in Rust or C may load a plugin that brings libstdc++ along. The
//! loader counts the objects that it has added and removed. Asking for the count means waiting for
//! a lock of the loader's. So it is asked for outside of signal handlers ([`Ranges::renew`]), and
//! the result is published for the handlers ([`Ranges::get`]).

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Executable segments, each from its first address to behind its last.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// How many objects the loader had added and removed by then.
    changes: AtomicU64,
    runtimes: Vec<(usize, usize)>,
    /// The code that the kernel maps. On aarch64 and riscv64 a handler returns to it.
    kernel: Vec<(usize, usize)>,
    /// The range that contains them all.
    span: (usize, usize),
}

/// The beginnings of their file names.
const RUNTIMES: [&str; 8] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "libpthread",
    "libgcc_s",
    "libstdc++",
    "libc++",
];
const KERNEL: &str = "linux-vdso";

/// The ranges published last. They are never freed, as a handler may be reading them. Such a
/// library is seldom loaded, and hardly ever unloaded.
static PUBLISHED: AtomicPtr<Ranges> = AtomicPtr::new(null_mut());

impl Ranges {
    /// The ranges published last. Async-signal-safe, once it has been called.
    pub(super) fn get() -> &'static Ranges {
        // SAFETY: null, or published.
        unsafe { published().as_ref() }.unwrap_or_else(Ranges::renew)
    }

    /// Brings the published ranges up to date. Waits for the loader's lock.
    #[cold]
    pub(super) fn renew() -> &'static Ranges {
        let mut changes = 0u64;
        // SAFETY: the callback gets its number, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(note_changes), (&raw mut changes).cast()) };
        loop {
            let before = published();
            // SAFETY: null, or published.
            let current = unsafe { before.as_ref() };
            if let Some(current) =
                current.filter(|current| current.changes.load(Relaxed) >= changes)
            {
                return current;
            }
            let new = Ranges::now();
            if let Some(current) = current.filter(|current| current.is_like(&new)) {
                current.changes.fetch_max(new.changes.into_inner(), Relaxed);
                return current;
            }
            let new = Box::into_raw(Box::new(new));
            // ORDERING(runtimes.1): Release, pairs with runtimes.2.
            if PUBLISHED
                .compare_exchange(before.cast_mut(), new, Release, Relaxed)
                .is_ok()
            {
                // SAFETY: never freed from here on.
                return unsafe { &*new };
            }
            // SAFETY: no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }

    fn now() -> Ranges {
        let mut ranges = Ranges::default();
        // SAFETY: the callback gets our ranges back, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut ranges).cast()) };
        let all = || ranges.runtimes.iter().chain(&ranges.kernel);
        ranges.span = (
            all().map(|range| range.0).min().unwrap_or(0),
            all().map(|range| range.1).max().unwrap_or(0),
        );
        ranges
    }

    fn is_like(&self, other: &Ranges) -> bool {
        self.runtimes == other.runtimes && self.kernel == other.kernel
    }

    /// Whether it is an address in one of the runtimes.
    pub(super) fn is_runtime(&self, address: usize) -> bool {
        self.runtimes
            .iter()
            .any(|&(start, end)| (start..end).contains(&address))
    }

    /// Whether it is an address in the kernel's own code.
    pub(super) fn is_kernel(&self, address: usize) -> bool {
        self.kernel
            .iter()
            .any(|&(start, end)| (start..end).contains(&address))
    }

    /// Whether it is in any of these segments.
    #[inline(always)]
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.span.0) < self.span.1 - self.span.0
            && (self.is_runtime(address) || self.is_kernel(address))
    }
}

fn published() -> *const Ranges {
    // ORDERING(runtimes.2): Acquire, pairs with runtimes.1. The ranges it points to are complete.
    PUBLISHED.load(Acquire)
}

/// The loader's count, which it gives with each object; 0 where it has none.
fn changes(object: &libc::dl_phdr_info, size: usize) -> u64 {
    if size < size_of::<libc::dl_phdr_info>() {
        0
    } else {
        object.dlpi_adds.wrapping_add(object.dlpi_subs)
    }
}

/// Looks at the first object only.
unsafe extern "C" fn note_changes(
    object: *mut libc::dl_phdr_info,
    size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes an object that lives during the call.
    let object = unsafe { &*object };
    // SAFETY: the number of `renew`.
    unsafe { *found.cast::<u64>() = changes(object, size) };
    1
}

unsafe extern "C" fn note(
    object: *mut libc::dl_phdr_info,
    size: usize,
    ranges: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes an object that lives during the call.
    let object = unsafe { &*object };
    // SAFETY: and the ranges of `now`.
    let ranges = unsafe { &mut *ranges.cast::<Ranges>() };
    *ranges.changes.get_mut() = changes(object, size);
    if object.dlpi_name.is_null() || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: a C string, as the loader promises.
    let path = unsafe { CStr::from_ptr(object.dlpi_name) }.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or_default();
    let found = if RUNTIMES.iter().any(|runtime| file.starts_with(runtime)) {
        &mut ranges.runtimes
    } else if file.starts_with(KERNEL) {
        &mut ranges.kernel
    } else {
        return 0;
    };
    // SAFETY: the loader's table has that many entries.
    let segments =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for segment in segments
        .iter()
        .filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0)
    {
        let start = object.dlpi_addr as usize + segment.p_vaddr as usize;
        found.push((start, start + segment.p_memsz as usize));
    }
    0
}
