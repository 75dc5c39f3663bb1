//! Where the library is that `umcg run` loads into a program.

use anyhow::{Context, Result, bail};
use std::cmp::Reverse;
use std::env;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const NAME: &str = "libumcg_preload.so";

/// The library: in the folder of the command, where a build leaves it, or where an installation
/// has it.
pub(crate) fn find() -> Result<PathBuf> {
    let command = env::current_exe().context("cannot find the command's own file")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    match newest(folder) {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("cannot use {}", path.display())),
        None => bail!("no {NAME} beside {}", command.display()),
    }
}

/// The library that was written last, for a command in this folder. A build leaves one in several
/// places, and the next build need not renew all of them. The first of those that are equally new.
fn newest(folder: &Path) -> Option<PathBuf> {
    let places = ["", "deps", "../lib/umcg", "../lib", "../deps"];
    let found = places
        .iter()
        .map(|place| folder.join(place).join(NAME))
        .filter(|path| path.exists());
    found.min_by_key(|path| Reverse(written(path)))
}

/// When the file was written, if the system says so.
fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|known| known.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::time::Duration;

    #[test]
    fn the_newest_library_is_taken_wherever_it_is() {
        let name = format!("umcg-library-{}", std::process::id());
        let root = env::temp_dir().join(name);
        let commands = root.join("bin");
        let put = |place: &str, age: u64| {
            let folder = commands.join(place);
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join(NAME);
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age);
            File::create(&path).unwrap().set_modified(written).unwrap();
            path
        };
        fs::create_dir_all(&commands).unwrap();
        let none = newest(&commands);
        let installed = put("../lib/umcg", 30);
        let only = newest(&commands);
        let stale = put("", 20);
        let beside = newest(&commands);
        let built = put("deps", 10);
        let last = newest(&commands);
        put("", 10);
        let equal = newest(&commands);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(none, None);
        assert_eq!(only, Some(installed));
        assert_eq!(beside.as_ref(), Some(&stale));
        assert_eq!(last, Some(built));
        assert_eq!(equal, Some(stale));
    }
}
