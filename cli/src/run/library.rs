//! Where the library is that `umcg run` loads into a program.

use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};

const NAME: &str = "libumcg_preload.so";

/// The library: in the folder of the command, where a build leaves it, or where an installation
/// has it.
pub(crate) fn find() -> Result<PathBuf> {
    let command = env::current_exe().context("cannot find the command's own file")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let places = ["", "deps", "../lib/umcg", "../lib", "../deps"];
    let found = places
        .iter()
        .map(|place| folder.join(place).join(NAME))
        .find(|path| path.exists());
    match found {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("cannot use {}", path.display())),
        None => bail!("no {NAME} beside {}", command.display()),
    }
}
