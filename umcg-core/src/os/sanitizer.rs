//! Sanitizers that the program was built with, but this library was not.
//!
//! Each sanitizer keeps its data about a thread in the thread's storage, and asks the C library
//! where its stack is. A worker with a [block](crate::storage) has a storage that no thread was
//! made with, so under any sanitizer full workers are threads. ThreadSanitizer would also take a
//! worker and its home thread for one thread, so under it workers stay at home. It also reports
//! accesses that this library orders as races, because it sees none of its atomic operations. So it
//! is refused, unless the program insists.

use super::fatal::fatal;
use std::ffi::CStr;
use std::sync::Once;

/// The kind of sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    Address,
    Memory,
    Thread,
}

const SIGNS: [(&CStr, Sanitizer); 4] = [
    (c"__asan_init", Sanitizer::Address),
    (c"__hwasan_init", Sanitizer::Address),
    (c"__msan_init", Sanitizer::Memory),
    (c"__tsan_init", Sanitizer::Thread),
];

/// The sanitizer of this process. None if the library was built with it, as the program was.
pub(crate) fn find() -> Option<Sanitizer> {
    if cfg!(any(umcg_asan, umcg_tsan)) {
        return None;
    }
    let is_there = |name: &CStr| {
        // SAFETY: a C string; any handle.
        !unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null()
    };
    SIGNS
        .into_iter()
        .find(|(name, _)| is_there(name))
        .map(|(_, sanitizer)| sanitizer)
}

/// Whether the program was built with a sanitizer, or runs under Valgrind: code must not be
/// replaced then.
pub fn is_sanitized() -> bool {
    let valgrind = std::env::var("LD_PRELOAD").is_ok_and(|objects| objects.contains("vgpreload"));
    cfg!(any(umcg_asan, umcg_tsan)) || valgrind || find().is_some()
}

/// Ends a process that this library cannot serve: ThreadSanitizer would report races that do not
/// exist.
pub(crate) fn refuse() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if find() == Some(Sanitizer::Thread) && std::env::var_os("UMCG_TSAN").is_none() {
            fatal(format_args!(
                "ThreadSanitizer sees nothing of what a library orders that was not built for it, \
                 and would report races that there are \
                 not: build umcg with `--cfg umcg_tsan -Zsanitizer=thread` as \
                 ci/sanitizers.sh does, or set UMCG_TSAN=1 to run all the same"
            ));
        }
    });
}
