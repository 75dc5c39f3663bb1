//! The values of worker-locals, as a descriptor holds them.

use super::Task;
use crate::rt::base::last::contained;
use std::any::Any;
use std::cell::RefCell;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;

/// The values of one worker.
#[derive(Default)]
pub(crate) struct LocalValues(pub(crate) RefCell<Vec<LocalValue>>);

/// The value of the key with this address. None while the value is being made.
pub(crate) type LocalValue = (usize, Option<Rc<dyn Any>>);

/// Drops the worker-locals of the caller. `task` is the caller's descriptor.
#[inline]
pub(crate) fn clear(task: &Task) {
    if !task.locals.load(Relaxed).is_null() {
        clear_slow(task);
    }
}

#[cold]
fn clear_slow(task: &Task) {
    // SAFETY: as in `with_values`. The values are detached first: values that their destructors
    // make go into a new list.
    while let Some(values) = unsafe {
        task.locals
            .swap(null_mut(), Relaxed)
            .cast::<LocalValues>()
            .as_mut()
    } {
        // SAFETY: it came from a box.
        let values = unsafe { Box::from_raw(values) };
        values
            .0
            .take()
            .into_iter()
            .rev()
            .for_each(|value| contained(|| drop(value)));
    }
}
