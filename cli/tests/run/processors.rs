//! The processors that threads may use.

use std::io;

/// A set of processors, as the kernel has it.
pub(crate) struct Processors([u64; 16]);

impl Processors {
    /// Those that this thread may use.
    pub(crate) fn allowed() -> Processors {
        let mut set = [0; 16];
        let place = (&raw mut set).cast();
        // SAFETY: room for a set of that size.
        let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), place) };
        assert_eq!(result, 0);
        Processors(set)
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Processors {
        let mut first = [0; 16];
        let index = self.0.iter().position(|word| *word != 0).unwrap();
        first[index] = self.0[index] & self.0[index].wrapping_neg();
        Processors(first)
    }

    /// From now on this thread, or the caller for 0, may use these only.
    pub(crate) fn give(&self, thread: i32) -> io::Result<()> {
        let set = &self.0;
        // SAFETY: a set of that size.
        let result =
            unsafe { libc::sched_setaffinity(thread, size_of_val(set), (&raw const *set).cast()) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
