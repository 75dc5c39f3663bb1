//! The begin: when the program is about to make its first thread.

use crate::settings::Environment;
use crate::{destructors, heap, linker, rseq};
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{null, null_mut};
use std::sync::{Once, OnceLock};
use umcg::intercept::{Settings, tell};

type Read = Result<Option<Settings>, &'static str>;

static SETTINGS: OnceLock<Read> = OnceLock::new();

/// Keeps the settings that the library was loaded with.
pub(crate) fn keep(settings: Read) {
    let _ = SETTINGS.set(settings);
}

/// Called before each thread that the program makes.
pub(crate) fn before_thread() {
    static ONCE: Once = Once::new();
    if SETTINGS.get().is_none() {
        // The constructor of another library makes the thread, before this one's.
        // SAFETY: the C library keeps the vector, and the process has one thread.
        keep(unsafe { Environment::of_process() }.settings());
    }
    // Not `call_once` alone: the library's own threads come here, too, while it runs.
    if !ONCE.is_completed() && SETTINGS.get().is_some() && is_first() {
        ONCE.call_once(begin);
    }
}

/// Whether the caller is the first to ask.
fn is_first() -> bool {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    !IS_ASKED.swap(true, Relaxed)
}

fn begin() {
    let settings = match SETTINGS.get() {
        Some(Ok(Some(settings))) => *settings,
        Some(Err(wrong)) => {
            return tell(format_args!("run: {wrong}; the program runs natively"));
        }
        Some(Ok(None)) | None => return,
    };
    if let Some(obstacle) = obstacle() {
        return tell_without_memory(obstacle);
    }
    // Some are left.
    destructors::prepare();
    // SAFETY: called once, and the process has one thread.
    match unsafe { umcg::intercept::begin(settings) } {
        Ok(()) => heap::prepare(),
        Err(error) => tell(format_args!("run: {error}; the program runs natively")),
    }
}

/// Why the program has to run natively. What the library needs at its begin is looked for here: it
/// could not go on without.
fn obstacle() -> Option<&'static str> {
    if !has_memory() {
        Some("there is not enough memory")
    } else if !has_keys() {
        Some("all keys of pthread_key_create are taken")
    } else if !has_mask() {
        Some("it may not change which signals are blocked")
    } else if rseq::is_foreign() {
        Some("it has registered an area for restartable sequences (rseq)")
    } else {
        threads().or_else(linker::obstacle)
    }
}

/// Other threads, or what keeps them from being counted.
fn threads() -> Option<&'static str> {
    let Ok(folder) = File::open("/proc/self/task") else {
        return Some("/proc/self/task cannot be opened");
    };
    // A folder has a link from each folder in it, its own and its parent's.
    let links = folder.metadata().map(|data| data.nlink());
    // Rust's own functions for directories end the program if they cannot close one.
    // SAFETY: the descriptor is given away.
    let is_closed = unsafe { libc::close(folder.into_raw_fd()) == 0 };
    match links {
        _ if !is_closed => Some("it may not close descriptors"),
        Ok(3) => None,
        Ok(_) => Some("the program has threads already"),
        Err(_) => Some("/proc/self/task cannot be read"),
    }
}

/// Whether signals can be blocked.
fn has_mask() -> bool {
    // SAFETY: changes nothing.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), null_mut()) == 0 }
}

/// Whether there are addresses left (RLIMIT_AS) and data (RLIMIT_DATA): more than the library
/// takes, so that something is left for the program's threads.
fn has_memory() -> bool {
    const MIB: usize = 1 << 20;
    can_map(256 * MIB, libc::PROT_NONE) && can_map(64 * MIB, libc::PROT_READ | libc::PROT_WRITE)
}

fn can_map(bytes: usize, protection: libc::c_int) -> bool {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, which nobody uses.
    let place = unsafe { libc::mmap(null_mut(), bytes, protection, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping from above.
    unsafe { libc::munmap(place, bytes) };
    true
}

/// Whether as many keys are left as the library and Rust's own one use.
fn has_keys() -> bool {
    const KEYS: usize = 8;
    let mut keys = [0; KEYS];
    // SAFETY: a place for the key, and no destructor.
    let is_made =
        |key: &mut libc::pthread_key_t| unsafe { libc::pthread_key_create(key, None) == 0 };
    let made = keys
        .iter_mut()
        .map(is_made)
        .take_while(|made| *made)
        .count();
    for key in &keys[..made] {
        // SAFETY: made above, and never used.
        unsafe { libc::pthread_key_delete(*key) };
    }
    made == KEYS
}

/// Says why the program runs natively, without an allocation.
fn tell_without_memory(reason: &str) {
    let parts = ["umcg: run: ", reason, "; the program runs natively\n"].map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // SAFETY: three parts, which are read.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), parts.len() as i32) };
}
