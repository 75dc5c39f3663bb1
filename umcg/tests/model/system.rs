//! The system calls and fences of the sources, as the checker has them.

/// For `umcg_core::asymmetric`. Fences are nothing to the checker; but a switch may come there.
pub mod asymmetric {
    /// As the library's.
    pub fn light() {
        shuttle::thread::yield_now();
    }

    /// As the library's.
    pub fn heavy() {
        shuttle::thread::yield_now();
    }
}

/// For `umcg_core::raw`.
pub mod raw {
    /// A server's right to run workers, which a model does not need.
    #[derive(Clone, Copy)]
    pub struct Server;
}

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

/// For `rustix::thread`.
pub mod thread {
    /// A time of the model's clock.
    #[derive(Clone, Copy)]
    pub struct Timespec(pub u64);

    /// Sleeping on a word.
    pub mod futex {
        use crate::io::Errno;
        use shuttle::sync::atomic::AtomicU32;
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
            until: Option<&super::Timespec>,
            _: NonZeroU32,
        ) -> Result<(), Errno> {
            crate::kernel::sleep(word, expected, until.map_or(u64::MAX, |until| until.0))
        }

        /// As rustix's.
        #[allow(clippy::missing_errors_doc, reason = "as rustix's")]
        pub fn wake(word: &AtomicU32, _: Flags, count: u32) -> Result<usize, Errno> {
            crate::kernel::wake(word, count);
            Ok(count as usize)
        }
    }
}
