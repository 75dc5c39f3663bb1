//! Waiting: no worker here has a deadline.

pub(crate) mod expire {
    use crate::rt::engine::runtime::Timers;

    pub(crate) fn expire(_timers: &Timers) -> bool {
        false
    }
}
