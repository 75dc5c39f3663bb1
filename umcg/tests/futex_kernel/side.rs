//! The two sides of a comparison.

use std::io::Error;
use std::sync::atomic::AtomicU32;
use umcg::futex::kernel::{self, Outcome};

pub(crate) const WAIT: usize = 0;
pub(crate) const WAKE: usize = 1;
pub(crate) const REQUEUE: usize = 3;
pub(crate) const CMP_REQUEUE: usize = 4;
pub(crate) const WAKE_OP: usize = 5;
pub(crate) const WAIT_BITSET: usize = 9;
pub(crate) const WAKE_BITSET: usize = 10;
pub(crate) const PRIVATE: usize = 128;
pub(crate) const REALTIME: usize = 256;
pub(crate) const ALL: usize = u32::MAX as usize;
pub(crate) const MOST: usize = i32::MAX as usize;

/// Which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Futex,
    Waitv,
    Wait,
    Wake,
    Requeue,
}

/// The party that serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Kernel,
    Ours,
}

impl Side {
    /// Makes the call: the result, or a negated errno.
    pub(crate) fn call(self, call: Call, arguments: [usize; 6]) -> isize {
        match self {
            Side::Kernel => in_kernel(call, arguments),
            Side::Ours => match ours(call, arguments) {
                Outcome::Done(result) => result,
                Outcome::Kernel => in_kernel(call, arguments),
                other => panic!("{other:?}"),
            },
        }
    }

    pub(crate) fn futex(self, arguments: [usize; 6]) -> isize {
        self.call(Call::Futex, arguments)
    }

    /// Wakes so many.
    pub(crate) fn wake(self, word: &AtomicU32, count: usize) -> isize {
        self.futex([at(word), WAKE | PRIVATE, count, 0, 0, 0])
    }

    /// How many wait for the word: all are moved to where they are.
    pub(crate) fn waiting(self, word: &AtomicU32) -> isize {
        self.futex([at(word), REQUEUE | PRIVATE, 0, MOST, at(word), 0])
    }
}

fn in_kernel(call: Call, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let number = match call {
        Call::Futex => libc::SYS_futex,
        Call::Waitv => libc::SYS_futex_waitv,
        Call::Wake => 454,
        Call::Wait => 455,
        Call::Requeue => 456,
    };
    // SAFETY: the tests pass addresses of words that stay, or that are not there.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        -(Error::last_os_error().raw_os_error().unwrap() as isize)
    } else {
        result as isize
    }
}

/// The call of the library.
pub(crate) fn ours(call: Call, arguments: [usize; 6]) -> Outcome {
    let serve: unsafe fn(&[usize; 6]) -> Outcome = match call {
        Call::Futex => kernel::futex,
        Call::Waitv => kernel::waitv,
        Call::Wait => kernel::futex_wait,
        Call::Wake => kernel::futex_wake,
        Call::Requeue => kernel::futex_requeue,
    };
    // SAFETY: as above.
    unsafe { serve(&arguments) }
}

pub(crate) fn at<T>(word: &T) -> usize {
    std::ptr::from_ref(word).expose_provenance()
}

/// Waits by the library until it is woken, or the word has another value. The result.
pub(crate) fn wait(word: &AtomicU32, value: u32) -> isize {
    Side::Ours.futex([at(word), WAIT | PRIVATE, value as usize, 0, 0, 0])
}

/// A word in a list of futex_waitv.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Item {
    pub(crate) value: u64,
    pub(crate) address: u64,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
}

impl Item {
    /// A private word.
    pub(crate) fn new(address: usize, value: u32) -> Item {
        Item {
            value: value.into(),
            address: address as u64,
            flags: 2 | PRIVATE as u32,
            reserved: 0,
        }
    }

    /// The same word, but shared.
    pub(crate) fn shared(self) -> Item {
        Item { flags: 2, ..self }
    }
}

/// The arguments of a wait for a list.
pub(crate) fn waitv(list: &[Item], timeout: usize, clock: i32) -> [usize; 6] {
    [
        list.as_ptr().expose_provenance(),
        list.len(),
        0,
        timeout,
        clock as usize,
        0,
    ]
}

/// The time in seconds and nanoseconds, so many milliseconds from now.
pub(crate) fn later(clock: i32, milliseconds: i64) -> [i64; 2] {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let nanos = now.tv_nsec + milliseconds * 1_000_000;
    [
        now.tv_sec + nanos.div_euclid(1_000_000_000),
        nanos.rem_euclid(1_000_000_000),
    ]
}
