//! The command `umcg`: `umcg bench` compares, `umcg doctor` reports this machine's features,
//! `umcg run` runs a program, `umcg dump` and `umcg trace` look inside.
//!
//! Its exit status is 0, 1 where `umcg bench compare` has found a row that is worse, and 2 after an
//! error, that of a bench of `umcg bench all` too.

mod all;
mod bench;
mod compare;
mod doctor;
mod dump;
mod output;
mod run;
mod trace;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use umcg_benches::harness::tell;

/// User Mode Concurrency Groups for stock Linux.
#[derive(Parser)]
#[command(name = "umcg", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure ours beside the peers, side by side in one run
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Say which features of kernel and CPU umcg uses here, and what it does where one is missing
    Doctor(doctor::Args),
    /// Run a program with its threads scheduled in user mode
    Run(run::Args),
    /// List the threads of a program under `umcg run`, and where each of them stands
    Dump(dump::Args),
    /// Sum up a trace of `umcg run --trace`, or draw it
    Trace(trace::Args),
    /// Print a shell's completions
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

/// The exit status after an error; that of wrong arguments is the same.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(status) => status,
        Err(error) => {
            tell(format_args!("umcg: {error:#}"));
            ExitCode::from(ERROR)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Bench { bench } => return bench::run(bench),
        Command::Doctor(args) => doctor::run(&args)?,
        Command::Run(args) => run::run(&args)?,
        Command::Dump(args) => dump::run(&args)?,
        Command::Trace(args) => trace::run(&args)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "umcg", &mut text);
            output::print(&text)?;
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            output::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
