//! Lines for people about rows that are missing: on standard error when they come up, and in the
//! report at the end, so that a page says them too.

use super::tell;
use std::sync::{Arc, Mutex, PoisonError};

/// The lines of a run so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Says a line.
    pub fn say(&self, line: impl Into<String>) {
        let line = line.into();
        tell(&line);
        self.keep(line);
    }

    /// For a line that was said already.
    pub(super) fn keep(&self, line: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// All lines; there are none after that.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
