//! Files whose slow operations park their worker.
//!
//! Opening, reading, writing and syncing use io_uring where there is one. A read first tries the
//! page cache. Everything else runs in a [`crate::blocking`] scope; without io_uring, everything
//! does. The functions and types are std's where there is no difference.
//!
//! An aborted worker ends once its operation has ended: the kernel is asked to cancel the
//! operation, and may or may not do so.

mod file;

pub use file::{File, OpenOptions};
pub use std::fs::{DirEntry, FileTimes, FileType, Metadata, Permissions};

use crate::blocking;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::vec;

/// Reads a whole file.
///
/// # Errors
/// Those of opening and reading.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(path)?.read_to_end(&mut contents)?;
    Ok(contents)
}

/// Reads a whole file of UTF-8.
///
/// # Errors
/// Those of opening and reading; `InvalidData` if it is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut contents = String::new();
    File::open(path)?.read_to_string(&mut contents)?;
    Ok(contents)
}

/// Replaces a file's contents by `contents`.
///
/// # Errors
/// Those of opening and writing.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Copies a file's contents and permissions. Returns the number of bytes.
///
/// # Errors
/// As std's.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    blocking(|| std::fs::copy(from, to))
}

/// Gives a file another name.
///
/// # Errors
/// As std's.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    blocking(|| std::fs::rename(from, to))
}

/// A second name for a file.
///
/// # Errors
/// As std's.
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    blocking(|| std::fs::hard_link(original, link))
}

macro_rules! by_path {
    ($($(#[$doc:meta])* $name:ident -> $result:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// As std's.
            pub fn $name<P: AsRef<Path>>(path: P) -> io::Result<$result> {
                blocking(|| std::fs::$name(path))
            }
        )*
    };
}

by_path! {
    /// A file's metadata. Follows symbolic links.
    metadata -> Metadata;
    /// The metadata of a file, or of a symbolic link itself.
    symlink_metadata -> Metadata;
    /// The path without symbolic links and dots.
    canonicalize -> PathBuf;
    /// The target of a symbolic link.
    read_link -> PathBuf;
    /// Makes a folder.
    create_dir -> ();
    /// Makes a folder and its missing parents.
    create_dir_all -> ();
    /// Removes a file.
    remove_file -> ();
    /// Removes an empty folder.
    remove_dir -> ();
    /// Removes a folder and its contents.
    remove_dir_all -> ();
}

/// Whether the file exists.
///
/// # Errors
/// If that cannot be found out.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    blocking(|| std::fs::exists(path))
}

/// Sets a file's permissions.
///
/// # Errors
/// As std's.
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    blocking(|| std::fs::set_permissions(path, permissions))
}

/// The entries of a folder at the time when it was read.
#[derive(Debug)]
pub struct ReadDir(vec::IntoIter<io::Result<DirEntry>>);

/// Reads a folder.
///
/// # Errors
/// As std's.
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    // All at once: a hop to a helper thread for each entry would cost more than the entry.
    blocking(|| {
        Ok(ReadDir(
            std::fs::read_dir(path)?.collect::<Vec<_>>().into_iter(),
        ))
    })
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
