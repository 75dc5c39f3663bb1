//! Standard output, for results only.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write, stdout};

/// Prints. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &[u8]) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
