//! A pipe each way, one byte a hand-over.

use super::pair::{HandOver, Party};
use anyhow::{Result, ensure};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

struct Ends {
    read: File,
    write: File,
}

pub(super) struct Pipe {
    main: Ends,
    worker: Ends,
}

fn pipe() -> Result<Ends> {
    let mut fds = [0; 2];
    // SAFETY: has room for two descriptors.
    let rc = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
    ensure!(rc == 0, "pipe2: {}", io::Error::last_os_error());
    // SAFETY: just opened, and owned by this function only.
    let [read, write] = fds.map(|fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok(Ends { read, write })
}

impl Pipe {
    #[inline(always)]
    fn way(&self, party: Party) -> &Ends {
        match party {
            Party::Main => &self.main,
            Party::Worker => &self.worker,
        }
    }
}

impl HandOver for Pipe {
    fn new() -> Result<Self> {
        Ok(Self {
            main: pipe()?,
            worker: pipe()?,
        })
    }

    #[inline(always)]
    fn give(&self, to: Party) {
        // Both ends are open as long as `self` is, and one byte always has room.
        (&self.way(to).write)
            .write_all(&[1])
            .expect("writing to an open pipe");
    }

    #[inline(always)]
    fn await_turn(&self, me: Party) {
        (&self.way(me).read)
            .read_exact(&mut [0])
            .expect("reading from an open pipe");
    }
}
