//! Where the code of the C library, the loader and the language runtimes lies, whose locks nobody else knows.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

/// Executable segments, each from its first address to behind its last.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    runtimes: Vec<(usize, usize)>,
    /// What the kernel maps: on aarch64 and riscv64 a handler returns to there.
    kernel: Vec<(usize, usize)>,
    /// What all of them lie in.
    span: (usize, usize),
}

/// The beginnings of their file names.
const RUNTIMES: [&str; 8] = ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread", "libgcc_s", "libstdc++", "libc++"];
const KERNEL: &str = "linux-vdso";

impl Ranges {
    /// Those of the objects that were loaded when this was called first. Later calls may be in a signal handler.
    pub(super) fn get() -> &'static Ranges {
        static RANGES: OnceLock<Ranges> = OnceLock::new();
        RANGES.get_or_init(|| {
            let mut ranges = Ranges::default();
            // SAFETY: the callback gets our ranges back, and does not unwind.
            unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut ranges).cast()) };
            let all = || ranges.runtimes.iter().chain(&ranges.kernel);
            ranges.span = (all().map(|range| range.0).min().unwrap_or(0), all().map(|range| range.1).max().unwrap_or(0));
            ranges
        })
    }

    /// Whether it is an address in one of the runtimes.
    pub(super) fn is_runtime(&self, address: usize) -> bool {
        self.runtimes.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Whether it is one of the kernel's own code.
    pub(super) fn is_kernel(&self, address: usize) -> bool {
        self.kernel.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Either of them.
    #[inline(always)]
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.span.0) < self.span.1 - self.span.0 && (self.is_runtime(address) || self.is_kernel(address))
    }
}

unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _size: usize, ranges: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object that lives during the call.
    let object = unsafe { &*object };
    // SAFETY: and the ranges of `get`.
    let ranges = unsafe { &mut *ranges.cast::<Ranges>() };
    if object.dlpi_name.is_null() || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: a C string, by the loader's word.
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
    let segments = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for segment in segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0) {
        let start = object.dlpi_addr as usize + segment.p_vaddr as usize;
        found.push((start, start + segment.p_memsz as usize));
    }
    0
}
