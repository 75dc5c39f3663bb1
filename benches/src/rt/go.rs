//! Builds the Go side, which is not in this program: it takes a moment, and happens once a run.

use anyhow::{Context, Result, ensure};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MAIN: &str = include_str!("peers/main.go");
const MODULE: &str = "module umcgbench\n\ngo 1.22\n";

/// The program, in a folder of its own that goes when this does.
pub(super) struct Go {
    folder: PathBuf,
}

impl Go {
    pub(super) fn build() -> Result<Self> {
        // A new folder of ours alone: nobody else can have put a program there.
        let folder =
            std::env::temp_dir().join(format!("umcg-bench-go-{}-{:x}", std::process::id(), std::ptr::from_ref(&MAIN).addr()));
        DirBuilder::new().mode(0o700).create(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let go = Self { folder };
        fs::write(go.folder.join("main.go"), MAIN)?;
        fs::write(go.folder.join("go.mod"), MODULE)?;
        let mut command = Command::new("go");
        command.args(["build", "-o", "side", "."]).current_dir(&go.folder).stdin(Stdio::null());
        // Nothing from the network, and nothing of the caller's modules.
        command.env("GOTOOLCHAIN", "local").env("GOWORK", "off").env("GOFLAGS", "").env("GOPROXY", "off");
        let output = command.output().context("cannot run `go`")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "go build: {}", errors.lines().nth(1).or(errors.lines().next()).unwrap_or("failed"));
        Ok(go)
    }

    pub(super) fn program(&self) -> PathBuf {
        self.folder.join("side")
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
