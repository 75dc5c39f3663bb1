//! The sources' memory: slabs that are never freed, and a list of the free sources.
//!
//! Around a fork the lock is held, so the child finds the lists in order. The child begins with
//! empty lists: the sources that the parent had handed out may have been in the midst of anything.

use super::source::Source;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg_core::context::lock::HoldLock;
use umcg_core::fork::Part;

const SLAB: usize = 64;

struct SourcePool {
    slabs: Vec<&'static [Source]>,
    /// Has room for all sources, so that giving one back allocates nothing.
    free: Vec<&'static Source>,
}

static POOL: HoldLock<SourcePool> = HoldLock::new(SourcePool {
    slabs: Vec::new(),
    free: Vec::new(),
});
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between the program's first process and this one.
#[inline]
pub(crate) fn forks() -> u32 {
    FORKS.load(Relaxed)
}

/// A free source.
pub(crate) fn take() -> &'static Source {
    let source = try_take().unwrap_or_else(grow);
    source.adopt();
    source
}

fn try_take() -> Option<&'static Source> {
    POOL.lock().free.pop()
}

#[cold]
fn grow() -> &'static Source {
    let slab: &'static [Source] = Box::leak((0..SLAB).map(|_| Source::new()).collect());
    let mut pool = POOL.lock();
    pool.slabs.push(slab);
    let all = pool.slabs.len() * SLAB;
    let free = pool.free.len();
    pool.free.reserve(all - free);
    pool.free.extend(&slab[1..]);
    &slab[0]
}

/// Takes back a source that is no longer used.
pub(super) fn give(source: &'static Source) {
    POOL.lock().free.push(source);
}

/// All sources, free ones included.
pub(super) fn all() -> Vec<&'static [Source]> {
    POOL.lock().slabs.clone()
}

/// Makes forks known to this module.
pub(super) fn install() -> io::Result<()> {
    static PART: Part = Part::new(Part::ABOVE, || POOL.take(), forked);
    Ok(PART.enter()?)
}

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(in_child: bool) {
    // SAFETY: taken before the fork.
    let mut pool = unsafe { POOL.adopt() };
    if in_child {
        // The old contents are not freed: a fork handler must not do that.
        std::mem::forget(std::mem::take(&mut pool.slabs));
        std::mem::forget(std::mem::take(&mut pool.free));
        FORKS.fetch_add(1, Relaxed);
    }
}
