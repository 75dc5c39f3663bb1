//! The settings, as `umcg run` writes them to the environment.
//!
//! They are read from the vector that the constructor gets: the C library itself is not set up yet.

use std::ffi::{CStr, c_char};
use std::time::Duration;
use umcg::intercept::{SchedulerKind, Settings};

/// The process's environment.
#[derive(Clone, Copy)]
pub(crate) struct Environment(*const *const c_char);

impl Environment {
    /// # Safety
    /// The vector of the environment, which ends with null.
    pub(crate) unsafe fn new(vector: *const *const c_char) -> Environment {
        Environment(vector)
    }

    /// The settings; None if the library was loaded for no program of `umcg run`.
    pub(crate) fn settings(self) -> Result<Option<Settings>, &'static str> {
        if self.get("UMCG_RUN").is_none() {
            return Ok(None);
        }
        let tick = self.number("UMCG_RUN_TICK", "UMCG_RUN_TICK is no number")?;
        let tick = tick.unwrap_or(10);
        let servers = self.number("UMCG_RUN_SERVERS", "UMCG_RUN_SERVERS is no number")?;
        Ok(Some(Settings {
            servers: servers.unwrap_or(0) as usize,
            scheduler: self.scheduler()?,
            tick: (tick != 0).then(|| Duration::from_millis(tick)),
            stats: self.get("UMCG_RUN_STATS").is_some(),
        }))
    }

    /// The value of a variable.
    fn get(self, name: &str) -> Option<&'static str> {
        let mut at = self.0;
        loop {
            // SAFETY: within the vector.
            let entry = unsafe { *at };
            if entry.is_null() {
                return None;
            }
            // SAFETY: an entry is a C string, which stays.
            let entry = unsafe { CStr::from_ptr(entry) }.to_str().unwrap_or("");
            match entry.split_once('=') {
                Some((this, value)) if this == name => return Some(value),
                _ => at = at.wrapping_add(1),
            }
        }
    }

    fn number(self, name: &str, wrong: &'static str) -> Result<Option<u64>, &'static str> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| wrong))
            .transpose()
    }

    fn scheduler(self) -> Result<SchedulerKind, &'static str> {
        match self.get("UMCG_RUN_SCHEDULER") {
            None => Ok(SchedulerKind::default()),
            Some("steal") => Ok(SchedulerKind::Steal),
            Some("fifo") => Ok(SchedulerKind::Fifo),
            Some("priority") => Ok(SchedulerKind::Priority),
            Some(_) => Err("UMCG_RUN_SCHEDULER names no scheduler"),
        }
    }
}
