//! The frame of a handler, and masks, to which the model is blind.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) struct Frame {
    /// Whether the processor can make single steps.
    can_step: bool,
    pub(super) steps: AtomicBool,
}

impl Frame {
    pub(super) fn new(can_step: bool) -> Frame {
        Frame {
            can_step,
            steps: AtomicBool::new(false),
        }
    }

    /// # Safety
    /// As the library's.
    pub(crate) unsafe fn of<'a>(_: *mut std::ffi::c_void) -> &'a mut Frame {
        unreachable!("the step is none of the model's")
    }

    pub(crate) fn mask(&self) -> u64 {
        0
    }

    pub(crate) fn set_single_step(&mut self, to: bool) -> bool {
        self.steps.store(to && self.can_step, Relaxed);
        self.can_step
    }

    pub(crate) fn adopt_thread(&mut self, _: u64) {}
}

pub(crate) fn block(_: u64) -> u64 {
    0
}
