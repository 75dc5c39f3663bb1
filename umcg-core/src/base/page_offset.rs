//! Where descriptors lie within their pages.
//!
//! A processor compares only the low twelve bits of addresses when it checks whether a load has to
//! wait for an earlier store. A switch stores one context and loads the next. If both lie at the
//! same place of their pages, each load waits needlessly, and the switch takes four times as long
//! ("4K aliasing", Intel's optimization manual, 2023, 15.8). So each kind of descriptor has places
//! of its own:
//!
//! | bytes of the page | hold |
//! |---|---|
//! | 0.. | a virtual processor, the context of its own flow first |
//! | 512.. | a server, its context first |
//! | 1024..2304 | thread workers, at one of 16 places |
//! | 2304..4096 | records and workers at the tops of stacks, coloured by `umcg_context::stack` |

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::sync::atomic::{AtomicUsize, Ordering::*};

const PAGE: usize = 4096;

/// For a virtual processor.
pub(crate) const PROCESSOR: usize = 0;
/// For a server.
pub(crate) const SERVER: usize = 512;

/// For the next thread worker.
pub(crate) fn thread_worker() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    1024 + NEXT.fetch_add(1, Relaxed) % 16 * 64
}

/// Puts `value` at this place of a page of its own, for ever.
///
/// # Panics
/// When it does not fit there.
pub(crate) fn leak_at<T>(offset: usize, value: T) -> &'static T {
    try_leak_at(offset, value).unwrap_or_else(|| handle_alloc_error(page()))
}

fn page() -> Layout {
    let Ok(layout) = Layout::from_size_align(PAGE, PAGE) else {
        unreachable!("a page is a valid layout")
    };
    layout
}

/// The same; none if there is no memory.
pub(crate) fn try_leak_at<T>(offset: usize, value: T) -> Option<&'static T> {
    assert!(offset % align_of::<T>() == 0 && offset + size_of::<T>() <= PAGE);
    // SAFETY: the layout is not empty.
    let page = unsafe { alloc(page()) };
    if page.is_null() {
        return None;
    }
    let place = page.wrapping_add(offset).cast::<T>();
    // SAFETY: inside the page, aligned, and ours.
    unsafe { place.write(value) };
    // SAFETY: written just now, and never freed.
    Some(unsafe { &*place })
}
