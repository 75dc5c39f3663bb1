//! What the environment asks for, and whether `umcg run` is available here.

use crate::compare::Way;
use std::env;
use std::process::Command;
use std::time::Duration;

/// How to run the programs.
pub(crate) struct Settings {
    /// How many times in each way.
    pub(crate) rounds: u32,
    /// How many programs at a time.
    pub(crate) jobs: usize,
    /// The time that a run may take.
    pub(crate) limit: Duration,
    /// Parts of the names of programs to run; all where there is none.
    names: Vec<String>,
    servers: Vec<String>,
    options: Vec<String>,
    only_native: bool,
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => otherwise,
    }
}

pub(crate) fn list(name: &str, otherwise: &str, separator: char) -> Vec<String> {
    let text = env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    text.split(separator)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        Self {
            rounds: number("UMCG_RUN_ROUNDS", 1),
            jobs: number("UMCG_RUN_JOBS", cpus).max(1),
            limit: Duration::from_secs(number("UMCG_RUN_LIMIT", 20)),
            names: list("UMCG_RUN_PROGRAMS", "", ','),
            servers: list("UMCG_RUN_SERVERS", "1,2,4", ','),
            options: list("UMCG_RUN_OPTIONS", "", ' '),
            only_native: env::var_os("UMCG_RUN_NATIVE").is_some(),
        }
    }

    /// Whether the program of this name is to run.
    pub(crate) fn chooses(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }

    /// The ways to run each program, the native one first; or why `umcg run` cannot be used.
    pub(crate) fn ways(&self) -> Result<Vec<Way>, String> {
        if self.only_native {
            return Ok(vec![Way::native()]);
        }
        available()?;
        let under = |servers: &String| Way::umcg(servers, &self.options);
        Ok([Way::native()]
            .into_iter()
            .chain(self.servers.iter().map(under))
            .collect())
    }
}

/// `umcg run` needs x86-64, and the instructions that change the base of FS.
///
/// Nothing else is a reason to skip: where these are present, a command that does not work is a
/// failure.
fn available() -> Result<(), String> {
    const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("`umcg run` is for x86-64".to_owned());
    }
    // SAFETY: getauxval has no preconditions.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    if hwcap2 & HWCAP2_FSGSBASE == 0 {
        return Err("`umcg run` needs FSGSBASE, which this machine does not offer".to_owned());
    }
    let help = Command::new(env!("CARGO_BIN_EXE_umcg"))
        .args(["run", "--help"])
        .output()
        .map_err(|error| format!("umcg does not start: {error}"))?;
    assert!(
        help.status.success(),
        "`umcg run --help` fails: {}",
        String::from_utf8_lossy(&help.stderr)
    );
    Ok(())
}
