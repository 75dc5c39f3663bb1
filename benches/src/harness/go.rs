//! Builds a side that is written in Go, and so is not in this program: it takes a moment, and
//! happens once a run.

use super::Program;
use anyhow::{Context, Result, ensure};
use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const MODULE: &str = "module umcgbench\n\ngo 1.22\n";

/// The program: an open file that has no name any more, so nothing is left behind however the bench
/// ends.
#[derive(Debug)]
pub struct Go(File);

impl Go {
    /// From the text of its one file.
    pub fn build(main: &str) -> Result<Self> {
        // A new folder of ours alone: no other user can have put a program there.
        let name = format!("umcg-bench-go-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        DirBuilder::new()
            .mode(0o700)
            .create(&folder.0)
            .with_context(|| format!("cannot make {}", folder.0.display()))?;
        fs::write(folder.0.join("main.go"), main)?;
        fs::write(folder.0.join("go.mod"), MODULE)?;
        let mut command = Command::new("go");
        command
            .args(["build", "-o", "side", "."])
            .current_dir(&folder.0)
            .stdin(Stdio::null());
        // Nothing from the network, and nothing of the caller's modules.
        command
            .env("GOTOOLCHAIN", "local")
            .env("GOWORK", "off")
            .env("GOFLAGS", "")
            .env("GOPROXY", "off");
        let output = command.output().context("cannot run `go`")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "go build: {}",
            errors
                .lines()
                .nth(1)
                .or(errors.lines().next())
                .unwrap_or("failed")
        );
        Ok(Self(File::open(folder.0.join("side"))?))
    }

    /// The program that a child is started from, as long as this lives.
    pub fn program(&self) -> Program {
        let file = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into();
        Program {
            file,
            arguments: Vec::new(),
        }
    }
}

/// Goes with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_are_programs() {
        if Command::new("go").arg("version").output().is_err() {
            eprintln!("SKIPPED: no go: nobody has looked whether the peers can be built");
            return;
        }
        let mains = [
            include_str!("../rt/peers/main.go"),
            include_str!("../sync/peers/main.go"),
        ];
        for main in mains {
            let built = Go::build(main);
            assert!(built.is_ok(), "{built:?}");
        }
    }
}
