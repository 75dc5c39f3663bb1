//! The driver that the caller's input and output uses.

use super::driver::Driver;
use crate::rt::api::global;
use std::io;

/// The driver of the caller's runtime, or of the global one if the caller is in none.
pub(crate) fn driver() -> io::Result<Driver> {
    Ok(Driver::of(global::shared_of_caller()?).clone())
}
