//! The name of a party that parks.

use super::Task;

#[derive(Clone, Copy)]
pub struct Handle(&'static Task);

impl Handle {
    pub(crate) fn current() -> Handle {
        Handle(super::current())
    }

    pub(crate) fn task(self) -> &'static Task {
        self.0
    }
}
