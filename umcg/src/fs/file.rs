//! One file.

use super::{FileTimes, Metadata, Permissions};
use crate::blocking;
use crate::io::operation::{self, reads, writes};
use crate::io::raw_fd::raw_fd;
use std::ffi::CString;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

/// An open file. All values made of it by [`File::try_clone`] share its position.
#[derive(Debug)]
pub struct File {
    inner: std::fs::File,
}

/// Options for opening a file.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    flags: i32,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&mut self, $name: $type) -> &mut OpenOptions {
                self.$name = $name;
                self
            }
        )*
    };
}

impl OpenOptions {
    /// Options with nothing chosen yet.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            flags: 0,
        }
    }

    choices! {
        /// Open it for reading.
        read: bool;
        /// Open it for writing.
        write: bool;
        /// Open it for writing, always at the end.
        append: bool;
        /// Empty it first. Requires `write`.
        truncate: bool;
        /// Make it if it does not exist. Requires `write` or `append`.
        create: bool;
        /// Make it; an error if it exists. Requires `write` or `append`.
        create_new: bool;
        /// The permissions of a new file, less the process's mask.
        mode: u32;
    }

    /// More flags for `open(2)`. Access flags among them are ignored.
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.flags = flags & !libc::O_ACCMODE;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// `InvalidInput` for options that do not go together, and the kernel's.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let flags = self.access()? | self.creation()? | self.flags | libc::O_CLOEXEC;
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        Ok(File::from(operation::open(&path, flags, self.mode)?))
    }

    fn access(&self) -> io::Result<i32> {
        match (self.read, self.write, self.append) {
            (true, false, false) => Ok(libc::O_RDONLY),
            (false, true, false) => Ok(libc::O_WRONLY),
            (true, true, false) => Ok(libc::O_RDWR),
            (false, _, true) => Ok(libc::O_WRONLY | libc::O_APPEND),
            (true, _, true) => Ok(libc::O_RDWR | libc::O_APPEND),
            (false, false, false) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn creation(&self) -> io::Result<i32> {
        let unwritable =
            !self.write && !self.append && (self.truncate || self.create || self.create_new);
        if unwritable || (self.append && self.truncate && !self.create_new) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(match (self.create, self.truncate, self.create_new) {
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
            (create, truncate, false) => {
                (if create { libc::O_CREAT } else { 0 })
                    | (if truncate { libc::O_TRUNC } else { 0 })
            }
        })
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, and empties it. Makes it if it does not exist.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
    }

    /// Makes a file for reading and writing. It must not exist yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    }

    /// Options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until contents and metadata are on the disk.
    ///
    /// # Errors
    /// They could not be written.
    pub fn sync_all(&self) -> io::Result<()> {
        operation::sync(self.as_fd(), false)
    }

    /// Waits until contents are on the disk, and the metadata that is needed to read them.
    ///
    /// # Errors
    /// They could not be written.
    pub fn sync_data(&self) -> io::Result<()> {
        operation::sync(self.as_fd(), true)
    }

    /// Reads at `offset`. Does not use the position.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        operation::read(self.as_fd(), buffer, Some(offset))
    }

    /// Writes at `offset`. Does not use the position.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        operation::write(self.as_fd(), buffer, Some(offset))
    }

    /// Fills the buffer from `offset` on. Does not use the position.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before, and the kernel's.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset.saturating_add(done as u64))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => done += more,
            }
        }
        Ok(())
    }

    /// Writes the whole buffer from `offset` on. Does not use the position.
    ///
    /// # Errors
    /// `WriteZero` if the file takes no more, and the kernel's.
    pub fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.write_at(&buffer[done..], offset.saturating_add(done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => done += more,
            }
        }
        Ok(())
    }

    /// Sets the file's length.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        blocking(|| self.inner.set_len(length))
    }

    /// The file's metadata.
    ///
    /// # Errors
    /// The kernel's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.inner.metadata())
    }

    /// Sets the file's permissions.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        blocking(|| self.inner.set_permissions(permissions))
    }

    /// Sets the times when the file was last read and changed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        blocking(|| self.inner.set_times(times))
    }

    /// Sets the time when the file was last changed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Another value for the same open file.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File {
            inner: self.inner.try_clone()?,
        })
    }
}

reads!(File, &File);
writes!(File, &File);

// The position is a number in the kernel. Only the end of the file is asked of the file system,
// which does not block for that.
impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&self.inner).seek(to)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

raw_fd!(File: AsRawFd, IntoRawFd, FromRawFd);

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> File {
        File { inner: fd.into() }
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.inner.into()
    }
}

impl From<std::fs::File> for File {
    fn from(inner: std::fs::File) -> File {
        File { inner }
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        file.inner
    }
}
