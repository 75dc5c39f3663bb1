//! The begin: when the program is about to make its first thread.

use crate::heap;
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
    if !has_one_thread() {
        return tell(format_args!(
            "run: the program has threads already; it runs natively"
        ));
    }
    // SAFETY: called once, and the process has one thread.
    match unsafe { umcg::intercept::begin(settings) } {
        Ok(()) => heap::prepare(),
        Err(error) => tell(format_args!("run: {error}; the program runs natively")),
    }
}

fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}
