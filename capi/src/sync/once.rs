//! Once-only initialisation.

use crate::answer::answer;
use crate::object::{methods, named};
use crate::wait::{NO_TIMEOUT, interruptible, wait_until};
use libc::{EINVAL, c_int};
use umcg::sync::{Once, ffi};

// `umcg_once_t`.
const _: () = assert!(size_of::<Once>() == 24 && align_of::<Once>() == 8);

/// The function itself is called outside of `interruptible`: its frames are unwound only by an
/// exception of its own, which leaves it not done.
///
/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn umcg_once(
    once: *const Once,
    function: Option<extern "C-unwind" fn()>,
) -> c_int {
    // SAFETY: passed on.
    let named = unsafe { named(once) };
    let begun = named.and_then(|once| {
        let function = function.ok_or(EINVAL)?;
        if once.is_completed() {
            return Ok(None);
        }
        let begun = match ffi::try_begin(once) {
            None => interruptible(|| ffi::begin(once))?,
            begun => begun,
        };
        Ok(begun.map(|doing| (doing, function)))
    });
    answer(begun.map(|begun| {
        if let Some((doing, function)) = begun {
            function();
            ffi::end(doing);
        }
    }))
}

fn wait_for(once: &Once, deadline_ns: u64) -> Result<(), c_int> {
    if once.is_completed() {
        return Ok(());
    }
    wait_until(
        deadline_ns,
        || once.wait(),
        |deadline| once.wait_deadline(deadline),
    )
}

methods! {
    Once {
        umcg_once_is_done() -> c_int = Once::is_completed;
        umcg_once_wait() -> c_int = |once| wait_for(once, NO_TIMEOUT);
        umcg_once_wait_until(deadline_ns: u64) -> c_int = |once| wait_for(once, deadline_ns);
    }
}
