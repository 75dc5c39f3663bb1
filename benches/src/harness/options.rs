//! What to run of a bench whose turns are child processes.

use super::Program;
use anyhow::{Result, bail};

/// What to run, besides how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// How this program is told to be a child of the bench.
    pub own: Program,
    /// Only what has one of these metrics; all if it is empty.
    pub only: Vec<String>,
    /// Sizes for tests: the figures say nothing.
    pub small: bool,
}

impl Options {
    /// Refuses what is none of these metrics.
    pub fn check(&self, metrics: impl Iterator<Item = &'static str>) -> Result<()> {
        let all: Vec<&str> = metrics.collect();
        match self.only.iter().find(|name| !all.contains(&name.as_str())) {
            Some(unknown) => bail!("{unknown} is no metric; there are {}", all.join(", ")),
            None => Ok(()),
        }
    }

    /// Whether somebody wants to see this metric.
    pub fn is_asked(&self, metric: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_metrics_are_refused() {
        let own = Program { file: "/no/such/file".into(), arguments: Vec::new() };
        let mut options = Options { own, only: Vec::new(), small: true };
        let check = |options: &Options| options.check(["slow", "slower"].into_iter());
        assert!(check(&options).is_ok() && options.is_asked("slow"));
        options.only = vec!["slow".into(), "fast".into()];
        assert_eq!(check(&options).unwrap_err().to_string(), "fast is no metric; there are slow, slower");
        options.only.pop();
        assert!(check(&options).is_ok() && options.is_asked("slow") && !options.is_asked("slower"));
    }
}
