//! The names of the library's `rt::sync` that are the checker's.

pub(crate) use crate::checker::shim::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use real::cell::Cell;

pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

thread_local! {
    static HAS_HEAVY: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread calls [`heavy`] in this model.
pub(crate) fn set_heavy(has_heavy: bool) {
    HAS_HEAVY.set(has_heavy);
}

/// A membarrier has every thread pass a sequentially consistent fence, wherever it is just then.
/// The checker knows no such thing; so both sides pass one themselves where the sources say that
/// the other may come. That is as much as a membarrier gives between the two, and no less: code
/// that needs the pairing is explored as it is. But it is more besides, as a fence also releases
/// and acquires, and two that are light do not order each other in truth. Therefore this does
/// nothing at all in a model in which no thread calls `heavy`, and orderings that a fence could
/// stand in for are checked there.
pub(crate) fn light() {
    if HAS_HEAVY.get() {
        fence(Ordering::SeqCst);
    }
}

/// As [`light`].
pub(crate) fn heavy() {
    assert!(
        HAS_HEAVY.get(),
        "the model does not say that it has a heavy side"
    );
    fence(Ordering::SeqCst);
}

/// So that no time goes into looking.
pub(crate) fn is_alone() -> bool {
    true
}

pub(crate) use crate::checker::shim::turns::{
    pass as give_way, pass as give_way_briefly, pass as spin,
};
