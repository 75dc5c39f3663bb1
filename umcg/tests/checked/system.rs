//! The system calls of the sources, by the names that rustix has for them, on the checker's kernel.

/// For `rustix::io`.
pub mod io {
    /// The errors of a futex.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Errno(u8);

    impl Errno {
        /// The word has another value.
        pub const AGAIN: Errno = Errno(0);
        /// The time has passed.
        pub const TIMEDOUT: Errno = Errno(1);
        /// A signal handler ran.
        pub const INTR: Errno = Errno(2);
    }
}

/// A time of the model's clock.
#[derive(Clone, Copy)]
pub struct Timespec(pub u64);

/// Sleeping on a word.
pub mod futex {
    use super::Timespec;
    use super::io::Errno;
    use crate::checker::kernel;
    use crate::rt::sync::AtomicU32;
    use std::num::NonZeroU32;

    /// There is one.
    pub struct Flags;

    impl Flags {
        /// Within the process.
        pub const PRIVATE: Flags = Flags;
    }

    /// As rustix's.
    #[allow(clippy::missing_errors_doc, reason = "as rustix's")]
    pub fn wait_bitset(
        word: &AtomicU32,
        _: Flags,
        expected: u32,
        until: Option<&Timespec>,
        _: NonZeroU32,
    ) -> Result<(), Errno> {
        kernel::sleep(word, expected, until.map_or(u64::MAX, |until| until.0))
    }

    /// As rustix's, but for the count, which nobody looks at.
    #[allow(clippy::missing_errors_doc, reason = "as rustix's")]
    pub fn wake(word: &AtomicU32, _: Flags, count: u32) -> Result<usize, Errno> {
        kernel::wake(word, count);
        Ok(count as usize)
    }
}
