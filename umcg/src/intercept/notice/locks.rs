//! Locks that the C library has for itself.
//!
//! It waits for them and wakes by one function each, and so they are known by the site. Two sorts
//! differ in whether their owner may be a worker that is away from servers (N1):
//!
//! - Those of malloc, of threads, of the loader: never. A wait stays in place, for as long as the
//!   owner runs. It must stay: the waiter may have another one of them, and away from its server it
//!   would keep it from the servers that are to run it.
//! - The lock of a `FILE`: its owner may be in a write that waits.

use std::ptr::with_exposed_provenance;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use umcg_intercept::Call;

/// Behind the calls of the functions that wait and wake; 0 if they are not known.
static WAIT: AtomicUsize = AtomicUsize::new(0);
static WAKE: AtomicUsize = AtomicUsize::new(0);

/// What is known of the process's objects.
struct LockPlaces {
    /// The data of the C library and of the loader.
    data: Vec<(usize, usize)>,
    /// The locks of the standard streams, which lie there.
    streams: [usize; 3],
}

static PLACES: OnceLock<LockPlaces> = OnceLock::new();

/// Looks them up. Called before calls are intercepted.
pub(super) fn prepare() {
    for (name, place) in [
        (c"__lll_lock_wait_private", &WAIT),
        (c"__lll_lock_wake_private", &WAKE),
    ] {
        place.store(behind_call(name).unwrap_or(0), Relaxed);
    }
    PLACES.get_or_init(|| LockPlaces {
        data: data(),
        streams: [c"stdin", c"stdout", c"stderr"].map(lock_of_stream),
    });
}

/// The writable mappings of these objects.
fn data() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut last = false;
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, access) = (words.next()?, words.next()?);
        let name = words.nth(3).unwrap_or_default();
        let file = name.rsplit('/').next().unwrap_or_default();
        // What follows an object without a name is its data, too.
        last = file.starts_with("libc.so")
            || file.starts_with("libc-")
            || file.starts_with("ld-linux")
            || (last && name.is_empty());
        let (from, to) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (last && access.contains('w')).then_some((number(from)?, number(to)?))
    };
    maps.lines().filter_map(parse).collect()
}

/// The address of a standard stream's lock; 0 if it is not known.
fn lock_of_stream(name: &std::ffi::CStr) -> usize {
    /// Where a `FILE` of glibc's names its lock. That is part of its interface.
    const LOCK: usize = 136;
    // SAFETY: a name; looks up a symbol.
    let variable = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if variable.is_null() {
        return 0;
    }
    // SAFETY: such a symbol is a pointer to a `FILE`.
    let file = unsafe { variable.cast::<usize>().read() };
    let place = with_exposed_provenance::<usize>(file.wrapping_add(LOCK));
    // SAFETY: a stream of the C library's, which is never freed.
    unsafe { place.read() }
}

/// The address behind the only `syscall` of a function, which is not replaced yet.
fn behind_call(name: &std::ffi::CStr) -> Option<usize> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    /// These functions are no longer; others follow.
    const LENGTH: usize = 56;
    // SAFETY: a name; looks up a symbol.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: code of the C library's, which is longer than this by far.
    let code = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), LENGTH) };
    let at = code.windows(2).position(|bytes| bytes == SYSCALL)?;
    Some(function.expose_provenance() + at + SYSCALL.len())
}

fn is_from(call: &Call, site: &AtomicUsize) -> bool {
    call.next() == site.load(Relaxed)
}

/// Whether the call waits for such a lock.
pub(super) fn is_wait(call: &Call) -> bool {
    is_from(call, &WAIT)
}

/// Whether the call wakes a waiter of such a lock. The caller may have another one.
pub(super) fn is_wake(call: &Call) -> bool {
    is_from(call, &WAKE)
}

/// Whether a word of these locks is that of a `FILE`: by where it lies. Those of malloc's arenas
/// stand at the beginning of a range that is aligned to its size.
pub(super) fn is_of_file(word: usize) -> bool {
    const ARENA: usize = 64 << 20;
    const HEAD: usize = 256;
    let Some(places) = PLACES.get() else {
        return false;
    };
    places.streams.contains(&word)
        || !(word % ARENA < HEAD
            || places
                .data
                .iter()
                .any(|&(from, to)| (from..to).contains(&word)))
}
