//! `umcg run`: runs a program with its threads scheduled in user mode.
//!
//! The command prepares the environment and becomes the program: the process id stays, so signals
//! and the exit status are the program's. The library of the package `umcg-preload` does the rest.
//! A program that cannot be helped runs natively, after one line that says why.

pub(crate) mod library;
mod program;

use crate::output;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use umcg_benches::harness::tell;

/// The variable that holds the settings for the library.
const SETTINGS: &str = "UMCG_RUN";
/// The variable that names the libraries to load first.
const PRELOAD: &str = "LD_PRELOAD";
/// The variable that names the file of the trace.
const TRACE: &str = "UMCG_RUN_TRACE";
const GDB_SCRIPT: &str = include_str!("gdb.py");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many threads of the program run at once; default: one a CPU that it may use
    #[arg(long, value_name = "N", value_parser = servers)]
    servers: Option<usize>,
    /// Which thread runs next
    #[arg(long, value_name = "NAME", default_value = "steal")]
    scheduler: Scheduler,
    /// Milliseconds that a thread may run while others wait; 0 for no limit
    #[arg(long, value_name = "MS", default_value_t = 10)]
    tick: u32,
    /// Print counts on standard error when the program ends
    #[arg(long)]
    stats: bool,
    /// Write which thread ran on which server when, and why it stopped, for ui.perfetto.dev and
    /// `umcg trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print a script for gdb, which has `info workers` and `worker N bt`: `gdb -x SCRIPT -p PID`
    #[arg(long, exclusive = true)]
    gdb_script: bool,
    /// The program and its arguments
    #[arg(
        required_unless_present = "gdb_script",
        last = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheduler {
    /// A queue a server; idle servers steal
    Steal,
    /// One queue: first come, first served
    Fifo,
    /// By priority
    Priority,
}

fn servers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(servers @ 1..=1024) => Ok(servers),
        _ => Err("a number from 1 to 1024".to_owned()),
    }
}

/// Becomes the program. Returns only if that fails, or if only the script is wanted.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.gdb_script {
        return output::print(GDB_SCRIPT.as_bytes());
    }
    let Some((name, arguments)) = args.program.split_first() else {
        bail!("no program");
    };
    let mut command = Command::new(name);
    command.args(arguments);
    match obstacle(name) {
        Some(obstacle) => tell(format_args!(
            "umcg run: {}: {obstacle}; it runs natively",
            name.to_string_lossy()
        )),
        None => prepare(&mut command, args)?,
    }
    let error = command.exec();
    Err(error).with_context(|| name.to_string_lossy().into_owned())
}

/// Why a program cannot be helped.
pub(crate) fn obstacle(name: &OsStr) -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some("`umcg run` is for Linux on x86-64".to_owned());
    }
    if !has_fsgsbase() {
        return Some("this kernel or processor does not let programs write FS base".to_owned());
    }
    // A program that is not found is the kernel's to report.
    program::find(name).and_then(|path| program::obstacle(&path))
}

fn has_fsgsbase() -> bool {
    const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: getauxval reads a vector that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

/// Makes the file empty: the program adds to it, and so do the programs that it becomes or starts.
/// Returns its full path.
fn new_trace(file: &Path) -> Result<PathBuf> {
    let cannot = || format!("cannot write {}", file.display());
    File::create(file).with_context(cannot)?;
    file.canonicalize().with_context(cannot)
}

fn prepare(command: &mut Command, args: &Args) -> Result<()> {
    let mut preload = library::find()?.into_os_string();
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env(PRELOAD, preload);
    let servers = args.servers.unwrap_or(0);
    let scheduler = match args.scheduler {
        Scheduler::Steal => "steal",
        Scheduler::Fifo => "fifo",
        Scheduler::Priority => "priority",
    };
    let (tick, stats) = (args.tick, u8::from(args.stats));
    command.env(
        SETTINGS,
        format!("servers={servers},scheduler={scheduler},tick={tick},stats={stats}"),
    );
    match &args.trace {
        Some(file) => command.env(TRACE, new_trace(file)?),
        None => command.env_remove(TRACE),
    };
    // A thread that spins for another one keeps a server from it. Each is set only where the user
    // has not.
    for (name, value) in [("GOMP_SPINCOUNT", "0"), ("OMP_WAIT_POLICY", "passive")] {
        if env::var_os("GOMP_SPINCOUNT").is_none() && env::var_os("OMP_WAIT_POLICY").is_none() {
            command.env(name, value);
        }
    }
    Ok(())
}
