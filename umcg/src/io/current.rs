//! The driver that the caller's input and output goes by.

use super::driver::Driver;
use crate::rt::api::global;
use std::io;

/// The driver of the caller's runtime; of the global one for a caller in none.
pub(crate) fn driver() -> io::Result<Driver> {
    Ok(Driver::of(global::shared_of_caller()?).clone())
}
