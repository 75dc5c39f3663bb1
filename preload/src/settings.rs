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

    /// The process's, as the C library keeps it.
    ///
    /// # Safety
    /// As [`Environment::new`].
    pub(crate) unsafe fn of_process() -> Environment {
        unsafe extern "C" {
            static environ: *const *const c_char;
        }
        // SAFETY: the C library's variable.
        let vector = unsafe { environ };
        // SAFETY: passed on.
        unsafe { Environment::new(vector) }
    }

    /// The settings; None if the library was loaded for no program of `umcg run`.
    pub(crate) fn settings(self) -> Result<Option<Settings>, &'static str> {
        let settings = self.get("UMCG_RUN").map(settings).transpose()?;
        let trace = self.get("UMCG_RUN_TRACE");
        Ok(settings.map(|settings| Settings { trace, ..settings }))
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
}

/// The settings of a text as `servers=2,scheduler=steal,tick=10`.
fn settings(text: &str) -> Result<Settings, &'static str> {
    let mut settings = Settings::default();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err("UMCG_RUN has a word without a value");
        };
        match key {
            "servers" => settings.servers = number(value)? as usize,
            "tick" => {
                let tick = number(value)?;
                settings.tick = (tick != 0).then(|| Duration::from_millis(tick));
            }
            "stats" => settings.stats = number(value)? != 0,
            "scheduler" => settings.scheduler = scheduler(value)?,
            _ => return Err("UMCG_RUN names no such setting"),
        }
    }
    Ok(settings)
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "a setting in UMCG_RUN is no number")
}

fn scheduler(name: &str) -> Result<SchedulerKind, &'static str> {
    match name {
        "steal" => Ok(SchedulerKind::Steal),
        "fifo" => Ok(SchedulerKind::Fifo),
        "priority" => Ok(SchedulerKind::Priority),
        _ => Err("UMCG_RUN names no such scheduler"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_others_refused() {
        let settings = settings("servers=3,tick=0,scheduler=fifo").unwrap();
        assert_eq!((settings.servers, settings.tick), (3, None));
        assert_eq!(settings.scheduler, SchedulerKind::Fifo);
        for wrong in ["servers", "servers=x", "scheduler=fast", "speed=9"] {
            assert!(super::settings(wrong).is_err(), "{wrong}");
        }
    }
}
